package cmdutil

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const completionTimeout = 3 * time.Second

// Completer offers arguments to a shell.
type Completer = func(command *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// CompleteClusters offers the names of Clusters that are not given yet: one, or as many as there are.
func (h *Hub) CompleteClusters(many bool) Completer {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := Quick(command)
		defer cancel()
		return h.clusterNames(ctx, args), cobra.ShellCompDirectiveNoFileComp
	}
}

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
		case len(args) == 1 && KindOf(args[0], kinds) == ClusterKind:
			offered = h.clusterNames(ctx, nil)
		case len(args) == 1 && KindOf(args[0], kinds) == DeploymentKind:
			offered = h.deploymentNames(ctx)
		case len(args) == 1 && KindOf(args[0], kinds) == SetKind:
			offered = h.setNames(ctx)
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

// clusterNames returns none if the hub cannot be asked: completion cannot show the error.
func (h *Hub) clusterNames(ctx context.Context, given []string) []cobra.Completion {
	list := &v1alpha1.ClusterList{}
	if c, err := h.Client(); err != nil || c.List(ctx, list) != nil {
		return nil
	}
	var names []cobra.Completion
	for _, cluster := range list.Items {
		if !slices.Contains(given, cluster.Name) {
			names = append(names, cluster.Name)
		}
	}
	return names
}

func (h *Hub) deploymentNames(ctx context.Context) []cobra.Completion {
	namespace, err := h.Namespace()
	if err != nil {
		return nil
	}
	list := &v1alpha1.MachineDeploymentList{}
	if c, err := h.Client(); err != nil || c.List(ctx, list, client.InNamespace(namespace)) != nil {
		return nil
	}
	var names []cobra.Completion
	for _, deployment := range list.Items {
		names = append(names, deployment.Name)
	}
	return names
}

func (h *Hub) setNames(ctx context.Context) []cobra.Completion {
	list := &v1alpha1.MachineSetList{}
	namespace, err := h.Namespace()
	if err != nil {
		return nil
	}
	if c, err := h.Client(); err != nil || c.List(ctx, list, client.InNamespace(namespace)) != nil {
		return nil
	}
	var names []cobra.Completion
	for _, set := range list.Items {
		names = append(names, set.Name)
	}
	return names
}
