package wire

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// sharePort lets a listener have the port that the wire keeps reserved.
func sharePort(_, _ string, raw syscall.RawConn) error {
	var shared error
	err := raw.Control(func(socket uintptr) {
		shared = unix.SetsockoptInt(int(socket), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if err != nil {
		return err
	}
	return shared
}
