package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// environmentTimeout bounds how long the beginning of a run waits for what it is made on.
	environmentTimeout = 5 * time.Second
	// mostValues is how many versions or profiles are told apart.
	mostValues = 8
	// The longest texts of a LoadEnvironment.
	mostVersion, mostProcessor = 64, 128
	// unknownProfile is that of hollow nodes whose pods do not name it.
	unknownProfile = "Unknown"
)

// readEnvironment finds out what the run is made on. What cannot be read is left out and noted: a comparison says that it is unknown.
func (x *execution) readEnvironment(ctx context.Context) *v1alpha1.LoadEnvironment {
	ctx, cancel := context.WithTimeout(ctx, environmentTimeout)
	defer cancel()
	environment := &v1alpha1.LoadEnvironment{Processors: int32(runtime.NumCPU())}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		environment.Processor = truncateText(fieldOf(string(text), "model name"), mostProcessor)
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(fieldOf(string(text), "MemTotal"), " kB"), 10, 64)
		environment.MemoryMiB = kilobytes >> 10
	}
	version, versionErr := x.engine.load.Clientset.Discovery().ServerVersion()
	if versionErr == nil {
		environment.KubernetesVersion = truncateText(version.GitVersion, mostVersion)
	}
	nodes, nodesErr := x.engine.load.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.HollowNodeLabel + "=true", ResourceVersion: "0"})
	if nodesErr == nil {
		var versions []string
		for i := range nodes.Items {
			versions = append(versions, nodes.Items[i].Status.NodeInfo.KubeletVersion)
		}
		environment.Nodes, environment.KubeletVersions = int32(len(nodes.Items)), countValues(versions)
	}
	if kwok, err := hasKwok(ctx, x.engine.load.Clientset); err == nil && kwok {
		x.addNote("Nodes of provider kwok take no pods of load tests: they have no kubelets")
	}
	pods := &corev1.PodList{}
	podsErr := x.deps.Host.List(ctx, pods, client.InNamespace(x.deps.Host.Namespace), client.HasLabels{v1alpha1.MachineNameLabel}, client.UnsafeDisableDeepCopy)
	if podsErr == nil {
		var profiles []string
		for i := range pods.Items {
			profiles = append(profiles, cmp.Or(pods.Items[i].Annotations[hollownode.ProfileAnnotation], unknownProfile))
		}
		environment.Profiles = countValues(profiles)
	}
	if err := errors.Join(versionErr, nodesErr, podsErr); err != nil && ctx.Err() == nil {
		x.addNote("the environment is not fully known: " + shortenError(fmt.Errorf("reading version, Nodes and hollow nodes: %w", err)))
	}
	return environment
}

// countValues counts equal values, the most frequent first.
func countValues(values []string) []v1alpha1.LoadNodeCount {
	count := map[string]int32{}
	for _, value := range values {
		count[truncateText(value, mostVersion)]++
	}
	var all []v1alpha1.LoadNodeCount
	for value, nodes := range count {
		all = append(all, v1alpha1.LoadNodeCount{Value: value, Nodes: nodes})
	}
	slices.SortFunc(all, func(a, b v1alpha1.LoadNodeCount) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Value, b.Value))
	})
	return all[:min(len(all), mostValues)]
}

// fieldOf is the value of the first line of /proc/cpuinfo or /proc/meminfo with a name.
func fieldOf(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func truncateText(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
