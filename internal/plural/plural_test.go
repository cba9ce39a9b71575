package plural_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/plural"
)

func TestNumbersOfThings(t *testing.T) {
	g := NewWithT(t)
	for one, many := range map[string]string{"Machine": "2 Machines", "MachineClass": "2 MachineClasses", "policy": "2 policies", "day": "2 days", "join token": "2 join tokens", "batch": "2 batches"} {
		g.Expect(plural.Count(2, one)).To(Equal(many))
		g.Expect(plural.Count(int32(1), one)).To(Equal("1 " + one))
	}
	g.Expect(plural.Count(int64(0), "pod")).To(Equal("0 pods"))
	g.Expect(plural.Are(1, "run")).To(Equal("1 run is"))
	g.Expect(plural.Are(2, "run")).To(Equal("2 runs are"))
}
