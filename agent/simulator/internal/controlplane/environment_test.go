package controlplane

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestTheGarbageCollectorOfComponentsCanBeSet(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("GOGC", "")
	g.Expect(childEnvironment()).To(ContainElement("GOGC=" + garbagePercentage))
	t.Setenv("GOGC", "100")
	g.Expect(childEnvironment()).To(And(ContainElement("GOGC=100"), Not(ContainElement("GOGC="+garbagePercentage))))
}
