// Package wire is a network cable between a client and a server of a test, which can be cut in the ways that
// networks fail: refused, silent in one direction or in both, slow.
package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// chunk is how much one read takes off a connection: at least a whole TLS record.
const chunk = 32 << 10

// Direction of the bytes on a wire.
type Direction int

// The directions.
const (
	// Up is from the client to the server, Down the other way.
	Up Direction = iota
	Down
)

// Wire listens on a loopback port and passes connections on to its target.
type Wire struct {
	network string // of the target, as for net.Dial
	target  string
	address string
	// port keeps the port bound while the wire refuses connections.
	port int

	mu       sync.Mutex
	listener net.Listener
	pairs    map[*pair]bool
	silent   [2]bool
	delay    time.Duration
	// changed is closed and recreated whenever silent or delay change.
	changed chan struct{}
	closed  bool
	running sync.WaitGroup
}

// pair is one connection and its continuation to the target.
type pair struct{ client, server net.Conn }

func (p *pair) reset() {
	for _, end := range []net.Conn{p.client, p.server} {
		// A unix socket has nothing to reset.
		if tcp, ok := end.(*net.TCPConn); ok {
			tcp.SetLinger(0) //nolint:errcheck // It is closed either way.
		}
		end.Close()
	}
}

// New lays a wire to target, a host:port. It passes everything on at first.
func New(target string) (*Wire, error) { return lay("tcp4", target) }

// NewToSocket lays a wire to the unix socket at path, which need not be there yet.
func NewToSocket(path string) (*Wire, error) { return lay("unix", path) }

func lay(network, target string) (*Wire, error) {
	port, address, err := reserve()
	if err != nil {
		return nil, err
	}
	w := &Wire{network: network, target: target, address: address, port: port, pairs: map[*pair]bool{}, changed: make(chan struct{})}
	if err := w.Mend(); err != nil {
		return nil, errors.Join(err, unix.Close(port))
	}
	return w, nil
}

// Address is the host:port to which clients connect.
func (w *Wire) Address() string { return w.address }

// Refuse breaks all connections and refuses new ones.
func (w *Wire) Refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopListening()
	for one := range w.pairs {
		one.reset()
	}
}

// Silence lets the bytes of some directions wait, as a network that drops packets does. Connections stay and new
// ones are taken; all continues with Mend.
func (w *Wire) Silence(directions ...Direction) {
	w.set(func() {
		w.silent = [2]bool{}
		for _, direction := range directions {
			w.silent[direction] = true
		}
	})
}

// Slow makes each piece of data, in both directions, take that much longer.
func (w *Wire) Slow(delay time.Duration) { w.set(func() { w.delay = delay }) }

// Mend ends whatever is wrong with the wire.
func (w *Wire) Mend() error {
	w.set(func() { w.silent, w.delay = [2]bool{}, 0 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil || w.closed {
		return nil
	}
	config := net.ListenConfig{Control: sharePort}
	listener, err := config.Listen(context.Background(), "tcp4", w.address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", w.address, err)
	}
	w.listener = listener
	w.running.Go(func() { w.accept(listener) })
	return nil
}

// Close takes the wire away and returns when nothing of it runs.
func (w *Wire) Close() error {
	w.Refuse()
	w.set(func() { w.closed = true })
	w.running.Wait()
	return unix.Close(w.port)
}

func (w *Wire) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *Wire) stopListening() {
	if w.listener != nil {
		w.listener.Close()
		w.listener = nil
	}
}

func (w *Wire) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // Closed by Refuse.
		}
		w.running.Go(func() { w.carry(client) })
	}
}

// carry passes one connection on until an end closes it.
func (w *Wire) carry(client net.Conn) {
	server, err := net.Dial(w.network, w.target)
	if err != nil {
		(&pair{client, client}).reset()
		return
	}
	one := &pair{client, server}
	w.mu.Lock()
	cut := w.listener == nil
	w.pairs[one] = true
	w.mu.Unlock()
	if cut {
		one.reset()
	}
	var both sync.WaitGroup
	both.Go(func() { w.copy(server, client, Up) })
	both.Go(func() { w.copy(client, server, Down) })
	both.Wait()
	one.reset()
	w.mu.Lock()
	delete(w.pairs, one)
	w.mu.Unlock()
}

func (w *Wire) copy(to, from net.Conn, direction Direction) {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !w.pass(direction) {
				break
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		half.CloseWrite() //nolint:errcheck // The other end may be gone.
	}
}

// pass waits until data of direction may continue, and reports whether the wire is still there.
func (w *Wire) pass(direction Direction) bool {
	for {
		w.mu.Lock()
		silent, delay, changed, closed := w.silent[direction], w.delay, w.changed, w.closed
		w.mu.Unlock()
		switch {
		case closed:
			return false
		case silent:
			<-changed
			continue
		case delay == 0:
			return true
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
			return true
		case <-changed:
			timer.Stop()
		}
	}
}

// reserve binds a free loopback port without listening on it, in a way that listeners can share.
func reserve() (socket int, address string, err error) {
	socket, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, "", fmt.Errorf("making a socket: %w", err)
	}
	if err := bind(socket); err != nil {
		return 0, "", errors.Join(fmt.Errorf("reserving a port: %w", err), unix.Close(socket))
	}
	name, err := unix.Getsockname(socket)
	if err != nil {
		return 0, "", errors.Join(fmt.Errorf("reading the reserved port: %w", err), unix.Close(socket))
	}
	bound, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return 0, "", errors.Join(fmt.Errorf("reserving a port: unexpected address %T", name), unix.Close(socket))
	}
	return socket, fmt.Sprintf("127.0.0.1:%d", bound.Port), nil
}

func bind(socket int) error {
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	return unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
}
