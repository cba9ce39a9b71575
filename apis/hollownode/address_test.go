package hollownode_test

import (
	"net/netip"
	"testing"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
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
		if got := hollownode.NodeAddress(netip.MustParseAddr(bind)).String(); got != want {
			t.Errorf("a hollow-node on %s has a Node with the address %s, want %s", bind, got, want)
		}
	}
}
