package address

import (
	"net"
	"testing"
)

func claimed(t *testing.T) *Range {
	t.Helper()
	r, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Listener.Close() })
	return r
}

func TestRangesAreDistinctAndComeBack(t *testing.T) {
	first, second := claimed(t), claimed(t)
	loopback := &net.IPNet{IP: net.IPv4(127, 0, 0, 0), Mask: net.CIDRMask(8, 32)}
	if first.Host.Equal(second.Host) || !loopback.Contains(first.Host) || !loopback.Contains(second.Host) {
		t.Errorf("the hosts are %s and %s", first.Host, second.Host)
	}
	if _, err := second.Allocate(first.Host.String()); err != nil {
		t.Fatal(err)
	}
	other, err := first.Allocate("")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := second.Allocate(other.String()); err != nil || got.Equal(other) {
		t.Errorf("%s of another range is allocated (%v)", got, err)
	}
	if err := first.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	if again := claimed(t); again.Host.Equal(second.Host) {
		t.Errorf("%s was claimed although it is held", again.Host)
	}
}

func TestAddressesAreDistinctAndCanBeBoundTo(t *testing.T) {
	r := claimed(t)
	seen := map[string]bool{r.Host.String(): true}
	for range 1000 {
		ip, err := r.Allocate("")
		if err != nil || seen[ip.String()] {
			t.Fatalf("%s was handed out twice (%v)", ip, err)
		}
		seen[ip.String()] = true
		listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: ip})
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
	}
}

func TestPreferredAddress(t *testing.T) {
	r := claimed(t)
	wanted, err := r.Allocate("")
	if err != nil {
		t.Fatal(err)
	}
	r.Release(wanted)
	if got, err := r.Allocate(wanted.String()); err != nil || !got.Equal(wanted) {
		t.Errorf("got %s (%v), want %s, which is free", got, err, wanted)
	}
	for _, preferred := range []string{wanted.String(), r.Host.String(), "10.0.0.1", "nonsense"} {
		if got, err := r.Allocate(preferred); err != nil || got.String() == preferred {
			t.Errorf("preferring %s gave %s (%v)", preferred, got, err)
		}
	}
}
