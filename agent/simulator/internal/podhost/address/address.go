// Package address gives every pod of this machine a loopback address of its own. 127.0.0.0/8 is divided into ranges. A podhost takes a
// whole range by listening on the range's first address at a fixed port: the kernel lets only one process do so and gives the range back
// when that process ends.
package address

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

const (
	// Port is the port whose listener holds a range. It lies below the ports that the kernel gives to clients.
	Port = 17250
	// A range has 16,384 addresses, as the prefix length and as the third byte count them.
	rangeBits, rangeStep = 18, 64
	// The ranges start past those in which distributions configure addresses of their own, such as 127.0.1.1 and 127.0.0.53.
	firstRange, lastRange = 64, 255
)

// Range is a range of addresses that belongs to this process.
type Range struct {
	// Host is the range's first address. It belongs to the podhost itself.
	Host net.IP
	// Listener holds the range. It may be served from. Closing it gives the range back.
	Listener net.Listener
	free     *ipallocator.Range
}

// Claim takes the first range that is free.
func Claim() (*Range, error) {
	for second := firstRange; second <= lastRange; second++ {
		for third := 0; third <= lastRange; third += rangeStep {
			base := net.IPv4(127, byte(second), byte(third), 0)
			r, err := claim(base)
			if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
				return r, err
			}
		}
	}
	return nil, errors.New("claiming a loopback address range: all are taken by other podhosts")
}

func claim(base net.IP) (*Range, error) {
	host := net.IPv4(base[12], base[13], base[14], 1)
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: host, Port: Port})
	if err != nil {
		return nil, fmt.Errorf("claiming the address range of %s: %w", host, err)
	}
	free, err := ipallocator.NewInMemory(&net.IPNet{IP: base.To4(), Mask: net.CIDRMask(rangeBits, 32)})
	if err == nil {
		err = free.Allocate(host)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("claiming the address range of %s: %w", host, err), listener.Close())
	}
	return &Range{Host: host, Listener: listener, free: free}, nil
}

// Allocate takes an address: the preferred one if it is of this range and free.
func (r *Range) Allocate(preferred string) (net.IP, error) {
	if ip := net.ParseIP(preferred); ip != nil && r.free.Allocate(ip) == nil {
		return ip, nil
	}
	ip, err := r.free.AllocateNext()
	if err != nil {
		return nil, fmt.Errorf("allocating an address for a pod: %w", err)
	}
	return ip, nil
}

// Release gives an address back.
func (r *Range) Release(ip net.IP) { _ = r.free.Release(ip) } // One in memory does not fail.
