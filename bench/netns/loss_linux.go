package netns

import (
	"errors"
	"fmt"
)

// LosePackets drops so many of a thousand TCP packets that the namespace sends,
// and as many of those that it has received: the latter were on its wire, and come
// again. It needs nft(8).
func (n *Namespace) LosePackets(perThousand int) error {
	rule := fmt.Sprintf("numgen random mod 1000 < %d drop", perThousand)
	errs := []error{run(n.Command("nft", "add", "table", "inet", "loss"))}
	for _, hook := range []string{"input", "output"} {
		errs = append(errs,
			run(n.Command("nft", "add", "chain", "inet", "loss", hook, "{ type filter hook "+hook+" priority 0 ; }")),
			run(n.Command("nft", "add", "rule", "inet", "loss", hook, "meta l4proto tcp "+rule)))
	}
	return errors.Join(errs...)
}
