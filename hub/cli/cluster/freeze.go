package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
)

const (
	defaultTimeout = 30 * time.Second

	freezeLong = `Freeze a cluster, a MachineFleet, a MachineDeployment or a MachineSet by hand: until it is unfrozen, its controller creates,
replaces and deletes nothing. Running Machines keep running, and their status is still reported.

While a MachineFleet is frozen, the hub changes none of its MachineDeployments, which are not frozen themselves.

Freezing a cluster also stops its agent: deletions and drains that were ordered wait. Freezing a MachineDeployment or a
MachineSet does not: the agent still carries out orders, such as the deletion of a Machine. Freeze the cluster to stop
that as well. Freezing a MachineSet also freezes its MachineDeployment, and with it the other sets of that MachineDeployment.

The object shows who froze it and why. The command returns when the hub has confirmed the freeze.`

	unfreezeLong = `End a freeze that a user ordered. Hollowfleet's own freezes, such as that of a cluster whose agent is
silent, end automatically when their cause is gone; until then the object stays frozen, and the command says so.`
)

var freezableKinds = []cmdutil.Kind{cmdutil.ClusterKind, cmdutil.FleetKind, cmdutil.DeploymentKind, cmdutil.SetKind}

// freezeOptions of both commands.
type freezeOptions struct {
	cmdutil.Change
	reason    string
	overwrite bool
}

func (o *freezeOptions) addTo(command *cobra.Command) {
	o.Change = cmdutil.NewChange(command)
	cmdutil.AddWait(command, &o.Wait, true, "the hub has confirmed it", defaultTimeout, "")
}

// run does something to the object that the arguments name, and tells of it what the format asks for.
func (o *freezeOptions) run(command *cobra.Command, hub *cmdutil.Hub, args []string, do func(*freezeTarget) ([]cmdutil.Fact, error)) error {
	if err := o.Output.Check(); err != nil {
		return err
	}
	t, err := findFreezeTarget(command, o.Telling(hub), o.DryRun, args)
	if err != nil {
		return err
	}
	facts, err := do(t)
	if err != nil {
		return err
	}
	return o.Output.Result(hub, t.object, facts...)
}

// NewFreeze returns "freeze".
func NewFreeze(hub *cmdutil.Hub) *cobra.Command {
	o := &freezeOptions{}
	command := &cobra.Command{
		Use: "freeze (cluster|machinefleet|machinedeployment|machineset) NAME", Short: "Stop creating, replacing and deleting in a cluster, a MachineFleet, a MachineDeployment or a MachineSet", Long: freezeLong,
		Example: `  # Nothing is created or deleted in cluster c1 until it is unfrozen
  kubectl hollow freeze cluster c1 --reason "storage maintenance until 18:00"

  # One MachineDeployment of that cluster
  kubectl hollow freeze machinedeployment workers -n c1 --reason "looking into failed nodes"`,
		ValidArgsFunction: hub.CompleteObjects(freezableKinds...),
		RunE: func(command *cobra.Command, args []string) error {
			return o.run(command, hub, args, func(t *freezeTarget) ([]cmdutil.Fact, error) { return t.writeFreeze(command.Context(), o) })
		},
	}
	command.Flags().StringVar(&o.reason, "reason", "", "reason, shown to users of the object")
	command.Flags().BoolVar(&o.overwrite, "overwrite", false, "replace a freeze that a user ordered earlier")
	o.addTo(command)
	return command
}

// NewUnfreeze returns "unfreeze".
func NewUnfreeze(hub *cmdutil.Hub) *cobra.Command {
	o := &freezeOptions{}
	command := &cobra.Command{
		Use: "unfreeze (cluster|machinefleet|machinedeployment|machineset) NAME", Short: "End a freeze that a user ordered", Long: unfreezeLong,
		Example: `  kubectl hollow unfreeze cluster c1
  kubectl hollow unfreeze machinedeployment workers -n c1`,
		ValidArgsFunction: hub.CompleteObjects(freezableKinds...),
		RunE: func(command *cobra.Command, args []string) error {
			return o.run(command, hub, args, func(t *freezeTarget) ([]cmdutil.Fact, error) { return t.removeFreeze(command.Context(), o) })
		},
	}
	o.addTo(command)
	return command
}

// freezeTarget is the object to freeze or unfreeze.
type freezeTarget struct {
	hub    *cmdutil.Hub
	client client.WithWatch
	object client.Object
	list   client.ObjectList
	// kind is that of the object as the hub writes it; name is how the object is called in messages.
	kind, name string
}

func findFreezeTarget(command *cobra.Command, hub *cmdutil.Hub, dryRun *cmdutil.DryRun, args []string) (*freezeTarget, error) {
	kind, name, err := cmdutil.Object(command, args, freezableKinds...)
	if err != nil {
		return nil, err
	}
	t := &freezeTarget{hub: hub, name: fmt.Sprintf("%s.%s/%s", kind, v1alpha1.GroupVersion.Group, name)}
	key := client.ObjectKey{Name: name}
	switch kind {
	case cmdutil.ClusterKind:
		t.kind, t.object, t.list = "Cluster", &v1alpha1.Cluster{}, &v1alpha1.ClusterList{}
	case cmdutil.FleetKind:
		t.kind, t.object, t.list = "MachineFleet", &v1alpha1.MachineFleet{}, &v1alpha1.MachineFleetList{}
	case cmdutil.DeploymentKind:
		t.kind, t.object, t.list = "MachineDeployment", &v1alpha1.MachineDeployment{}, &v1alpha1.MachineDeploymentList{}
	case cmdutil.SetKind:
		t.kind, t.object, t.list = "MachineSet", &v1alpha1.MachineSet{}, &v1alpha1.MachineSetList{}
	case cmdutil.LoadTestKind, cmdutil.DisruptionKind, cmdutil.SimulatedSetKind, cmdutil.MachineKind: // They are none of freezableKinds.
	}
	if kind != cmdutil.ClusterKind && kind != cmdutil.FleetKind {
		if key.Namespace, err = hub.Namespace(); err != nil {
			return nil, err
		}
	}
	if t.client, err = dryRun.Client(hub); err != nil {
		return nil, err
	}
	return t, cmdutil.Get(command.Context(), t.client, kind, key, t.object)
}

func (t *freezeTarget) writeFreeze(ctx context.Context, o *freezeOptions) ([]cmdutil.Fact, error) {
	earlier := ""
	if reason, frozen := t.orderedReason(); frozen {
		if earlier = fmt.Sprintf("by %s (%s)", t.userName(), reason); !o.overwrite {
			return nil, cmdutil.Refusal("%s is already frozen, %s: unfreeze it first, or add --overwrite", t.name, earlier)
		}
	}
	user, err := t.hub.User(ctx, t.client)
	if err != nil {
		return nil, err
	}
	err = t.patchAnnotations(ctx, func(annotations map[string]string) {
		annotations[v1alpha1.FreezeAnnotation], annotations[v1alpha1.FreezeUserAnnotation] = o.reason, user
	})
	if err != nil {
		return nil, err
	}
	t.hub.Say("%s frozen by %s", t.name, user)
	order := t.describeOrder()
	if o.Waits() {
		err = t.awaitFrozen(ctx, o.Wait.Timeout, "frozen", func(frozen *metav1.Condition, _ bool) bool {
			return namesOrder(frozen, order)
		})
	}
	return append([]cmdutil.Fact{{Name: "Reason", Value: o.reason}, {Name: "Frozen before", Value: earlier}}, t.frozenFacts()...), err
}

func (t *freezeTarget) removeFreeze(ctx context.Context, o *freezeOptions) ([]cmdutil.Fact, error) {
	reason, ordered := t.orderedReason()
	if !ordered {
		t.hub.Say("%s was not frozen by hand", t.name)
		t.printResult()
		return t.frozenFacts(), nil
	}
	since, user, order := cmdutil.Since(frozenCondition(t.object)), t.userName(), t.describeOrder()
	facts := []cmdutil.Fact{{Name: "Reason", Value: reason}, {Name: "It was frozen since", Value: since}}
	err := t.patchAnnotations(ctx, func(annotations map[string]string) {
		delete(annotations, v1alpha1.FreezeAnnotation)
		delete(annotations, v1alpha1.FreezeUserAnnotation)
	})
	if err != nil {
		return nil, err
	}
	t.hub.Say("%s unfrozen (it was frozen by %s)", t.name, user)
	if !o.Waits() {
		return facts, nil
	}
	err = t.awaitFrozen(ctx, o.Wait.Timeout, "unfrozen", func(frozen *metav1.Condition, above bool) bool {
		return !namesOrder(frozen, order) && (frozen.Status != metav1.ConditionTrue || frozen.Reason != v1alpha1.ReasonManualFreeze || above)
	})
	if err != nil {
		return nil, err
	}
	t.printResult()
	return append(facts, t.frozenFacts()...), nil
}

// frozenFacts are what the hub says of the object's being frozen.
func (t *freezeTarget) frozenFacts() []cmdutil.Fact {
	facts := []cmdutil.Fact{{Name: "Namespace", Value: t.object.GetNamespace()}}
	if frozen := frozenCondition(t.object); frozen != nil {
		facts = append(facts, cmdutil.Fact{Name: "Frozen", Value: fmt.Sprintf("%s (%s)", frozen.Status, frozen.Reason)},
			cmdutil.Fact{Name: "Frozen since", Value: cmdutil.Since(frozen)}, cmdutil.Fact{Name: "Why", Value: frozen.Message})
	}
	return facts
}

// orderedReason is the freeze that a person ordered.
func (t *freezeTarget) orderedReason() (reason string, frozen bool) {
	reason, frozen = t.object.GetAnnotations()[v1alpha1.FreezeAnnotation]
	if reason == "" {
		reason = "no reason given"
	}
	return reason, frozen
}

// describeOrder is how the hub tells of the freeze that a person ordered.
func (t *freezeTarget) describeOrder() string { return freeze.OfAnnotation(t.kind, t.object).Message }

// namesOrder reports whether the object is frozen by an order, be it alone or beside other causes.
func namesOrder(frozen *metav1.Condition, order string) bool {
	return frozen.Status == metav1.ConditionTrue && strings.Contains(frozen.Message, order)
}

func (t *freezeTarget) userName() string {
	if user := t.object.GetAnnotations()[v1alpha1.FreezeUserAnnotation]; user != "" {
		return user
	}
	return "an unknown user"
}

// patchAnnotations changes these annotations alone, so it never stands back behind another's change.
func (t *freezeTarget) patchAnnotations(ctx context.Context, change func(map[string]string)) error {
	before, ok := t.object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copying %s: it is not an object", t.name)
	}
	annotations := t.object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	change(annotations)
	t.object.SetAnnotations(annotations)
	if err := t.client.Patch(ctx, t.object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing %s: %w", t.name, err)
	}
	return nil
}

// awaitFrozen waits until the hub says what is wanted of the object's Frozen frozenCondition; above reports whether a person
// froze what the object belongs to.
func (t *freezeTarget) awaitFrozen(ctx context.Context, timeout time.Duration, what string, done func(frozen *metav1.Condition, above bool) bool) error {
	above, err := t.frozenAbove(ctx)
	if err != nil {
		return err
	}
	err = cmdutil.Within(ctx, timeout, func(ctx context.Context) error {
		return cmdutil.Until(ctx, t.client, t.list, client.ObjectKeyFromObject(t.object), t.object, func(object client.Object) (bool, error) {
			t.object = object
			frozen := frozenCondition(object)
			return frozen != nil && done(frozen, above), nil
		})
	}, func() error {
		return cmdutil.Timeout("the hub has not confirmed within %s that %s is %s: %s", timeout, t.name, what,
			cmdutil.DescribeStoppedHub(ctx, t.client, "it works, but is slow or has errors: see its log"))
	})
	if err != nil {
		return err
	}
	return t.hub.ProveHub(ctx, t.client, t.name+" was "+what)
}

// frozenAbove reports whether a person froze the cluster or the MachineDeployment that the object belongs to.
func (t *freezeTarget) frozenAbove(ctx context.Context) (bool, error) {
	above := map[client.Object]client.ObjectKey{}
	switch object := t.object.(type) {
	case *v1alpha1.MachineDeployment:
		above[&v1alpha1.Cluster{}] = client.ObjectKey{Name: object.Spec.ClusterName}
	case *v1alpha1.MachineSet:
		above[&v1alpha1.Cluster{}] = client.ObjectKey{Name: object.Spec.ClusterName}
		if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == "MachineDeployment" {
			above[&v1alpha1.MachineDeployment{}] = client.ObjectKey{Namespace: object.Namespace, Name: owner.Name}
		}
	}
	for object, key := range above {
		if err := t.client.Get(ctx, key, object); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading %s: %w", key, err)
		}
		if _, frozen := object.GetAnnotations()[v1alpha1.FreezeAnnotation]; frozen {
			return true, nil
		}
	}
	return false, nil
}

// printResult says what still freezes the object.
func (t *freezeTarget) printResult() {
	if frozen := frozenCondition(t.object); frozen != nil && frozen.Status == metav1.ConditionTrue {
		if frozen.Reason == v1alpha1.ReasonRelisting || frozen.Reason == v1alpha1.ReasonStarting {
			t.hub.Note("%s resumes in a few seconds (%s): %s", t.name, frozen.Reason, frozen.Message)
			return
		}
		t.hub.Note("%s stays frozen (%s): %s", t.name, frozen.Reason, frozen.Message)
	}
}

func frozenCondition(object client.Object) *metav1.Condition {
	var list []metav1.Condition
	switch object := object.(type) {
	case *v1alpha1.Cluster:
		list = object.Status.Conditions
	case *v1alpha1.MachineFleet:
		list = object.Status.Conditions
	case *v1alpha1.MachineDeployment:
		list = object.Status.Conditions
	case *v1alpha1.MachineSet:
		list = object.Status.Conditions
	}
	return meta.FindStatusCondition(list, v1alpha1.FrozenCondition)
}
