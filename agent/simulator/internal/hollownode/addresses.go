package hollownode

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
)

// The addresses that a hollow-node makes up are of 240.0.0.0/4, which is reserved: no machine has one, and
// no router passes a packet on to one.
const (
	// nodeBlock is the first octet of 241.0.0.0/8, of which Nodes have their addresses.
	nodeBlock = 241
	// fallbackBase is the first address of the pod CIDRs of nodes that get none: 242.0.0.0.
	fallbackBase = 242 << 24
	// fallbackBits is how many bits tell those pod CIDRs apart. The last one ends at 249.255.255.255.
	fallbackBits = 19
)

// nodeAddress is the internal address of a Node whose hollow-node listens on bind. The API server takes no
// loopback address for an endpoint: one pod on the network of such a node would keep a Service from having
// any endpoints. So 127.a.b.c becomes 241.a.b.c, by which nodes stay apart.
func nodeAddress(bind netip.Addr) netip.Addr {
	bind = bind.Unmap()
	switch {
	case !bind.IsLoopback():
		return bind
	case bind.Is4():
		octets := bind.As4()
		octets[0] = nodeBlock
		return netip.AddrFrom4(octets)
	default:
		return netip.AddrFrom4([4]byte{nodeBlock, 0, 0, 1})
	}
}

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
