package loadtest

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestChurnedPerRound(t *testing.T) {
	g := NewWithT(t)
	for _, test := range []struct{ have, percent, want int }{{0, 50, 0}, {1, 1, 1}, {10, 10, 1}, {10, 11, 2}, {7, 50, 4}, {7, 100, 7}} {
		g.Expect(churnedPerRound(test.have, int32(test.percent))).To(Equal(test.want), "%v", test)
	}
}
