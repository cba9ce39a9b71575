package machineset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/overlap"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// overlapping says for which other objects of the namespace set may not touch any Machine: the selector of one matches the Machines that
// the other makes. It is empty if there are none. A set that has a controller waits for none: its deployment has looked. A set without
// one waits for every MachineDeployment, whichever is older: the sets of a deployment select by the hash of their template, so they take
// no Machine of this set, which could take theirs.
func overlapping(ctx context.Context, reader client.Reader, set *v1alpha1.MachineSet) (string, error) {
	if metav1.GetControllerOfNoCopy(set) != nil {
		return "", nil
	}
	// Nothing changes one, so a cache need not copy them.
	options := []client.ListOption{client.InNamespace(set.Namespace), client.UnsafeDisableDeepCopy}
	deployments, sets := &v1alpha1.MachineDeploymentList{}, &v1alpha1.MachineSetList{}
	if err := reader.List(ctx, deployments, options...); err != nil {
		return "", fmt.Errorf("listing the machine deployments beside the set: %w", err)
	}
	if err := reader.List(ctx, sets, options...); err != nil {
		return "", fmt.Errorf("listing the other machine sets: %w", err)
	}
	var others []overlap.Claim
	for i := range deployments.Items {
		if deployments.Items[i].NotDecoded() == "" {
			others = append(others, claimOfDeployment(&deployments.Items[i]))
		}
	}
	for i := range sets.Items {
		if sets.Items[i].NotDecoded() == "" {
			others = append(others, claimOf(&sets.Items[i]))
		}
	}
	return overlap.Explain(claimOf(set), others, "Machines"), nil
}

// claimOf is what a set selects among Machines, and what those that it makes carry. One that has a controller is named by it.
func claimOf(set *v1alpha1.MachineSet) overlap.Claim {
	claim := overlap.Claim{
		Kind: "MachineSet", Name: set.Name, UID: set.UID, Created: set.CreationTimestamp,
		Selector: labels.SelectorFromSet(set.Spec.Selector.MatchLabels), Labels: usableLabels(set.Spec.Template),
	}
	plan.AddLabels(claim.Labels, set)
	if controller := metav1.GetControllerOfNoCopy(set); controller != nil {
		claim.Kind, claim.Name, claim.First = controller.Kind, controller.Name, true
	}
	return claim
}

// claimOfDeployment is what the Machines carry that the sets of a deployment will make. It selects none: its sets do.
func claimOfDeployment(deployment *v1alpha1.MachineDeployment) overlap.Claim {
	claim := overlap.Claim{
		Kind: "MachineDeployment", Name: deployment.Name, UID: deployment.UID, Created: deployment.CreationTimestamp, First: true,
		Selector: labels.Nothing(), Labels: usableLabels(deployment.Spec.Template),
	}
	claim.Labels[v1alpha1.ClusterNameLabel] = deployment.Spec.ClusterName
	claim.Labels[v1alpha1.MachineDeploymentNameLabel] = deployment.Name
	return claim
}

func usableLabels(template v1alpha1.MachineTemplate) labels.Set {
	metadata, _ := plan.Usable(template.Metadata)
	if metadata.Labels == nil {
		return labels.Set{}
	}
	return metadata.Labels
}

// ofOverlapping are the sets that a MachineSet or MachineDeployment which comes, goes or changes keeps from acting.
func (c *Controller) ofOverlapping(ctx context.Context, object client.Object) []reconcile.Request {
	var claim overlap.Claim
	switch changed := object.(type) {
	case *v1alpha1.MachineSet:
		if changed.NotDecoded() != "" {
			return nil
		}
		claim = claimOf(changed)
	case *v1alpha1.MachineDeployment:
		if changed.NotDecoded() != "" {
			return nil
		}
		claim = claimOfDeployment(changed)
	default:
		return nil
	}
	return c.setsIn(ctx, object.GetNamespace(), func(set *v1alpha1.MachineSet) bool {
		return metav1.GetControllerOfNoCopy(set) == nil && set.NotDecoded() == "" && claimOf(set).WaitsFor(claim)
	})
}

// claimChanged lets changes of a MachineSet pass that change with which others it overlaps, and which of them waits.
func claimChanged() predicate.Predicate {
	return reconciler.Changed(func(set *v1alpha1.MachineSet) any {
		return []any{set.Spec.Selector, set.Spec.Template.Metadata.Labels, set.Labels[v1alpha1.MachineDeploymentNameLabel], metav1.GetControllerOf(set)}
	})
}

// deploymentClaimChanged is claimChanged for a MachineDeployment.
func deploymentClaimChanged() predicate.Predicate {
	return reconciler.Changed(func(deployment *v1alpha1.MachineDeployment) any { return deployment.Spec.Template.Metadata.Labels })
}
