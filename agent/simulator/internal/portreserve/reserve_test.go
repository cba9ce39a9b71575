package portreserve_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/portreserve"
)

var loopback = netip.MustParseAddr("127.0.0.1")

func reserve(t *testing.T, port int) *portreserve.Reservation {
	t.Helper()
	reservation, err := portreserve.Reserve(loopback, port)
	if err != nil {
		t.Fatalf("reserving port %d: %v", port, err)
	}
	t.Cleanup(func() { _ = reservation.Release() })
	return reservation
}

func listen(address string, shared bool) (net.Listener, error) {
	config := net.ListenConfig{}
	if shared {
		config.Control = func(_, _ string, conn syscall.RawConn) error {
			var sockErr error
			err := conn.Control(func(fd uintptr) {
				sockErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
			})
			return errors.Join(err, sockErr)
		}
	}
	return config.Listen(context.Background(), "tcp", address)
}

func TestReservedPortIsRefusedToOthers(t *testing.T) {
	reservation := reserve(t, 0)
	if listener, err := listen(reservation.Address(), false); err == nil {
		listener.Close()
		t.Errorf("another server could listen on the reserved %s", reservation.Address())
	}
	if _, err := portreserve.Reserve(loopback, reservation.Port()); !errors.Is(err, portreserve.ErrTaken) {
		t.Errorf("a second reservation of the port gave %v, want ErrTaken", err)
	}
}

func TestTakenPortIsReported(t *testing.T) {
	listener, err := listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	if _, err := portreserve.Reserve(loopback, port); !errors.Is(err, portreserve.ErrTaken) {
		t.Errorf("reserving a port in use gave %v, want ErrTaken", err)
	}
}

// A server must get all connections to its reserved port, again after each of
// its restarts, and also while old connections are in TIME_WAIT.
func TestSharingServerGetsEveryConnection(t *testing.T) {
	reservation := reserve(t, 0)
	for restart := range 3 {
		listener, err := listen(reservation.Address(), true)
		if err != nil {
			t.Fatalf("start %d of the server on its reserved port: %v", restart, err)
		}
		for range 50 {
			exchange(t, listener)
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		if conn, err := net.Dial("tcp", reservation.Address()); err == nil {
			conn.Close()
			t.Fatal("a connection was accepted while no server was listening")
		}
	}
	if err := reservation.Release(); err != nil {
		t.Fatal(err)
	}
	again := reserve(t, reservation.Port())
	if again.Port() != reservation.Port() {
		t.Errorf("got port %d, want the released port %d", again.Port(), reservation.Port())
	}
}

// exchange makes one connection, which the server side closes first.
func exchange(t *testing.T, listener net.Listener) {
	t.Helper()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("reading from the closed connection gave %v, want EOF", err)
	}
}

func TestOnlyOneOfManyGetsThePort(t *testing.T) {
	for range 20 {
		free := reserve(t, 0)
		port := free.Port()
		if err := free.Release(); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		var mutex sync.Mutex
		var winners []*portreserve.Reservation
		for range 8 {
			group.Go(func() {
				if reservation, err := portreserve.Reserve(loopback, port); err == nil {
					mutex.Lock()
					defer mutex.Unlock()
					winners = append(winners, reservation)
				}
			})
		}
		group.Wait()
		for _, winner := range winners {
			_ = winner.Release()
		}
		if len(winners) != 1 {
			t.Fatalf("%d reservations of port %d succeeded at once, want 1", len(winners), port)
		}
	}
}
