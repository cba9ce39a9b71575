package hollownode

import (
	"fmt"
	"net/netip"
	"testing"
)

// Edge case: Nodes shared pod addresses.
func TestFallbackPodCIDRsOfOneClusterDiffer(t *testing.T) {
	reserved := netip.MustParsePrefix("240.0.0.0/4")
	seen := map[netip.Prefix]string{}
	for i := range 1 << 16 { // as many as a pod network such as kind's has addresses
		address := fmt.Sprintf("10.244.%d.%d", i>>8, i&255)
		cidr := fallbackPodCIDR(address, "n")
		if other, taken := seen[cidr]; taken {
			t.Fatalf("nodes on %s and %s have the same pod CIDR %s", other, address, cidr)
		}
		seen[cidr] = address
		if !reserved.Contains(cidr.Addr()) || cidr != cidr.Masked() || cidr.Addr().As4()[0] <= 241 {
			t.Fatalf("a node on %s has the pod CIDR %s, want one behind the addresses of Nodes", address, cidr)
		}
	}
	for _, address := range []string{"0.0.0.0", "::", "2001:db8::1"} {
		if fallbackPodCIDR(address, "a") == fallbackPodCIDR(address, "b") {
			t.Errorf("two nodes on %s have the same pod CIDR", address)
		}
	}
}
