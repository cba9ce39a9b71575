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

// createInitial creates the MachineClasses and MachineDeployments that the simulated cluster starts with. Each name is in the status when it
// was created, and then it is the user's: what the user deletes stays deleted. One that exists under the name counts as created.
func (c *Controller) createInitial(ctx context.Context, s *scope) error {
	if !s.startsWithAny() {
		return nil
	}
	s.started = s.explainWait()
	if s.started.Status != metav1.ConditionTrue || !s.isMissingAny() {
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
	before := s.one.DeepCopy()
	err := errors.Join(c.createClasses(ctx, s), c.createMachineDeployments(ctx, s))
	if err != nil {
		s.started = metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCreateFailed, Message: err.Error()}
	}
	return errors.Join(err, c.recordInitial(ctx, s, before))
}

// startsWithAny reports whether the simulated cluster starts with anything.
func (s *scope) startsWithAny() bool {
	return len(s.one.Spec.MachineClasses)+len(s.one.Spec.MachineDeployments) > 0
}

// isMissingAny reports whether anything that it starts with was not created yet.
func (s *scope) isMissingAny() bool { return len(s.missingClasses())+len(s.missingDeployments()) > 0 }

func (c *Controller) createClasses(ctx context.Context, s *scope) error {
	var problems []error
	for _, initial := range s.missingClasses() {
		class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: s.one.Name, Name: initial.Name}}
		initial.Spec.DeepCopyInto(&class.Spec)
		if err := c.createOne(ctx, s, "MachineClass", class); err != nil {
			problems = append(problems, fmt.Errorf("spec.machineClasses[%s]: %w", initial.Name, err))
			continue
		}
		s.one.Status.MachineClasses = append(s.one.Status.MachineClasses, initial.Name)
	}
	return errors.Join(problems...)
}

// createMachineDeployments creates those whose MachineClass does not have to be created first.
func (c *Controller) createMachineDeployments(ctx context.Context, s *scope) error {
	var problems []error
	for _, initial := range s.missingDeployments() {
		if s.lacksClass(initial) {
			continue // Its class says why.
		}
		if err := c.createOne(ctx, s, "MachineDeployment", newMachineDeployment(s.one.Name, initial)); err != nil {
			problems = append(problems, fmt.Errorf("spec.machineDeployments[%s]: %w", initial.Name, err))
			continue
		}
		s.one.Status.MachineDeployments = append(s.one.Status.MachineDeployments, initial.Name)
	}
	return errors.Join(problems...)
}

// lacksClass reports whether the MachineClass of a MachineDeployment is one that was not created yet.
func (s *scope) lacksClass(initial v1alpha1.InitialMachineDeployment) bool {
	class := initial.Template.Spec.ProviderConfig.ValueRef
	return class != nil && slices.ContainsFunc(s.missingClasses(), func(missing v1alpha1.InitialMachineClass) bool { return missing.Name == class.Name })
}

// createOne creates an object in the namespace of the Cluster. One that exists stays as it is.
func (c *Controller) createOne(ctx context.Context, s *scope, kind string, object client.Object) error {
	switch err := c.Client.Create(ctx, object); {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("creating %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	reconciler.NormalEvent(kind+"Created", "Create", "Created "+kind+" "+object.GetName()).Send(c.Recorder, s.one)
	return nil
}

// recordInitial writes the names at once, and without a lock: only the hub writes these fields, and a conflict would leave time in which
// a user deletes what would then be created again.
func (c *Controller) recordInitial(ctx context.Context, s *scope, before *v1alpha1.SimulatedCluster) error {
	if err := c.Client.Status().Patch(ctx, s.one, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("recording the MachineClasses and MachineDeployments that were created: %w", err)
	}
	return nil
}

// explainWait says what MachineClasses and MachineDeployments wait for; it is True if they may be created. It is pure.
func (s *scope) explainWait() metav1.Condition {
	frozen := freeze.Verdict{}
	if s.owns() {
		frozen = freeze.First(s.held, freeze.OfAnnotation("Cluster", s.cluster))
	}
	switch {
	case !s.isMissingAny():
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

// missingClasses are those that were not created yet.
func (s *scope) missingClasses() []v1alpha1.InitialMachineClass {
	return slices.DeleteFunc(slices.Clone(s.one.Spec.MachineClasses), func(initial v1alpha1.InitialMachineClass) bool {
		return slices.Contains(s.one.Status.MachineClasses, initial.Name)
	})
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
		slices.Equal(live.Status.MachineClasses, s.one.Status.MachineClasses) &&
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
