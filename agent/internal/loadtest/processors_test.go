package loadtest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestProcessors(t *testing.T) {
	g := NewWithT(t)
	total, idle, err := parseMachineTime([]byte("cpu  10 0 5 80 5 0 0 0 7 0\ncpu0 1 2 3\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]uint64{total, idle}).To(Equal([]uint64{100, 85}))
	for _, wrong := range []string{"", "cpu 1 2\n", "cpu a b c d e f\n", "intr 1 2 3 4 5 6\n"} {
		_, _, err := parseMachineTime([]byte(wrong))
		g.Expect(err).To(HaveOccurred(), wrong)
	}
	var p processors
	p.addSample(100, 50, time.Unix(0, 0))
	p.addSample(200, 51, time.Unix(1, 0))
	p.addSample(300, 101, time.Unix(2, 0))
	busy, full, watched := p.percentBusy()
	g.Expect(busy).To(BeNumerically("~", 74.5))
	g.Expect(full).To(BeNumerically("~", 50))
	g.Expect(watched).To(Equal(2 * time.Second))
}
