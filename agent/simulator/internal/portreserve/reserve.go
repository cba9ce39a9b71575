// Package portreserve keeps a TCP port for a process that is started later.
//
// Choosing a free port, closing it and starting a server on it leaves a gap in
// which another process can take the port, and so does every restart of that
// server. A Reservation has no such gap: it holds a socket that is bound to
// the port but does not listen. A server of the same user that sets
// SO_REUSEPORT can bind to the port besides it; all others are refused.
package portreserve

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ErrTaken is wrapped by Reserve's error when another process has the port.
var ErrTaken = errors.New("port is taken by another process")

// Reservation is a port that is held until Release.
type Reservation struct {
	address netip.AddrPort
	fd      int
}

// attempts bounds how often a free port is chosen again because another process
// took it first.
const attempts = 20

// Reserve takes the port on the IP address. Port 0 takes a free one. The
// server that will use it must set SO_REUSEPORT and run as the same user.
func Reserve(ip netip.Addr, port int) (*Reservation, error) {
	if port != 0 {
		return reservePort(ip, port)
	}
	var taken error
	for range attempts {
		free, err := freePort(ip)
		if err != nil {
			return nil, fmt.Errorf("choosing a free port on %s: %w", ip, err)
		}
		reservation, err := reservePort(ip, free)
		if !errors.Is(err, ErrTaken) {
			return reservation, err
		}
		taken = err
	}
	return nil, fmt.Errorf("choosing a free port on %s: %d were taken by others in between: %w", ip, attempts, taken)
}

// freePort learns the number of a port that is free now. A socket bound to
// port 0 can't become the reservation itself: when it stops listening, the
// kernel takes back a port that was not asked for by number.
func freePort(ip netip.Addr) (int, error) {
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

func reservePort(ip netip.Addr, port int) (*Reservation, error) {
	address := netip.AddrPortFrom(ip, uint16(port))
	family := unix.AF_INET
	if ip.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a socket: %w", err)
	}
	if err := bindSocket(fd, address); err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("reserving %s: %w", address, ErrTaken)
		}
		return nil, fmt.Errorf("reserving %s: %w", address, err)
	}
	return &Reservation{address: address, fd: fd}, nil
}

// bindSocket binds the socket so that exactly one of several callers gets the port.
// SO_REUSEADDR is needed to bind while connections of an earlier server are in
// TIME_WAIT, but it also lets two sockets bind that both don't listen; only
// listening excludes the other. Once that is decided, the options are changed
// so that no exclusive bind can succeed any more but a sharing one can, and
// the socket stops listening, for else it would be given connections.
func bindSocket(fd int, address netip.AddrPort) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("setting SO_REUSEADDR: %w", err)
	}
	if err := unix.Bind(fd, socketAddress(address)); err != nil {
		return fmt.Errorf("binding: %w", err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 0); err != nil {
		return fmt.Errorf("clearing SO_REUSEADDR: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return fmt.Errorf("setting SO_REUSEPORT: %w", err)
	}
	if err := unix.Shutdown(fd, unix.SHUT_RDWR); err != nil {
		return fmt.Errorf("ending to listen: %w", err)
	}
	return nil
}

func socketAddress(address netip.AddrPort) unix.Sockaddr {
	if address.Addr().Is6() {
		return &unix.SockaddrInet6{Addr: address.Addr().As16(), Port: int(address.Port())}
	}
	return &unix.SockaddrInet4{Addr: address.Addr().As4(), Port: int(address.Port())}
}

// Port is the reserved port.
func (r *Reservation) Port() int { return int(r.address.Port()) }

// Address is the reserved address as host:port.
func (r *Reservation) Address() string { return r.address.String() }

// Release gives the port back. Calling it again does nothing.
func (r *Reservation) Release() error {
	if r.fd < 0 {
		return nil
	}
	err := unix.Close(r.fd)
	r.fd = -1
	return err
}
