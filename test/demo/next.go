package main

import (
	"fmt"

	"github.com/hollowfleet/hollowfleet/internal/joining"
)

// printNext names what the demo leaves and what to try next: with the fleet, if it stays. What needs no kubectl comes first: a
// fresh machine has none.
func (d *demo) printNext(kept bool) {
	if d.report != "" {
		fmt.Fprintf(d.out, "\nThe report of the load test, for a browser:\n  %s\n", d.report)
	}
	if !kept {
		fmt.Fprint(d.out, `
Try next:
  make demo KEEP=1                                        # the same, and the fleet stays
  bin/kubectl-hollow local up --clusters 3 --machines 4   # a fleet of your own
  bin/kubectl-hollow dashboard                            # look at it; local up prints its kubeconfig
`)
		return
	}
	fmt.Fprintf(d.out, "\nThe fleet stays up in %s. Its kubeconfigs:\n", d.fleet.dir)
	fmt.Fprintf(d.out, "  hub  %s\n", d.fleet.hub.Kubeconfig)
	for _, member := range d.fleet.members {
		fmt.Fprintf(d.out, "  %s   %s\n", member.Name, member.Kubeconfig)
	}
	first := d.fleet.members[0]
	fmt.Fprintf(d.out, `
Look at it in a browser:
  bin/kubectl-hollow dashboard --kubeconfig %[1]s
Try next:
  bin/kubectl-hollow status --kubeconfig %[1]s
  bin/kubectl-hollow fleet tree %[2]s --kubeconfig %[1]s
  bin/kubectl-hollow rollout undo machinefleet %[2]s --allow-downgrade --kubeconfig %[1]s
And if you have kubectl:
  kubectl --kubeconfig %[1]s get fleet -A
  kubectl --kubeconfig %[3]s get nodes -o wide
End it:
  make demo-down
`, joining.ShellQuote(d.fleet.hub.Kubeconfig), deploymentName, joining.ShellQuote(first.Kubeconfig))
}
