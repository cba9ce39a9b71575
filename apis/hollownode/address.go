package hollownode

import "net/netip"

// nodeBlock is the first octet of 241.0.0.0/8, of which Nodes have addresses that are made up. It is reserved: no machine has one, and no
// router passes a packet on to one.
const nodeBlock = 241

// NodeAddress is the internal address of a Node whose hollow-node listens on bind. The API server takes no
// loopback address for an endpoint: one pod on the network of such a node would keep a Service from having
// any endpoints. So 127.a.b.c becomes 241.a.b.c, by which nodes stay apart.
func NodeAddress(bind netip.Addr) netip.Addr {
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
