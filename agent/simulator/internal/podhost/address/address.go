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
	"sync"
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

// Listener is the listener that holds the range. It may be served from. Closing it gives the range back.
func (r *Range) Listener() net.Listener { return r.listener }

// Prefix is the whole range.
func (r *Range) Prefix() netip.Prefix { return r.prefix }

func host(prefix netip.Prefix) netip.Addr { return prefix.Addr().Next() }

// advance returns the address that many places further.
func advance(address netip.Addr, by uint32) netip.Addr {
	raw := address.As4()
	binary.BigEndian.PutUint32(raw[:], binary.BigEndian.Uint32(raw[:])+by)
	return netip.AddrFrom4(raw)
}

// ErrExhausted is returned when every address of the pool is in use.
var ErrExhausted = errors.New("no pod address is left")

// Pool hands out the addresses of one range. An address that was given back is
// not handed out again before all the others had their turn, so that a late
// client of one pod does not reach another.
type Pool struct {
	prefix netip.Prefix
	mu     sync.Mutex
	used   map[netip.Addr]bool
	last   netip.Addr
}

// NewPool returns a pool of all addresses of the range but the host's.
func NewPool(prefix netip.Prefix) *Pool {
	return &Pool{prefix: prefix, used: make(map[netip.Addr]bool), last: host(prefix)}
}

// Get takes an address: the preferred one if it is of this range and free.
func (p *Pool) Get(preferred string) (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if address, err := netip.ParseAddr(preferred); err == nil && p.usable(address) && !p.used[address] {
		p.used[address] = true
		return address, nil
	}
	for candidate := p.next(p.last); ; candidate = p.next(candidate) {
		if p.usable(candidate) && !p.used[candidate] {
			p.used[candidate] = true
			p.last = candidate
			return candidate, nil
		}
		if candidate == p.last {
			return netip.Addr{}, ErrExhausted
		}
	}
}

// Put gives an address back.
func (p *Pool) Put(address netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, address)
}

// next returns the following address of the range, and the first one after
// the last.
func (p *Pool) next(address netip.Addr) netip.Addr {
	if following := address.Next(); p.prefix.Contains(following) {
		return following
	}
	return p.prefix.Addr()
}

// usable leaves out the host's address and those that look like the network
// or broadcast address of a /24, which some programs refuse.
func (p *Pool) usable(address netip.Addr) bool {
	if !p.prefix.Contains(address) || address == host(p.prefix) {
		return false
	}
	lowest := address.As4()[3]
	return lowest != 0 && lowest != 255
}
