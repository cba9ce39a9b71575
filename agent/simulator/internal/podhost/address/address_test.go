package address

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

func TestRangesAreDistinctAndComeBack(t *testing.T) {
	first, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	second, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, second)
	if first.Prefix().Overlaps(second.Prefix()) {
		t.Errorf("%s and %s overlap", first.Prefix(), second.Prefix())
	}
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	for _, r := range []*Range{first, second} {
		if !loopback.Contains(r.Host()) || !r.Prefix().Contains(r.Host()) {
			t.Errorf("the host address %s does not belong to %s", r.Host(), r.Prefix())
		}
	}
	if err := first.Listener().Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, again)
	if again.Prefix().Overlaps(second.Prefix()) {
		t.Errorf("%s was claimed although %s is held", again.Prefix(), second.Prefix())
	}
}

func TestLastRangeIsLoopback(t *testing.T) {
	last := netip.PrefixFrom(lastRange, rangeBits)
	if last.Masked() != last || netip.PrefixFrom(firstRange, rangeBits).Masked().Addr() != firstRange {
		t.Error("a range does not start at its first address")
	}
	if end := advance(lastRange, 1<<(32-rangeBits)-1); end != netip.MustParseAddr("127.255.255.255") {
		t.Errorf("the last range ends at %s", end)
	}
}

func TestPoolHandsOutDistinctUsableAddresses(t *testing.T) {
	prefix := netip.MustParsePrefix("127.64.0.0/18")
	pool := NewPool(prefix)
	seen := make(map[netip.Addr]bool)
	for {
		address, err := pool.Get("")
		if errors.Is(err, ErrExhausted) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Fatalf("%s was handed out twice", address)
		}
		seen[address] = true
		if last := address.As4()[3]; !prefix.Contains(address) || address == host(prefix) || last == 0 || last == 255 {
			t.Fatalf("%s is not usable", address)
		}
	}
	// 64 times 254 addresses, without the host's.
	if len(seen) != 64*254-1 {
		t.Errorf("%d addresses were handed out", len(seen))
	}
}

func TestAddressesAreReusedLate(t *testing.T) {
	pool := NewPool(netip.MustParsePrefix("127.64.0.0/29")) // .2 to .7 are usable
	first, _ := pool.Get("")
	pool.Put(first)
	for range 5 {
		next, err := pool.Get("")
		if err != nil || next == first {
			t.Fatalf("got %s (%v) while others were free", next, err)
		}
		pool.Put(next)
	}
	if again, err := pool.Get(""); err != nil || again != first {
		t.Errorf("got %s (%v), want %s, whose turn it is", again, err, first)
	}
}

func TestPreferredAddress(t *testing.T) {
	pool := NewPool(netip.MustParsePrefix("127.64.0.0/24"))
	wanted := "127.64.0.77"
	if got, err := pool.Get(wanted); err != nil || got.String() != wanted {
		t.Errorf("got %s (%v), want the preferred address", got, err)
	}
	for _, preferred := range []string{wanted, "127.64.0.1", "127.64.0.255", "127.64.1.5", "10.0.0.1", "nonsense"} {
		if got, err := pool.Get(preferred); err != nil || got.String() == preferred {
			t.Errorf("preferring %s gave %s (%v)", preferred, got, err)
		}
	}
}

// Processes of a pod can bind to its address without any configuration.
func TestAddressesCanBeBoundTo(t *testing.T) {
	claim, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, claim)
	address, err := NewPool(claim.Prefix()).Get("")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
}

func release(t *testing.T, r *Range) {
	t.Helper()
	if err := r.Listener().Close(); err != nil {
		t.Error(err)
	}
}
