package hollownode

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// The addresses that a hollow-node makes up are of 240.0.0.0/4, which is reserved: no machine has one, and
// no router passes a packet on to one. Nodes have theirs of 241.0.0.0/8.
const (
	// fallbackBase is the first address of the pod CIDRs of nodes that get none: 242.0.0.0.
	fallbackBase = 242 << 24
	// fallbackBits is how many bits tell those pod CIDRs apart. The last one ends at 249.255.255.255.
	fallbackBits = 19
)

// fallbackPodCIDR is the pod CIDR of a node in a cluster that gives its nodes none, or has none left. It
// follows from the last bits of the address on which the hollow-node listens: two nodes share a pod CIDR
// only if their addresses are the same in the last 19 bits, which they are not in a network of pods up to
// a /13. A node without an IPv4 address of its own gets one by its name, which another may have as well.
func fallbackPodCIDR(bindAddress, nodeName string) netip.Prefix {
	var index uint32
	if bind, err := netip.ParseAddr(bindAddress); err == nil && bind.Unmap().Is4() && !bind.IsUnspecified() {
		octets := bind.Unmap().As4()
		index = binary.BigEndian.Uint32(octets[:])
	} else {
		sum := sha256.Sum256([]byte(nodeName))
		index = binary.BigEndian.Uint32(sum[:])
	}
	var octets [4]byte
	binary.BigEndian.PutUint32(octets[:], fallbackBase+index%(1<<fallbackBits)<<8)
	return netip.PrefixFrom(netip.AddrFrom4(octets), 24)
}
