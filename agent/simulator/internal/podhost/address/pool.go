package address

import (
	"errors"
	"net/netip"
	"sync"
)

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
