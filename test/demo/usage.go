package main

import (
	"fmt"
	"io"
)

// printHowToUse tells what a kept fleet offers.
func printHowToUse(out io.Writer, fleet *fleet) {
	fmt.Fprintf(out, "\nThe fleet stays up in %s. Its kubeconfigs:\n", fleet.dir)
	fmt.Fprintf(out, "  hub  %s\n", fleet.hub.Kubeconfig)
	for _, member := range fleet.members {
		fmt.Fprintf(out, "  %s   %s\n", member.Name, member.Kubeconfig)
	}
	first := fleet.members[0]
	fmt.Fprintf(out, `
Try:
  kubectl --kubeconfig %[1]s get fleet -A
  kubectl --kubeconfig %[1]s -n %[2]s scale machinedeployment %[3]s --replicas 5
  kubectl --kubeconfig %[4]s get nodes -o wide
  bin/kubectl-hollow --kubeconfig %[1]s cluster list
  bin/kubectl-hollow local status --dir %[5]s
End it:
  make demo-down
`, fleet.hub.Kubeconfig, first.Name, deploymentName, first.Kubeconfig, fleet.dir)
}
