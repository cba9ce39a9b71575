//go:build unix

package live

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// canRedraw reports whether terminals of this system understand the sequences of a screen.
const canRedraw = true

// sizeOf is the size of a terminal; 0 if it does not say so.
func sizeOf(terminal *os.File) (width, height int) {
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// notifyResized returns what receives when the size of the terminal changes, until ctx ends.
func notifyResized(ctx context.Context) <-chan os.Signal {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	context.AfterFunc(ctx, func() { signal.Stop(resized) })
	return resized
}
