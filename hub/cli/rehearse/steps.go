package rehearse

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/observe"
)

const (
	// steady is how long pods have to stand as they do until that counts as all that will happen, and settled how long if all are Ready.
	steady, settled = 20 * time.Second, 3 * time.Second
)

// settledName is that of the step in which pods become what they stay.
const settledName = "pods have settled"

var simulatedClusterLists = v1alpha1.GroupVersion.WithKind("SimulatedClusterList")

// awaitControlPlane waits until the SimulatedCluster is Ready with a control plane of that minor.
func (o *rehearsal) awaitControlPlane(minor string) func(context.Context) error {
	return func(ctx context.Context) error {
		said := ""
		return cmdutil.Until(ctx, o.client, &v1alpha1.SimulatedClusterList{}, client.ObjectKeyFromObject(o.shape.Cluster), o.shape.Cluster,
			func(one *v1alpha1.SimulatedCluster) (bool, error) {
				if one.UID != o.shape.Cluster.UID || one.DeletionTimestamp != nil {
					return false, fmt.Errorf("SimulatedCluster %s was deleted by another", one.Name)
				}
				stalled := currentCondition(one.Status.Conditions, v1alpha1.StalledCondition, one.Generation)
				if stalled != nil && stalled.Status == metav1.ConditionTrue {
					return false, cmdutil.Refusal("SimulatedCluster %s: %s", one.Name, stalled.Message)
				}
				ready := currentCondition(one.Status.Conditions, v1alpha1.ReadyCondition, one.Generation)
				if ready != nil && ready.Status != metav1.ConditionTrue && ready.Message != "" && ready.Message != said {
					said = ready.Message
					o.hub.Note("    %s", said)
				}
				return ready != nil && ready.Status == metav1.ConditionTrue && one.Status.Versions != nil && isMinor(one.Status.Versions.ControlPlane, minor), nil
			})
	}
}

// currentCondition is one that is about the current spec; nil if there is none.
func currentCondition(conditions []metav1.Condition, kind string, generation int64) *metav1.Condition {
	if found := meta.FindStatusCondition(conditions, kind); found != nil && found.ObservedGeneration == generation {
		return found
	}
	return nil
}

func isMinor(text, minor string) bool {
	a, errA := version.ParseGeneric(text)
	b, errB := version.ParseGeneric(minor)
	return errA == nil && errB == nil && a.Major() == b.Major() && a.Minor() == b.Minor()
}

func (o *rehearsal) createNodes(ctx context.Context) error {
	for _, deployment := range o.shape.MachineDeployments {
		if err := o.client.Create(ctx, deployment); err != nil {
			return fmt.Errorf("creating MachineDeployment %s: %w", deployment.Name, err)
		}
	}
	for _, deployment := range o.shape.MachineDeployments {
		if err := o.awaitRollout(ctx, deployment); err != nil {
			return err
		}
	}
	return nil
}

// awaitRollout waits until all Machines of a MachineDeployment are of its template and available.
func (o *rehearsal) awaitRollout(ctx context.Context, deployment *v1alpha1.MachineDeployment) error {
	said := ""
	return cmdutil.Until(ctx, o.client, &v1alpha1.MachineDeploymentList{}, client.ObjectKeyFromObject(deployment), deployment,
		func(one *v1alpha1.MachineDeployment) (bool, error) {
			status, want := &one.Status, *one.Spec.Replicas
			if status.ObservedGeneration != one.Generation || one.Generation < deployment.Generation {
				return false, nil
			}
			if stalled := currentCondition(status.Conditions, v1alpha1.StalledCondition, one.Generation); stalled != nil && stalled.Status == metav1.ConditionTrue {
				return false, fmt.Errorf("MachineDeployment %s: %s", one.Name, stalled.Message)
			}
			if line := fmt.Sprintf("%s: %d of %d Nodes updated, %d available", one.Name, status.UpdatedReplicas, want, status.AvailableReplicas); line != said {
				said = line
				o.hub.Note("    %s", line)
			}
			return status.UpdatedReplicas == want && status.Replicas == want && status.AvailableReplicas == want, nil
		})
}

func (o *rehearsal) createWorkloads(ctx context.Context) error {
	c := o.watcher.connection().client
	for _, object := range o.shape.Objects {
		if err := c.Create(ctx, object); err != nil && !(apierrors.IsAlreadyExists(err) && isShared(object)) {
			return fmt.Errorf("creating %T %s: %w", object, client.ObjectKeyFromObject(object), err)
		}
	}
	return o.awaitPods(ctx)
}

// isShared reports whether a simulated cluster may have the object already: it brings namespaces of Kubernetes.
func isShared(object client.Object) bool { return object.GetNamespace() == "" }

// awaitPods waits until all pods are Ready that there are to be, or nothing changes any more.
func (o *rehearsal) awaitPods(ctx context.Context) error {
	last, since := "", time.Time{}
	return o.watcher.await(ctx, func(s *observe.Sample) (bool, error) {
		if now := fingerprint(s); now != last || !s.Answered || since.IsZero() {
			last, since = now, s.At
		}
		stood := s.At.Sub(since)
		return stood >= steady+o.readyAfter || stood >= settled && o.hasAllPods(s), nil
	})
}

// hasAllPods reports whether each workload has its pods, and all of them are Ready.
func (o *rehearsal) hasAllPods(s *observe.Sample) bool {
	counts := s.CountPods()
	for index := range o.shape.Workloads {
		workload := &o.shape.Workloads[index]
		pods := counts[workload.ID()]
		wanted := int(workload.Replicas)
		if workload.Kind == inventory.DaemonSet {
			wanted = min(int(workload.Ready), countNodes(o.shape.Groups))
		}
		if pods.Total < wanted || pods.Ready < pods.Total {
			return false
		}
	}
	return true
}

func (o *rehearsal) upgradeControlPlane(ctx context.Context) error {
	patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"spec":{"versions":{"controlPlane":%q}}}`, o.versions.To))
	if err := o.client.Patch(ctx, o.shape.Cluster, patch); err != nil {
		return fmt.Errorf("upgrading the control plane of SimulatedCluster %s: %w", o.name, err)
	}
	if err := o.awaitControlPlane(o.versions.To)(ctx); err != nil {
		return err
	}
	// Until the agent has said so of its Cluster, the hub refuses kubelets of the new minor.
	if err := cmdutil.Until(ctx, o.client, &v1alpha1.ClusterList{}, client.ObjectKey{Name: o.name}, &v1alpha1.Cluster{}, func(cluster *v1alpha1.Cluster) (bool, error) {
		served := cluster.Status.KubernetesVersion
		return served != "" && !isNewer(o.versions.To, served), nil
	}); err != nil {
		return err
	}
	return o.watcher.await(ctx, func(s *observe.Sample) (bool, error) { return s.Answered, nil })
}

// settleAfterControlPlane waits until pods are Ready again, and counts them from there on: hollow Nodes may start again with their control
// plane, which no real one does.
func (o *rehearsal) settleAfterControlPlane(ctx context.Context) error {
	if err := o.awaitPods(ctx); err != nil {
		return err
	}
	o.watcher.restartDips()
	return nil
}

func (o *rehearsal) upgradeKubelets(group string) func(context.Context) error {
	return func(ctx context.Context) error {
		deployment := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: o.name, Name: group}}
		patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"spec":{"template":{"spec":{"versions":{"kubelet":%q}}}}}`, o.versions.Kubelet))
		if err := o.client.Patch(ctx, deployment, patch); err != nil {
			return fmt.Errorf("upgrading the kubelets of MachineDeployment %s: %w", group, err)
		}
		return o.awaitRollout(ctx, deployment)
	}
}
