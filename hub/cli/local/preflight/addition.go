package preflight

import (
	"fmt"
	"math"
	"strings"
)

// Addition is a number of clusters without Machines that are to run beside what runs already.
type Addition struct {
	// Clusters are those, and Groups the groups among them that do not run yet if they are Shared.
	Clusters, Groups int
	Shared           bool
	// Reserved is how many bytes each simulated cluster asks for that asks for memory, also of those that run.
	Reserved []int64
}

// Check says why a machine has no room for the addition; nil if it has. has is what is available now. What ignored names is not checked.
func (a Addition) Check(has Resources, ignored ...string) error {
	needs := a.needs()
	for _, c := range []check{
		{name: Memory, title: "memory", needs: needs.Memory, has: has.Memory, text: gibibytes},
		{name: Disk, title: "disk", needs: needs.Disk, has: has.Disk, text: gibibytes},
	} {
		if c.needs > c.has && !isIgnored(c.name, ignored) {
			return fmt.Errorf("%s: %s need %s, and %s are available: %sdelete simulated clusters, or end what else runs on the host", c.title, a.describeClusters(), c.text(c.needs), c.text(c.has), a.suggestLess())
		}
	}
	return nil
}

func (a Addition) describeClusters() string {
	var asked []string
	if a.Clusters > 0 || len(a.Reserved) == 0 {
		asked = append(asked, fmt.Sprintf("%d more clusters", a.Clusters))
	}
	if len(a.Reserved) > 0 {
		asked = append(asked, fmt.Sprintf("the requests of %d clusters (spec.resources.requests.memory)", len(a.Reserved)))
	}
	return strings.Join(asked, " and ")
}

func (a Addition) suggestLess() string {
	if len(a.Reserved) == 0 {
		return ""
	}
	return "ask for less there, "
}

// reservedBeyond is how much more is asked for than a cluster takes by itself, in bytes.
func (a Addition) reservedBeyond(one cost) (total int64) {
	for _, asked := range a.Reserved {
		if more := asked - int64(one.memory*mib); more > 0 {
			total += min(more, math.MaxInt64/2-total)
		}
	}
	return total
}

func (a Addition) needs() Resources {
	var total cost
	plane := costOfPlane
	total.addCosts(costOfPodhostAndAgent, a.Clusters)
	if a.Shared {
		plane = costOfShared
		total.addCosts(costOfShared, a.Clusters)
		total.addCosts(costOfGroup, a.Groups)
	} else {
		total.addCosts(costOfPlane, a.Clusters)
	}
	return Resources{Memory: int64(math.Ceil(total.memory))*mib + a.reservedBeyond(plane), Disk: int64(math.Ceil(total.disk)) * mib}
}
