package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// settleTime is how long WatchInterfaces waits after a change for the ones that
// come with it: a new device, its addresses, its link.
const settleTime = 20 * time.Millisecond

// WatchInterfaces calls changed with the devices that names stand for, at once
// and whenever they change, until ctx is done, which is no error. A device that
// comes back under its name has a new index; one that is away is Missing. It
// follows rtnetlink(7) and needs no privilege.
func WatchInterfaces(ctx context.Context, names []string, changed func(Interfaces)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open rtnetlink socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "rtnetlink")
	defer file.Close()
	groups := unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: uint32(groups)}); err != nil {
		return fmt.Errorf("bind rtnetlink socket: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Now()) })
	defer stop()

	last, _, err := resolveInterfaces(names)
	if err != nil {
		return err
	}
	for changed(last); ; {
		if err := waitForChange(ctx, file); err != nil || ctx.Err() != nil {
			return err
		}
		now, _, err := resolveInterfaces(names)
		if err != nil {
			return err
		}
		if !slices.Equal(now.Indexes, last.Indexes) || !slices.Equal(now.Missing, last.Missing) {
			last = now
			changed(now)
		}
	}
}

// waitForChange returns once something changed and settled, or ctx is done.
// What the messages say does not matter: the caller looks for itself.
func waitForChange(ctx context.Context, file *os.File) error {
	buf := make([]byte, 64<<10)
	wait := time.Time{}
	for {
		file.SetReadDeadline(wait)
		if ctx.Err() != nil { // asked after the deadline is set, or its wake is lost
			return nil
		}
		_, err := file.Read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil && !errors.Is(err, unix.ENOBUFS): // ENOBUFS: there was more than fits
			return fmt.Errorf("read rtnetlink socket: %w", err)
		}
		if wait.IsZero() {
			wait = time.Now().Add(settleTime)
		}
	}
}
