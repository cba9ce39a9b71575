package preflight

import (
	"fmt"
	"math"
)

// Addition is a number of clusters without Machines that are to run beside what runs already.
type Addition struct {
	// Clusters are those, and Groups the groups among them that do not run yet if they are Shared.
	Clusters, Groups int
	Shared           bool
}

// Check says why a machine has no room for the addition; nil if it has. has is what is available now. What ignored names is not checked.
func (a Addition) Check(has Resources, ignored ...string) error {
	needs := a.needs()
	for _, c := range []check{
		{name: Memory, title: "memory", needs: needs.Memory, has: has.Memory, text: gibibytes},
		{name: Disk, title: "disk", needs: needs.Disk, has: has.Disk, text: gibibytes},
	} {
		if c.needs > c.has && !isIgnored(c.name, ignored) {
			return fmt.Errorf("%s: %d more clusters need %s, and %s are available: delete simulated clusters, or end what else runs on the host", c.title, a.Clusters, c.text(c.needs), c.text(c.has))
		}
	}
	return nil
}

func (a Addition) needs() Resources {
	var total cost
	total.addCosts(costOfPodhostAndAgent, a.Clusters)
	if a.Shared {
		total.addCosts(costOfShared, a.Clusters)
		total.addCosts(costOfGroup, a.Groups)
	} else {
		total.addCosts(costOfPlane, a.Clusters)
	}
	return Resources{Memory: int64(math.Ceil(total.memory)) * mib, Disk: int64(math.Ceil(total.disk)) * mib}
}
