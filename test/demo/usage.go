package main

import (
	"fmt"
	"io"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
)

// printHowToUse tells what a kept fleet offers.
func printHowToUse(out io.Writer, dir string, fleet *localfleet.Fleet) {
	fmt.Fprintf(out, "\nThe fleet stays up in %s. Its kubeconfigs:\n", dir)
	fmt.Fprintf(out, "  hub  %s\n", fleet.Hub.AdminKubeconfig())
	for _, member := range fleet.Members {
		fmt.Fprintf(out, "  %s   %s\n", member.Name, member.Cluster.AdminKubeconfig())
	}
	first := fleet.Members[0]
	fmt.Fprintf(out, `
Try:
  kubectl --kubeconfig %[1]s get fleet -A
  kubectl --kubeconfig %[1]s -n %[2]s scale machinedeployment %[3]s --replicas 5
  kubectl --kubeconfig %[4]s get nodes -o wide
  bin/kubectl-hollow --kubeconfig %[1]s cluster list
  bin/kubectl-hollow local status --dir %[5]s
End it:
  make demo-down
`, fleet.Hub.AdminKubeconfig(), first.Name, deploymentName, first.Cluster.AdminKubeconfig(), dir)
}
