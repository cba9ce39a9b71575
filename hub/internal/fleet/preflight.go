package fleet

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// preflightProblems finds all that keeps the current revision from being started in a cluster. What has started is not held up by it.
func (s *scope) preflightProblems(ctx context.Context, reader client.Reader, m *member) ([]problem, error) {
	var found []problem
	if d := m.deployment; d != nil {
		if m.record == nil {
			foreign, err := s.checkAdoption(ctx, reader, m)
			if err != nil {
				return nil, err
			}
			found = foreign
		}
		if d.DeletionTimestamp != nil {
			found = append(found, problem{v1alpha1.ReasonDeleting, fmt.Sprintf("MachineDeployment %s/%s is being deleted", d.Namespace, d.Name)})
		}
	}
	if m.unusable != nil {
		found = append(found, *m.unusable)
	}
	// What is started again where it was rolled back is started like any other.
	again := m.record != nil && m.record.templateRevision() != m.wantedRecord(s) && s.plannedInput().Retries(s.plannedCluster(m))
	if s.isCurrent(m) && !again {
		return found, nil
	}
	found = append(found, s.skewProblems(m)...)
	if m.held != "" {
		return found, nil // What its agent reported last may have changed.
	}
	for _, p := range slices.Concat(disruptionProblems(m.cluster), s.quotaProblems(m)) {
		if !slices.Contains(s.fleet.Spec.IgnorePreflightErrors, v1alpha1.PreflightError(p.reason)) {
			p.message += fmt.Sprintf(", or add %s to spec.ignorePreflightErrors", p.reason)
			found = append(found, p)
		}
	}
	return found, nil
}

// skewProblems is the problem of a kubelet that the cluster's API server does not support.
func (s *scope) skewProblems(m *member) []problem {
	refused := v1alpha1.UnsupportedKubelet(m.template.kubeletVersion(), m.cluster.Status.KubernetesVersion, m.template.Spec.Template.Metadata.Annotations)
	if refused == "" {
		return nil
	}
	return []problem{{v1alpha1.ReasonUnsupportedKubeletVersion, fmt.Sprintf(
		"%s.spec.template.spec.versions.kubelet: %s: upgrade the cluster's API server, choose another version, or allow it with the annotation %s=true in %s.spec.template.metadata.annotations",
		m.template.field, refused, v1alpha1.AllowKubeletVersionSkewAnnotation, m.template.field)}}
}

// disruptionProblems is the problem of budgets that allow no eviction from the cluster's Nodes, as its agent reports them.
func disruptionProblems(cluster *v1alpha1.Cluster) []problem {
	found := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterDisruptionAllowedCondition)
	if found == nil || found.Status != metav1.ConditionFalse {
		return nil
	}
	return []problem{{string(v1alpha1.PreflightDisruptionNotAllowed), found.Message + ": change the budget, give its pods more replicas"}}
}

// quotaProblems is the problem of a quota that allows fewer pods than the rollout needs at once.
func (s *scope) quotaProblems(m *member) []problem {
	quota, needed := m.cluster.Status.PodQuota, s.podsNeeded(m)
	if quota == nil || needed <= int(quota.Remaining) {
		return nil
	}
	return []problem{{string(v1alpha1.PreflightPodQuotaExceeded), fmt.Sprintf(
		"ResourceQuota %s/%s leaves room for %d more hollow-node pods, and the rollout needs %d at once: raise it, lower maxSurge or replicas",
		quota.Namespace, quota.Name, quota.Remaining, needed)}}
}

// podsNeeded is how many pods a rollout has at most beside those that there are.
func (s *scope) podsNeeded(m *member) int {
	replicas, has := m.replicas, 0
	if d := m.deployment; d != nil {
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
func (s *scope) checkAdoption(ctx context.Context, reader client.Reader, m *member) ([]problem, error) {
	d := m.deployment
	whose := "was not created by the fleet"
	if r := readRecord(d); r != nil && (!r.isOf(d) || r.UID == s.fleet.UID) {
		whose = "was not created by the fleet, and its annotation " + v1alpha1.FleetRecordAnnotation + " is a copy of that of another object"
	} else if r != nil {
		other := &v1alpha1.MachineFleet{}
		err := reader.Get(ctx, client.ObjectKey{Name: r.Fleet}, other)
		switch {
		case err == nil && other.UID == r.UID:
			return []problem{{v1alpha1.ReasonClaimedByAnotherFleet, fmt.Sprintf(
				"MachineDeployment %s/%s belongs to MachineFleet %s: remove the cluster from %s of one of the two, or remove the annotation %s to let the other one adopt it",
				d.Namespace, d.Name, r.Fleet, selectionField(s.fleet), v1alpha1.FleetRecordAnnotation)}}, nil
		case err != nil && !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("getting machine fleet %s: %w", r.Fleet, err)
		}
		whose = fmt.Sprintf("was created by an earlier MachineFleet %s", r.Fleet)
	}
	if !s.fleet.Spec.Adopt {
		return []problem{{v1alpha1.ReasonNotAdopted, fmt.Sprintf(
			"MachineDeployment %s/%s %s: set spec.adopt to take it over, or remove or rename it", d.Namespace, d.Name, whose)}}, nil
	}
	if wanted := s.fleet.Spec.Template.Spec.Selector.MatchLabels; !labels.Equals(wanted, d.Spec.Selector.MatchLabels) {
		return []problem{{v1alpha1.ReasonSelectorDiffers, fmt.Sprintf(
			"spec.template.spec.selector.matchLabels: MachineDeployment %s/%s, which should be adopted, has %s, and that cannot be changed: remove it, or remove the cluster from %s",
			d.Namespace, d.Name, labels.Set(d.Spec.Selector.MatchLabels), selectionField(s.fleet))}}, nil
	}
	return s.adoptedDowngrade(d, m), nil
}
