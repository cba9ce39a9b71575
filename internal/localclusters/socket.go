package localclusters

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// longestSocketPath is what an address of a socket has room for on Linux.
const longestSocketPath = 107

// ListenSocket listens at the path of a socket, which may be longer than an address has room for. The file stays when the listener is
// closed.
func ListenSocket(ctx context.Context, config net.ListenConfig, path string) (net.Listener, error) {
	address, release, err := shortenPath(path)
	if err != nil {
		return nil, err
	}
	listener, err := config.Listen(ctx, "unix", address)
	if err = errors.Join(err, release()); err != nil {
		return nil, fmt.Errorf("listening at %s: %w", path, err)
	}
	if socket, is := listener.(*net.UnixListener); is {
		socket.SetUnlinkOnClose(false) // The address may name another directory by then.
	}
	return listener, nil
}

// dialSocket connects to a socket at a path of any length.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	address, release, err := shortenPath(path)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
	return conn, errors.Join(err, release())
}

// shortenPath returns an address of the socket that is valid until release is called.
func shortenPath(path string) (address string, release func() error, err error) {
	if len(path) <= longestSocketPath {
		return path, func() error { return nil }, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, fmt.Errorf("opening the directory of a socket: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), dir.Close, nil
}
