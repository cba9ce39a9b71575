package fakecri

import (
	"fmt"
	"net/netip"
	"strings"
)

// addressPool hands out the addresses of a node's pod CIDRs, one per family and sandbox. An address comes
// back only when its sandbox is removed, and is used again as late as possible.
type addressPool struct {
	ranges []*addressRange
	used   map[netip.Addr]struct{}
}

type addressRange struct {
	prefix netip.Prefix
	last   netip.Addr
}

// setRanges replaces the CIDRs that new addresses come from. Addresses in use stay in use.
func (p *addressPool) setRanges(prefixes []netip.Prefix) {
	p.ranges = nil
	for _, prefix := range prefixes {
		// The first address names the network and the second is by custom the node's own end.
		p.ranges = append(p.ranges, &addressRange{prefix: prefix, last: prefix.Masked().Addr().Next()})
	}
}

// allocateAddresses takes one address of every range, or none and an error that names the range that is used up.
func (p *addressPool) allocateAddresses() ([]netip.Addr, error) {
	if p.used == nil {
		p.used = map[netip.Addr]struct{}{}
	}
	addresses := make([]netip.Addr, 0, len(p.ranges))
	for _, r := range p.ranges {
		address, ok := r.nextFree(p.used)
		if !ok {
			p.releaseAddresses(addresses)
			return nil, fmt.Errorf("pod CIDR %s: every address is in use", r.prefix)
		}
		p.used[address] = struct{}{}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

func (p *addressPool) releaseAddresses(addresses []netip.Addr) {
	for _, address := range addresses {
		delete(p.used, address)
	}
}

// nextFree returns the first free address after the last one given out, starting again at the range's start.
// It looks at one address more than are in use at most, so also a large IPv6 range is searched fast.
func (r *addressRange) nextFree(used map[netip.Addr]struct{}) (netip.Addr, bool) {
	first := r.prefix.Masked().Addr().Next().Next()
	candidate := r.last.Next()
	wrapped := false
	for {
		if !r.isUsable(candidate) {
			if wrapped {
				return netip.Addr{}, false
			}
			wrapped = true
			candidate = first
			continue
		}
		if _, taken := used[candidate]; !taken {
			r.last = candidate
			return candidate, true
		}
		candidate = candidate.Next()
	}
}

// isUsable reports whether the address lies in the range and is not its IPv4 broadcast address.
func (r *addressRange) isUsable(address netip.Addr) bool {
	if !address.IsValid() || !r.prefix.Contains(address) {
		return false
	}
	return address.Is6() || r.prefix.Contains(address.Next())
}

// parsePrefixes reads a comma-separated list of CIDRs, as the kubelet passes a dual-stack node's.
func parsePrefixes(cidrs string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for text := range strings.SplitSeq(cidrs, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("networkConfig.podCidr: %w", err)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}
