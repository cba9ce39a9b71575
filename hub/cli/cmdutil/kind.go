package cmdutil

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is a kind of object as it is written on the command line.
type Kind string

// The kinds that commands work on.
const (
	ClusterKind    Kind = "cluster"
	FleetKind      Kind = "machinefleet"
	DeploymentKind Kind = "machinedeployment"
	SetKind        Kind = "machineset"
	MachineKind    Kind = "machine"
	LoadTestKind   Kind = "loadtest"
	DisruptionKind Kind = "nodedisruption"
	// SimulatedSetKind is that of sets of simulated clusters.
	SimulatedSetKind Kind = "simulatedclusterset"
)

// spellings are what kubectl takes for the same kind.
var spellings = map[Kind][]string{
	ClusterKind:    {"cluster", "clusters", "hfc", "cluster.hollowfleet.io", "clusters.hollowfleet.io"},
	FleetKind:      {"machinefleet", "machinefleets", "fleet", "mfleet", "machinefleet.hollowfleet.io", "machinefleets.hollowfleet.io"},
	DeploymentKind: {"machinedeployment", "machinedeployments", "md", "machinedeployment.hollowfleet.io", "machinedeployments.hollowfleet.io"},
	LoadTestKind:   {"loadtest", "loadtests", "lt", "loadtest.hollowfleet.io", "loadtests.hollowfleet.io"},
	SimulatedSetKind: {
		"simulatedclusterset", "simulatedclustersets", "simcs", "simulatedclusterset.hollowfleet.io", "simulatedclustersets.hollowfleet.io",
	},
	MachineKind: {"machine", "machines", "ma", "machine.hollowfleet.io", "machines.hollowfleet.io"},
	SetKind:     {"machineset", "machinesets", "ms", "machineset.hollowfleet.io", "machinesets.hollowfleet.io"},
}

// KindOf is the one of kinds that is spelled so, or "".
func KindOf(spelled string, kinds []Kind) Kind {
	for _, kind := range kinds {
		if slices.Contains(spellings[kind], strings.ToLower(spelled)) {
			return kind
		}
	}
	return ""
}

// Object reads "KIND NAME" or "KIND/NAME".
func Object(command *cobra.Command, args []string, kinds ...Kind) (Kind, string, error) {
	if len(args) == 1 {
		if kind, name, found := strings.Cut(args[0], "/"); found {
			args = []string{kind, name}
		}
	}
	if len(args) != 2 || args[1] == "" {
		return "", "", Usage("want a kind and a name: %s", command.UseLine())
	}
	kind := KindOf(args[0], kinds)
	if kind == "" {
		return "", "", Usage("unknown kind %q: want %s", args[0], describeWanted(kinds))
	}
	return kind, args[1], nil
}

func describeWanted(kinds []Kind) string {
	var names []string
	for _, kind := range kinds {
		names = append(names, string(kind))
	}
	return strings.Join(names, " or ")
}

// NotFoundObject is an object of a kind that does not exist, in a namespace if the kind has one, with the command that shows which do.
func NotFoundObject(kind Kind, name, namespace string) error {
	see := map[Kind]string{ClusterKind: "kubectl hollow cluster list", FleetKind: "kubectl hollow fleet list", LoadTestKind: "kubectl hollow loadtest list", DisruptionKind: "kubectl hollow disrupt list", SimulatedSetKind: "kubectl get simulatedclustersets"}[kind]
	if see == "" {
		see = "kubectl get " + string(kind) + "s -n " + namespace
	}
	return NotFound("%s %s does not exist%s: see %s", kind, name, InNamespace(namespace), see)
}

// Get reads the object of a kind into object.
func Get(ctx context.Context, c client.Reader, kind Kind, key client.ObjectKey, object client.Object) error {
	err := c.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return NotFoundObject(kind, key.Name, key.Namespace)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", kind, key.Name, err)
	}
	return nil
}

// InNamespace names a namespace in a message; a kind without one has nothing to name.
func InNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}
