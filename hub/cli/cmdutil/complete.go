package cmdutil

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const completionTimeout = 3 * time.Second

// Completer offers arguments to a shell.
type Completer = func(command *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// CompleteClusters offers the names of Clusters that are not given yet: one, or as many as there are.
func (h *Hub) CompleteClusters(many bool) Completer { return h.CompleteNames(ClusterKind, many) }

// CompleteObjects offers one of kinds, then the names of that kind.
func (h *Hub) CompleteObjects(kinds ...Kind) Completer {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := Quick(command)
		defer cancel()
		var offered []cobra.Completion
		switch {
		case len(args) == 0:
			for _, kind := range kinds {
				offered = append(offered, string(kind))
			}
		case len(args) == 1:
			offered = h.completeNames(ctx, KindOf(args[0], kinds), nil)
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteNames offers names of one kind that are not given yet: one, or as many as there are.
func (h *Hub) CompleteNames(kind Kind, many bool) Completer {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := Quick(command)
		defer cancel()
		return h.completeNames(ctx, kind, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// lists has a list of each kind whose names are offered.
var lists = map[Kind]client.ObjectList{
	ClusterKind: &v1alpha1.ClusterList{}, FleetKind: &v1alpha1.MachineFleetList{}, LoadTestKind: &v1alpha1.LoadTestList{},
	DeploymentKind: &v1alpha1.MachineDeploymentList{}, SetKind: &v1alpha1.MachineSetList{}, MachineKind: &v1alpha1.MachineList{},
	SimulatedSetKind: &v1alpha1.SimulatedClusterSetList{},
}

// completeNames returns those of one kind that are not given yet. It returns none if the hub cannot be asked: completion cannot
// show the error.
func (h *Hub) completeNames(ctx context.Context, kind Kind, given []string) []cobra.Completion {
	empty, known := lists[kind]
	if !known {
		return nil
	}
	var scope []client.ListOption
	if slices.Contains([]Kind{DeploymentKind, SetKind, MachineKind}, kind) {
		namespace, err := h.Namespace()
		if err != nil {
			return nil
		}
		scope = append(scope, client.InNamespace(namespace))
	}
	list, ok := empty.DeepCopyObject().(client.ObjectList)
	if c, err := h.Client(); !ok || err != nil || c.List(ctx, list, scope...) != nil {
		return nil
	}
	var names []cobra.Completion
	_ = meta.EachListItem(list, func(object runtime.Object) error {
		if named, ok := object.(client.Object); ok && !slices.Contains(given, named.GetName()) {
			names = append(names, named.GetName())
		}
		return nil
	})
	return names
}
