package hollownode

import (
	"fmt"
	"net/netip"
	"testing"
)

// Edge case: A host-network pod left its Service without endpoints. Also: agent/simulator/cmd/hollow-node TestAServiceOfPodsOnTheHostNetworkHasEndpoints.
func TestNodeAddressIsNoLoopbackAddress(t *testing.T) {
	for bind, want := range map[string]string{
		"127.0.64.7":           "241.0.64.7",
		"127.255.255.254":      "241.255.255.254",
		"::ffff:127.0.0.1":     "241.0.0.1",
		"::1":                  "241.0.0.1",
		"10.244.3.9":           "10.244.3.9",
		"2001:db8::7":          "2001:db8::7",
		"::ffff:192.168.178.1": "192.168.178.1",
	} {
		if got := nodeAddress(netip.MustParseAddr(bind)).String(); got != want {
			t.Errorf("a hollow-node on %s has a Node with the address %s, want %s", bind, got, want)
		}
	}
}

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
		if !reserved.Contains(cidr.Addr()) || cidr != cidr.Masked() || cidr.Addr().As4()[0] <= nodeBlock {
			t.Fatalf("a node on %s has the pod CIDR %s, want one behind the addresses of Nodes", address, cidr)
		}
	}
	for _, address := range []string{"0.0.0.0", "::", "2001:db8::1"} {
		if fallbackPodCIDR(address, "a") == fallbackPodCIDR(address, "b") {
			t.Errorf("two nodes on %s have the same pod CIDR", address)
		}
	}
}
