// Package address gives every pod of this machine a loopback address of its
// own. 127.0.0.0/8 is divided into ranges. A podhost takes a whole range by
// listening on the range's first address at a fixed port: the kernel lets only
// one process do so and gives the range back when that process ends.
package address

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

const (
	// lockPort is the port whose listener holds a range. It lies below the
	// ports that the kernel gives to clients.
	lockPort = 17250
	// rangeBits is the prefix length of a range: 16,384 addresses.
	rangeBits = 18
)

var (
	// The ranges start past those in which distributions configure addresses
	// of their own, such as 127.0.1.1 and 127.0.0.53.
	firstRange = netip.MustParseAddr("127.64.0.0")
	lastRange  = netip.MustParseAddr("127.255.192.0")
)

// Range is a range of addresses that belongs to this process.
type Range struct {
	prefix   netip.Prefix
	listener net.Listener
}

// Claim takes the first range that is free.
func Claim() (*Range, error) {
	var lastErr error
	for base := firstRange; base.Compare(lastRange) <= 0; base = advance(base, 1<<(32-rangeBits)) {
		prefix := netip.PrefixFrom(base, rangeBits)
		listener, err := net.Listen("tcp4", net.JoinHostPort(host(prefix).String(), strconv.Itoa(lockPort)))
		if err == nil {
			return &Range{prefix: prefix, listener: listener}, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("claiming the address range %s: %w", prefix, err)
		}
		lastErr = err
	}
	return nil, fmt.Errorf("claiming a loopback address range: all are taken, the last with: %w", lastErr)
}

// Host is the range's first address. It belongs to the podhost itself.
func (r *Range) Host() netip.Addr { return host(r.prefix) }

// Port is the port of the listener.
func (r *Range) Port() int { return lockPort }

// Listener is the listener that holds the range. It may be served from.
// Closing it gives the range back.
func (r *Range) Listener() net.Listener { return r.listener }

// Prefix is the whole range.
func (r *Range) Prefix() netip.Prefix { return r.prefix }

// Release gives the range back.
func (r *Range) Release() error { return r.listener.Close() }

func host(prefix netip.Prefix) netip.Addr { return prefix.Addr().Next() }

// advance returns the address that many places further.
func advance(address netip.Addr, by uint32) netip.Addr {
	raw := address.As4()
	binary.BigEndian.PutUint32(raw[:], binary.BigEndian.Uint32(raw[:])+by)
	return netip.AddrFrom4(raw)
}
