package rollout

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/upcoming"
)

// preflightProblems finds all that keeps the current revision from being started in a cluster. What has started is not held up by it.
func (s *Scope) preflightProblems(ctx context.Context, reader client.Reader, m *Member) ([]Problem, error) {
	var found []Problem
	if d := m.Deployment; d != nil {
		if m.Record == nil {
			foreign, err := s.checkAdoption(ctx, reader, m)
			if err != nil {
				return nil, err
			}
			found = foreign
		}
		if d.DeletionTimestamp != nil {
			found = append(found, Problem{v1alpha1.ReasonDeleting, fmt.Sprintf("MachineDeployment %s/%s is being deleted", d.Namespace, d.Name)})
		}
	}
	if m.unusable != nil {
		found = append(found, *m.unusable)
	}
	// What is started again where it was rolled back is started like any other.
	again := m.Record != nil && m.Record.TemplateRevision() != m.wantedRecord(s) && s.plannedInput().Retries(s.plannedCluster(m))
	if s.IsCurrent(m) && !again {
		return found, nil
	}
	skewed, err := s.skewProblems(ctx, reader, m)
	if err != nil {
		return nil, err
	}
	lacking, err := s.configProblems(ctx, reader, m)
	if err != nil {
		return nil, err
	}
	found = append(append(found, skewed...), lacking...)
	if m.held != "" {
		return found, nil // What its agent reported last may have changed.
	}
	for _, p := range slices.Concat(disruptionProblems(m.Cluster), s.quotaProblems(m)) {
		if !slices.Contains(s.Fleet.Spec.IgnorePreflightErrors, v1alpha1.PreflightError(p.Reason)) {
			p.Message += fmt.Sprintf(", or add %s to spec.ignorePreflightErrors", p.Reason)
			found = append(found, p)
		}
	}
	return found, nil
}

// skewProblems is the problem of a kubelet that the cluster's API server does not support. Where that is about to be upgraded to a version
// that does, it is waited for.
func (s *Scope) skewProblems(ctx context.Context, reader client.Reader, m *Member) ([]Problem, error) {
	kubelet, annotations := m.template.kubeletVersion(), m.template.Spec.Template.Metadata.Annotations
	refused := v1alpha1.UnsupportedKubelet(kubelet, m.Cluster.Status.KubernetesVersion, annotations)
	if refused == "" {
		return nil, nil
	}
	soon, err := upcoming.ReadVersion(ctx, reader, m.Cluster)
	if err != nil {
		return nil, err
	}
	if soon != "" && v1alpha1.UnsupportedKubelet(kubelet, soon, annotations) == "" {
		return []Problem{{v1alpha1.ReasonAwaitingControlPlane, fmt.Sprintf(
			"%s.spec.template.spec.versions.kubelet: %s yet: its control plane is to get %s first", m.template.field, refused, soon)}}, nil
	}
	return []Problem{{v1alpha1.ReasonUnsupportedKubeletVersion, fmt.Sprintf(
		"%s.spec.template.spec.versions.kubelet: %s: upgrade the cluster's API server, choose another version, or allow it with the annotation %s=true in %s.spec.template.metadata.annotations",
		m.template.field, refused, v1alpha1.AllowKubeletVersionSkewAnnotation, m.template.field)}}, nil
}

// disruptionProblems is the problem of budgets that allow no eviction from the cluster's Nodes, as its agent reports them.
func disruptionProblems(cluster *v1alpha1.Cluster) []Problem {
	found := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterDisruptionAllowedCondition)
	if found == nil || found.Status != metav1.ConditionFalse {
		return nil
	}
	return []Problem{{string(v1alpha1.PreflightDisruptionNotAllowed), found.Message + ": change the budget, give its pods more replicas"}}
}

// quotaProblems is the problem of a quota that allows fewer pods than the rollout needs at once.
func (s *Scope) quotaProblems(m *Member) []Problem {
	quota, needed := m.Cluster.Status.PodQuota, s.podsNeeded(m)
	if quota == nil || needed <= int(quota.Remaining) {
		return nil
	}
	return []Problem{{string(v1alpha1.PreflightPodQuotaExceeded), fmt.Sprintf(
		"ResourceQuota %s/%s leaves room for %d more hollow-node pods, and the rollout needs %d at once: raise it, lower maxSurge or replicas",
		quota.Namespace, quota.Name, quota.Remaining, needed)}}
}

// podsNeeded is how many pods a rollout has at most beside those that there are.
func (s *Scope) podsNeeded(m *Member) int {
	replicas, has := m.replicas, 0
	if d := m.Deployment; d != nil {
		has = int(d.Status.Replicas)
		if replicas == nil {
			replicas = d.Spec.Replicas
		}
	}
	desired := v1alpha1.DesiredReplicas(replicas)
	if has == 0 {
		return desired
	}
	surge, _ := m.template.Spec.Strategy.Bounds(desired)
	return max(desired+surge-has, 0)
}

// checkAdoption finds out whether the fleet may take over a MachineDeployment of its name that it did not make.
func (s *Scope) checkAdoption(ctx context.Context, reader client.Reader, m *Member) ([]Problem, error) {
	d := m.Deployment
	whose := "was not created by the fleet"
	if r := ReadRecord(d); r != nil && (!r.isOf(d) || r.UID == s.Fleet.UID) {
		whose = "was not created by the fleet, and its annotation " + v1alpha1.FleetRecordAnnotation + " is a copy of that of another object"
	} else if r != nil {
		other := &v1alpha1.MachineFleet{}
		err := reader.Get(ctx, client.ObjectKey{Name: r.Fleet}, other)
		switch {
		case err == nil && other.UID == r.UID:
			return []Problem{{v1alpha1.ReasonClaimedByAnotherFleet, fmt.Sprintf(
				"MachineDeployment %s/%s belongs to MachineFleet %s: remove the cluster from %s of one of the two, or remove the annotation %s to let the other one adopt it",
				d.Namespace, d.Name, r.Fleet, selectionField(s.Fleet), v1alpha1.FleetRecordAnnotation)}}, nil
		case err != nil && !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("getting machine fleet %s: %w", r.Fleet, err)
		}
		whose = fmt.Sprintf("was created by an earlier MachineFleet %s", r.Fleet)
	}
	if !s.Fleet.Spec.Adopt {
		return []Problem{{v1alpha1.ReasonNotAdopted, fmt.Sprintf(
			"MachineDeployment %s/%s %s: set spec.adopt to take it over, or remove or rename it", d.Namespace, d.Name, whose)}}, nil
	}
	if wanted := s.Fleet.Spec.Template.Spec.Selector.MatchLabels; !labels.Equals(wanted, d.Spec.Selector.MatchLabels) {
		return []Problem{{v1alpha1.ReasonSelectorDiffers, fmt.Sprintf(
			"spec.template.spec.selector.matchLabels: MachineDeployment %s/%s, which should be adopted, has %s, and that cannot be changed: remove it, or remove the cluster from %s",
			d.Namespace, d.Name, labels.Set(d.Spec.Selector.MatchLabels), selectionField(s.Fleet))}}, nil
	}
	return s.adoptedDowngrade(d, m), nil
}

// adoptedDowngrade is the problem of a MachineDeployment that has a newer kubelet than the fleet would give to it. One that names no
// kubelet has that of the cluster.
func (s *Scope) adoptedDowngrade(d *v1alpha1.MachineDeployment, m *Member) []Problem {
	if s.Fleet.Spec.AllowDowngrade {
		return nil
	}
	has := d.Spec.Template.Spec.Versions.Kubelet
	if has == "" {
		has = m.Cluster.Status.KubernetesVersion
	}
	wanted, err := version.ParseSemantic(m.template.kubeletVersion())
	found, otherErr := version.ParseSemantic(has)
	if otherErr != nil {
		// A control plane may say its minor only.
		found, otherErr = version.ParseGeneric(has)
	}
	if err != nil || otherErr != nil || !wanted.LessThan(found) {
		return nil
	}
	return []Problem{{v1alpha1.ReasonKubeletDowngrade, fmt.Sprintf(
		"%s.spec.template.spec.versions.kubelet: %s is older than the %s of MachineDeployment %s/%s, which should be adopted: choose another version, or set spec.allowDowngrade",
		m.template.field, m.template.kubeletVersion(), has, d.Namespace, d.Name)}}
}
