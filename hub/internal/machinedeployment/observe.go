package machinedeployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/configsource/content"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	machinesets "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/upcoming"
)

// scope is all that one reconciliation knows.
type scope struct {
	deployment *v1alpha1.MachineDeployment
	// template is the deployment's, with the content of its configSource; config tells how it got that.
	template v1alpha1.MachineTemplate
	config   configSource
	frozen   freeze.Verdict
	// clock is that of the Machines.
	clock *freeze.Clock
	// kubernetes is the version of the cluster's API server; empty if it is not known.
	kubernetes string
	// upcoming is the version that the API server is about to have, if the current template waits for that; empty if it does not.
	upcoming string
	// sets are those that the deployment owns, oldest first; current is the one of its template, if there is.
	sets    []*v1alpha1.MachineSet
	current *v1alpha1.MachineSet
	// orphans are sets that no controller owns and the deployment's selector matches: it adopts them.
	orphans []*v1alpha1.MachineSet
	// leftovers are sets that no controller owns, which carry the deployment's name and do not match its selector.
	leftovers []*v1alpha1.MachineSet
	// strangers are sets that no controller owns and that match by their labels alone: adopting one would cost it Machines.
	strangers []*v1alpha1.MachineSet
	// overlap says with which older deployment this one would fight; empty if there is none.
	overlap string
	// others are the sets of the namespace that are neither the deployment's nor its orphans.
	others map[types.UID]bool
	// hash names the template.
	hash string
	// machines are those of each set and orphan, ownerless those of the deployment whose set does not exist; counts has all
	// of them.
	machines  map[types.UID]*members
	ownerless members
	counts    machines.Counts
	// peers share the deployment's surge.
	peers peers
	// unseen are the sets whose current spec their controller may still have to work on.
	unseen map[types.UID]bool
	// renumbered: the template has got another revision in this reconciliation.
	renumbered bool
	// undecodable freezes the deployment while one of its sets, or of the deployments that share its surge, is not known.
	undecodable freeze.Verdict
	// heldBy are the peers for which all that is left of the rollout waits.
	heldBy []string
}

// members are the Machines of one set.
type members struct {
	machines.Counts
	facts []plan.Machine
	// failed are those that have failed and are not being deleted.
	failed []machines.Failure
	// refusing are those that keep their kubelet configuration because they cannot have that of the template.
	refusing []machines.Failure
	// otherKubelet names those whose Node reports another kubelet version than they ask for.
	otherKubelet []string
}

// related are what there is beside a deployment and its Machines. A cluster that is not there is nil.
type related struct {
	cluster *v1alpha1.Cluster
	// deployments are those of the namespace, if there is a surge to be shared with them.
	deployments []v1alpha1.MachineDeployment
	// neighbours are those of the namespace as the cache has them: a deployment is in it before one that is younger.
	neighbours []v1alpha1.MachineDeployment
	sets       []v1alpha1.MachineSet
	// kubelet has the KubeletConfigurations of the namespace, if the template names one; nil if it does not exist.
	kubelet *corev1.ConfigMap
}

// listRelated reads what is related to deployment, all at once: every step of a rollout waits for it. The sets are what listSets returns.
func (c *Controller) listRelated(ctx context.Context, reader client.Reader, deployment *v1alpha1.MachineDeployment,
	listSets func(context.Context) ([]v1alpha1.MachineSet, error),
) (related, error) {
	var around related
	neighbours := &v1alpha1.MachineDeploymentList{}
	// Nothing changes one, so the cache need not copy them.
	if err := c.Client.List(ctx, neighbours, client.InNamespace(deployment.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return related{}, fmt.Errorf("listing the other machine deployments: %w", err)
	}
	around.neighbours = neighbours.Items
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() error {
		cluster, name := &v1alpha1.Cluster{}, deployment.Spec.ClusterName
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, cluster); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("getting cluster %s: %w", name, err)
		} else if err == nil {
			around.cluster = cluster
		}
		return nil
	})
	reads.Go(func() (err error) {
		around.sets, err = listSets(ctx)
		return err
	})
	if deployment.Spec.Template.Spec.ConfigSource != nil {
		reads.Go(func() (err error) {
			around.kubelet, err = content.Find(ctx, reader, deployment.Namespace)
			return err
		})
	}
	if group := deployment.Spec.Strategy.SurgeGroup(); group != "" {
		reads.Go(func() error {
			list := &v1alpha1.MachineDeploymentList{}
			// Nothing changes one, so the cache need not copy them.
			if err := reader.List(ctx, list, client.InNamespace(deployment.Namespace), client.UnsafeDisableDeepCopy); err != nil {
				return fmt.Errorf("listing machine deployments of surge group %s: %w", group, err)
			}
			around.deployments = list.Items
			return nil
		})
	}
	err := reads.Wait()
	return around, err
}

// listSets lists the sets of a namespace as the cache has them.
func (c *Controller) listSets(ctx context.Context, namespace string) ([]v1alpha1.MachineSet, error) {
	list := &v1alpha1.MachineSetList{}
	// Nothing changes one, so the cache need not copy them.
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing machine sets: %w", err)
	}
	return list.Items, nil
}

// newScope takes in all of deployment but its Machines, which are added to what it returns. worked tells on which generation of
// each set its controller had worked before the Machines were read: what it does from there on may not be among them.
func (c *Controller) newScope(deployment *v1alpha1.MachineDeployment, around related, worked map[types.UID]int64, now time.Time) (*scope, error) {
	s := &scope{
		deployment: deployment, clock: freeze.ClockOf(around.cluster, now),
		machines: map[types.UID]*members{}, unseen: map[types.UID]bool{}, others: map[types.UID]bool{},
	}
	c.addCluster(s, around.cluster)
	err := s.resolveTemplate(around.kubelet, around.sets)
	if err != nil {
		return nil, err
	}
	var collisions int32
	if deployment.Status.CollisionCount != nil {
		collisions = *deployment.Status.CollisionCount
	}
	if s.hash, err = plan.Hash(s.template, collisions); err != nil {
		return nil, err
	}
	for i := range around.deployments {
		if around.deployments[i].NotDecoded() != "" {
			s.undecodable = freeze.OfDecoding(&around.deployments[i]) // It may be of the group.
		}
	}
	s.overlap = overlapping(deployment, around.neighbours)
	s.addPeers(around.deployments)
	if err := s.addSets(around.sets); err != nil {
		return nil, err
	}
	for _, set := range s.sets {
		s.unseen[set.UID] = worked[set.UID] < set.Generation
	}
	for uid, set := range s.peers.sets {
		s.unseen[uid] = worked[uid] < set.Generation
	}
	return s, nil
}

// countMachines sums up, when all Machines have been added.
func (c *Controller) countMachines(s *scope) {
	if s.clock.Stands {
		s.counts.NextAvailable = 0 // It stands, and the thaw wakes the deployment.
	}
	s.frozen = freeze.All(s.overshootVerdict(c.Safety), s.frozen, s.heldSet(), s.undecodable)
}

// heldSet freezes the deployment as long as a person has frozen one of its sets: its steps take Machines of them all.
func (s *scope) heldSet() freeze.Verdict {
	for _, set := range s.sets {
		if verdict := freeze.OfAnnotation("MachineSet", set); verdict.Frozen {
			return verdict
		}
	}
	return freeze.Verdict{}
}

// overshootVerdict freezes the deployment as long as one of its sets is frozen for its own surplus of Machines.
func (s *scope) overshootVerdict(limits machinesets.OvershootLimits) freeze.Verdict {
	for _, set := range s.sets {
		facts := machinesets.OvershootOf(set, s.deployment, s.machines[set.UID].Active)
		if verdict := freeze.OfOvershoot(limits.DescribeOvershoot(set.Name, facts)); verdict.Frozen {
			return verdict
		}
	}
	return freeze.Verdict{}
}

// workedGenerations tells on which generation of each set its controller has worked, as far as the set or this process knows.
func (c *Controller) workedGenerations(sets []v1alpha1.MachineSet) map[types.UID]int64 {
	generations := make(map[types.UID]int64, len(sets))
	for i := range sets {
		generations[sets[i].UID] = max(sets[i].Status.ObservedGeneration, c.Sets.Worked(sets[i].UID))
	}
	return generations
}

func (s *scope) addSets(sets []v1alpha1.MachineSet) error {
	slices.SortFunc(sets, func(a, b v1alpha1.MachineSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	selector := labels.SelectorFromSet(s.deployment.Spec.Selector.MatchLabels)
	var candidates []*v1alpha1.MachineSet
	for i := range sets {
		set := &sets[i]
		controller := metav1.GetControllerOf(set)
		owned := controller != nil && controller.UID == s.deployment.UID
		orphan := isOrphanOf(set, controller, s.deployment.Name, selector)
		switch {
		case (owned || orphan) && set.NotDecoded() != "":
			s.undecodable = freeze.OfDecoding(set)
			s.machines[set.UID] = &members{} // They count.
		case owned:
			if err := s.addOwnedSet(set); err != nil {
				return err
			}
		case orphan:
			candidates = append(candidates, set)
		default:
			s.others[set.UID] = true
			if controller == nil && set.Labels[v1alpha1.MachineDeploymentNameLabel] == s.deployment.Name {
				s.leftovers = append(s.leftovers, set)
			}
			s.peers.addSet(set, controller)
		}
	}
	return s.addOrphans(candidates)
}

func (s *scope) addOwnedSet(set *v1alpha1.MachineSet) error {
	same, err := plan.SameTemplate(set.Spec.Template, s.template)
	if err != nil {
		return fmt.Errorf("comparing machine set %s: %w", set.Name, err)
	}
	s.sets = append(s.sets, set)
	s.machines[set.UID] = &members{}
	// Of several sets with this template, which only a user can have made, the largest stays: it is the one that is filled, so
	// it stays the largest. Of equals it is the oldest.
	if same && set.DeletionTimestamp == nil && (s.current == nil || setReplicas(set) > setReplicas(s.current)) {
		s.current = set
	}
	return nil
}

// addMachine takes in one Machine of the namespace. It does not change it.
func (s *scope) addMachine(machine *v1alpha1.Machine) {
	controller := metav1.GetControllerOfNoCopy(machine)
	if controller == nil || controller.Kind != "MachineSet" {
		return
	}
	owner, owned := s.machines[controller.UID]
	if !owned {
		if s.others[controller.UID] || machine.Labels[v1alpha1.MachineDeploymentNameLabel] != s.deployment.Name {
			s.peers.addMachine(machine, controller.UID, s.others[controller.UID])
			return
		}
		owner = &s.ownerless
	}
	state := machines.Of(machine, time.Duration(s.deployment.Spec.MinReadySeconds)*time.Second, s.clock)
	owner.Add(state)
	s.counts.Add(state)
	owner.noteTroubles(machine, state)
	owner.facts = append(owner.facts, plan.Machine{
		Name: machine.Name, UID: machine.UID, Created: machine.CreationTimestamp.Time, ResourceVersion: machine.ResourceVersion,
		// One that cannot be decoded takes up its place, and like one that is being deleted it is never chosen for anything.
		Deleting: state.Deleting || machine.NotDecoded() != "",
		Ready:    state.Ready, Available: state.Available, Marked: state.Marked, Priority: state.Priority,
		Update: state.Update, Requested: state.Requested,
	})
}

// addCluster finds out whether anything freezes the deployment, itself or its cluster, and which kubelets that allows.
func (c *Controller) addCluster(s *scope, cluster *v1alpha1.Cluster) {
	s.frozen = freeze.First(
		freeze.OfAnnotation("MachineDeployment", s.deployment),
		freeze.OfCluster(s.deployment.Spec.ClusterName, s.deployment.Namespace, cluster),
		c.Agents.Verdict(cluster),
	)
	if cluster != nil {
		s.kubernetes = cluster.Status.KubernetesVersion
	}
}

// addUpcoming finds out whether a template that the cluster's API server does not support waits for a later one, which that is about to have.
func (c *Controller) addUpcoming(ctx context.Context, s *scope, cluster *v1alpha1.Cluster) error {
	if cluster == nil || s.describeRefusal(s.deployment.Spec.Template) == "" {
		return nil
	}
	soon, err := upcoming.ReadVersion(ctx, c.Client, cluster)
	if err != nil {
		return err
	}
	template := &s.deployment.Spec.Template
	if soon != "" && v1alpha1.UnsupportedKubelet(template.Spec.Versions.Kubelet, soon, template.Metadata.Annotations) == "" {
		s.upcoming = soon
	}
	return nil
}

// describeRefusal says why the agent would refuse new Machines of template; empty if it would not, or if that is not known.
func (s *scope) describeRefusal(template v1alpha1.MachineTemplate) string {
	return v1alpha1.UnsupportedKubelet(template.Spec.Versions.Kubelet, s.kubernetes, template.Metadata.Annotations)
}

// planInput is what the planner needs to know.
func (s *scope) planInput() plan.Input {
	in := plan.Input{
		Replicas: replicasOf(s.deployment), Strategy: s.deployment.Spec.Strategy, Paused: s.deployment.Spec.Paused,
		Refused: s.config.missing != "" || s.describeRefusal(s.deployment.Spec.Template) != "",
		Frozen:  s.frozen.Frozen, Deleting: s.deployment.DeletionTimestamp != nil, Peers: s.peers.planPeers(s.unseen),
	}
	for _, set := range s.sets {
		facts := plan.Set{
			Name: set.Name, Created: set.CreationTimestamp.Time, Replicas: setReplicas(set),
			Unseen:   s.unseen[set.UID],
			Priority: machines.Priority(set.Spec.Template.Metadata.Annotations),
			SizedFor: sizedFor(set), Locked: isLocked(set), Machines: s.machines[set.UID].facts,
			Refused: s.describeRefusal(set.Spec.Template) != "",
		}
		if set.DeletionTimestamp != nil {
			facts.Replicas, facts.Unseen, facts.Locked = 0, false, false // It makes no more Machines, and cannot be scaled.
		}
		if set == s.current {
			in.New = &facts
		} else {
			in.Old = append(in.Old, facts)
		}
	}
	// Machines whose set does not exist take up room until they are gone too.
	if len(s.ownerless.facts) > 0 {
		in.Old = append(in.Old, plan.Set{Machines: s.ownerless.facts})
	}
	return in
}

// isLocked reports whether Machines are being moved out of set or into it.
func isLocked(set *v1alpha1.MachineSet) bool {
	_, found := set.Annotations[v1alpha1.TransferAnnotation]
	return found
}

// sizedFor is the replicas of the deployment for which set was scaled last; nil if it does not say so.
func sizedFor(set *v1alpha1.MachineSet) *int {
	number, err := strconv.Atoi(set.Annotations[v1alpha1.DesiredReplicasAnnotation])
	if err != nil {
		return nil
	}
	return &number
}

func replicasOf(deployment *v1alpha1.MachineDeployment) int {
	return v1alpha1.DesiredReplicas(deployment.Spec.Replicas)
}

func setReplicas(set *v1alpha1.MachineSet) int {
	return v1alpha1.DesiredReplicas(set.Spec.Replicas)
}

// revisionOf is the revision that an object carries; 0 if it carries none.
func revisionOf(object metav1.Object) int64 {
	number, err := strconv.ParseInt(object.GetAnnotations()[v1alpha1.RevisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return number
}
