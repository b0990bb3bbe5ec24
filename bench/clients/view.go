package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// A View is one thing that a client did and what it was told.
type View struct {
	Step   int    `json:"step"`
	Thread uint64 `json:"thread"` // the server's connection id

	// Word is the command as the general log names it; "Connect" and "Refused"
	// are logins. A driver may do more, or otherwise, than the program asked:
	//
	//	Interpolated  a Query whose text is Text with Params in place of each ?
	//	Batch         executions of Text with several rows, as the driver likes
	//	Called        CALL with output parameters, as the driver likes
	//	Switch        a change of the schema to Text, as the driver likes
	Word string `json:"word"`
	Text string `json:"text,omitempty"`
	// Params are the bound values as MySQL prints them, nil for NULL, bytes in
	// hex behind \x, and \? where the driver is known to send something else.
	Params []*string `json:"params,omitempty"`

	User string `json:"user,omitempty"`
	DB   string `json:"db,omitempty"`

	// What the client was told; nil = it was not told.
	Rows     *int64 `json:"rows,omitempty"` // over all results
	Affected *int64 `json:"affected,omitempty"`
	Error    *int64 `json:"error,omitempty"` // 0 = none
	Count    *int64 `json:"count,omitempty"` // rows of a Batch
}

// ReadViews reads what a client program printed, one JSON object per line.
func ReadViews(r io.Reader) ([]View, error) {
	var views []View
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var v View
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return nil, fmt.Errorf("view %d: %w: %.200s", len(views)+1, err, lines.Bytes())
		}
		views = append(views, v)
	}
	return views, lines.Err()
}
