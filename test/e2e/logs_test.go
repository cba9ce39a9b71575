package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// collect writes what is known of the clusters to a new directory bin/e2e/logs-…: the logs of their nodes and pods, all objects, all events.
// What cannot be had is told, and stops nothing.
func collect(clusters map[string]*kindCluster) {
	logs, err := os.MkdirTemp(output(), "logs-")
	if err != nil {
		fmt.Println("making a directory for the logs:", err)
		return
	}
	for name, one := range clusters {
		if one == nil {
			continue
		}
		dir := filepath.Join(logs, name)
		if err := one.collect(dir); err != nil {
			fmt.Printf("collecting the logs of %s: %v\n", name, err)
		}
		for file, arguments := range map[string][]string{
			"objects.yaml": {"get", "all,nodes,configmaps,csr,resourcequotas,leases", "--all-namespaces", "--output", "yaml"},
			"fleet.yaml": {
				"get", "clusters.hollowfleet.io,simulatedclustersets,simulatedclusters,machinefleets,machinedeployments,machinesets,machines,machineclasses,nodedisruptions,nodedisruptionruns",
				"--all-namespaces", "--output", "yaml",
			},
			"events.txt": {"get", "events", "--all-namespaces", "--sort-by", ".lastTimestamp", "--output", "wide"},
		} {
			if file == "fleet.yaml" && name != "hub" {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			var content bytes.Buffer
			command := exec.CommandContext(ctx, filepath.Join(os.Getenv("HOLLOWFLEET_E2E_PATH"), "kubectl"),
				append([]string{"--kubeconfig", one.kubeconfig}, arguments...)...)
			command.Stdout, command.Stderr = &content, &content
			if err := command.Run(); err != nil {
				fmt.Printf("collecting %s of %s: %v\n", file, name, err)
			}
			cancel()
			if err := os.WriteFile(filepath.Join(dir, file), content.Bytes(), 0o600); err != nil {
				fmt.Println(err)
			}
		}
	}
	fmt.Printf("Logs, objects and events of the clusters are in %s.\n", logs)
}
