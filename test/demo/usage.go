package main

import (
	"fmt"
	"io"

	"github.com/hollowfleet/hollowfleet/internal/joining"
)

// printHowToUse tells what a kept fleet offers. What needs no kubectl comes first: a fresh machine has none.
func printHowToUse(out io.Writer, fleet *fleet) {
	fmt.Fprintf(out, "\nThe fleet stays up in %s. Its kubeconfigs:\n", fleet.dir)
	fmt.Fprintf(out, "  hub  %s\n", fleet.hub.Kubeconfig)
	for _, member := range fleet.members {
		fmt.Fprintf(out, "  %s   %s\n", member.Name, member.Kubeconfig)
	}
	first := fleet.members[0]
	fmt.Fprintf(out, `
Try, with what is built here:
  bin/kubectl-hollow local status --dir %[5]s
  bin/kubectl-hollow cluster list --kubeconfig %[1]s
  bin/kubectl-hollow fleet tree %[3]s --kubeconfig %[1]s
  bin/kubectl-hollow rollout history machinefleet %[3]s --kubeconfig %[1]s
  bin/kubectl-hollow rollout undo machinefleet %[3]s --allow-downgrade --kubeconfig %[1]s
  bin/kubectl-hollow rollout status machinefleet %[3]s --kubeconfig %[1]s
  bin/kubectl-hollow loadtest report %[6]s --kubeconfig %[1]s
And if you have kubectl:
  kubectl --kubeconfig %[1]s get fleet -A
  kubectl --kubeconfig %[1]s -n %[2]s scale machinedeployment %[3]s --replicas 5
  kubectl --kubeconfig %[4]s get nodes -o wide
End it:
  make demo-down
`, joining.ShellQuote(fleet.hub.Kubeconfig), first.Name, deploymentName, joining.ShellQuote(first.Kubeconfig), joining.ShellQuote(fleet.dir), loadTestName)
}
