package simulatedcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// createMachineDeployments creates the MachineDeployments that the simulated cluster starts with. Each name is in the status when it was
// created, and then it is the user's: what the user deletes stays deleted. One that exists under the name counts as created.
func (c *Controller) createMachineDeployments(ctx context.Context, s *scope) error {
	if len(s.one.Spec.MachineDeployments) == 0 {
		return nil
	}
	s.started = s.explainWait()
	if s.started.Status != metav1.ConditionTrue || len(s.missingDeployments()) == 0 {
		return nil
	}
	switch current, err := c.isCurrent(ctx, s); {
	case err != nil:
		s.started = pendingCondition("The hub has not created them yet")
		return err
	case !current:
		s.started = pendingCondition("The hub has not observed the Cluster and its namespace as they are now")
		return &outcome.Wait{After: outcome.ConflictRetry, Reason: v1alpha1.ReasonPending, Message: s.started.Message}
	}
	var problems []error
	before := s.one.DeepCopy()
	for _, initial := range s.missingDeployments() {
		deployment := newMachineDeployment(s.one.Name, initial)
		err := c.Client.Create(ctx, deployment)
		if err != nil && !apierrors.IsAlreadyExists(err) {
			problems = append(problems, fmt.Errorf("spec.machineDeployments[%s]: creating MachineDeployment %s/%s: %w", initial.Name, s.one.Name, initial.Name, err))
			continue
		}
		if err == nil {
			reconciler.NormalEvent("MachineDeploymentCreated", "Create", "Created MachineDeployment "+initial.Name).Send(c.Recorder, s.one)
		}
		s.one.Status.MachineDeployments = append(s.one.Status.MachineDeployments, initial.Name)
	}
	err := errors.Join(problems...)
	if err != nil {
		s.started = metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCreateFailed, Message: err.Error()}
	}
	return errors.Join(err, c.recordDeployments(ctx, s, before))
}

// recordDeployments writes the names at once, and without a lock: only the hub writes this field, and a conflict would leave time in which
// a user deletes what would then be created again.
func (c *Controller) recordDeployments(ctx context.Context, s *scope, before *v1alpha1.SimulatedCluster) error {
	if err := c.Client.Status().Patch(ctx, s.one, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("recording the MachineDeployments that were created: %w", err)
	}
	return nil
}

// explainWait says what the MachineDeployments wait for; it is True if they may be created. It is pure.
func (s *scope) explainWait() metav1.Condition {
	frozen := freeze.Verdict{}
	if s.owns() {
		frozen = freeze.First(s.held, freeze.OfAnnotation("Cluster", s.cluster))
	}
	switch {
	case len(s.missingDeployments()) == 0:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCreated, Message: "Changes of them are made in namespace " + s.one.Name}
	case !s.owns() || s.cluster.DeletionTimestamp != nil:
		return pendingCondition("The Cluster does not exist yet")
	case frozen.Frozen:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: frozen.Reason, Message: "They are created when nothing holds them any more: " + frozen.Message}
	case s.cluster.Status.Namespace == "":
		return pendingCondition("The Cluster has no namespace yet")
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCreated, Message: "Changes of them are made in namespace " + s.one.Name}
}

// missingDeployments are those that were not created yet.
func (s *scope) missingDeployments() []v1alpha1.InitialMachineDeployment {
	return slices.DeleteFunc(slices.Clone(s.one.Spec.MachineDeployments), func(initial v1alpha1.InitialMachineDeployment) bool {
		return slices.Contains(s.one.Status.MachineDeployments, initial.Name)
	})
}

// isCurrent reports whether the API server has it all as the cache shows it: what the cache does not show yet would be created twice. A
// namespace that was not made for the SimulatedCluster gets nothing.
func (c *Controller) isCurrent(ctx context.Context, s *scope) (bool, error) {
	live := &v1alpha1.SimulatedCluster{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(s.one), live); err != nil {
		return false, wrapMissing("reading the simulated cluster again", err)
	}
	cluster, err := readCluster(ctx, c.Live, s.one.Name)
	if err != nil {
		return false, err
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Live.Get(ctx, client.ObjectKey{Name: s.one.Name}, namespace); err != nil {
		return false, wrapMissing("reading namespace "+s.one.Name, err)
	}
	return live.UID == s.one.UID && live.DeletionTimestamp == nil && slices.Equal(live.Status.MachineDeployments, s.one.Status.MachineDeployments) &&
		cluster != nil && cluster.UID == s.cluster.UID && cluster.DeletionTimestamp == nil &&
		namespace.DeletionTimestamp == nil && namespace.Annotations[v1alpha1.SimulatedClusterAnnotation] == s.one.ProofOfSimulation(), nil
}

// wrapMissing is nil for what does not exist.
func wrapMissing(what string, err error) error {
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// newMachineDeployment is what a simulated cluster starts with.
func newMachineDeployment(cluster string, initial v1alpha1.InitialMachineDeployment) *v1alpha1.MachineDeployment {
	deployment := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: initial.Name, Labels: map[string]string{v1alpha1.ClusterNameLabel: cluster},
	}}
	initial.Template.DeepCopyInto(&deployment.Spec.Template)
	if len(deployment.Spec.Template.Metadata.Labels) == 0 {
		deployment.Spec.Template.Metadata.Labels = map[string]string{"pool": initial.Name}
	}
	deployment.Spec.ClusterName, deployment.Spec.Replicas = cluster, new(int32(v1alpha1.DesiredReplicas(initial.Replicas)))
	deployment.Spec.Selector.MatchLabels = maps.Clone(deployment.Spec.Template.Metadata.Labels)
	return deployment
}
