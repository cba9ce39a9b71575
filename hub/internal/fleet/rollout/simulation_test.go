package rollout

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// simulation is a fleet without an API server, for tests that take many steps: reading, deciding and keeping are the controller's, and
// what is written changes objects in memory. Each step is that of a hub that has just been started.
type simulation struct {
	*WithT
	fleet       *v1alpha1.MachineFleet
	clusters    []*v1alpha1.Cluster
	deployments map[string]*v1alpha1.MachineDeployment
	// kept is the ControllerRevision of the newest rollout; nil if there was none.
	kept *appsv1.ControllerRevision
	now  time.Time
}

// newSimulation has so many clusters c0, c1 and so on, all of which have the template v1.36.2, and a template v1.37.0. The first is of
// the group canary.
func newSimulation(t types.GomegaTestingT, clusters int) *simulation {
	has := map[string]string{"app": "x"}
	w := &simulation{WithT: NewWithT(t), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), deployments: map[string]*v1alpha1.MachineDeployment{}}
	w.fleet = &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: "fleet", UID: "fleet"}, Spec: v1alpha1.MachineFleetSpec{
		ClusterSelector: &metav1.LabelSelector{}, Replicas: new(int32(1)),
		Template: v1alpha1.MachineDeploymentTemplate{Spec: v1alpha1.MachineDeploymentTemplateSpec{
			Selector: v1alpha1.MachineSelector{MatchLabels: has}, Template: testenv.Template(has),
		}},
	}}
	for i := range clusters {
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i), UID: apitypes.UID(fmt.Sprint(i)), Labels: map[string]string{}}}
		cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
		meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: v1alpha1.ClusterAcceptedCondition, Status: metav1.ConditionTrue, Reason: "X"})
		meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "X"})
		w.clusters = append(w.clusters, cluster)
	}
	w.clusters[0].Labels["group"] = "canary"
	for range 3 {
		w.step()
		w.report(false, w.names()...)
	}
	w.kept = nil
	w.fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
	return w
}

func (w *simulation) names() []string {
	var names []string
	for _, cluster := range w.clusters {
		names = append(names, cluster.Name)
	}
	return names
}

// read is what a hub reads.
func (w *simulation) read() *Scope {
	s := &Scope{Fleet: w.fleet.DeepCopy(), Now: w.now, selection: &selection{matches: chooseAll}}
	var err error
	s.Revision, err = TextRevision(s.Fleet)
	w.Expect(err).NotTo(HaveOccurred())
	chosen, invalid := newSelectors(s.Fleet, Spelling{})
	w.Expect(invalid).To(BeNil())
	s.windows, invalid = newWindows(s.Fleet, s.Now)
	w.Expect(invalid).To(BeNil())
	r := &Observer{Deps: Deps{Agents: &freeze.Agents{}}}
	for _, cluster := range w.clusters {
		m := &Member{Cluster: cluster.DeepCopy(), matches: true, Selected: true}
		if d := w.deployments[cluster.Name]; d != nil {
			m.Deployment = d.DeepCopy()
		}
		m.Record = OwnRecord(s.Fleet, m.Deployment)
		r.findHold(m, nil)
		m.unhealthy = unhealthyConditions(s.Fleet.Spec.HealthConditions, m.Cluster)
		m.opensAt, m.closed = isClosed(s.windows, m.Cluster)
		chosen.classifyMember(s, m)
		s.Members = append(s.Members, m)
	}
	if w.kept != nil && s.hasStarted() {
		members, promise := readSnapshot(w.kept)
		known := Template{Revision: w.kept.Annotations[v1alpha1.FleetRevisionAnnotation], Members: members, Promise: promise}.Snapshot()
		if known.isOfRollout(s) {
			w.Expect(s.bindPromise(known)).To(BeNil())
		}
	}
	return s
}

// step carries a decision out, and returns in which clusters the revision was started.
func (w *simulation) step() []string {
	s := w.read()
	var begun []string
	d := Decide(s)
	w.Expect(d.stop).To(BeNil())
	for _, change := range d.Changes {
		if change.Begins {
			begun = append(begun, change.Member.Cluster.Name)
			if s.snapshot == nil {
				w.kept = &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.FleetRevisionAnnotation: s.Revision}}}
				w.Expect(SetSnapshot(w.kept, s.SnapshotToKeep())).To(Succeed())
			}
		}
		w.write(change)
	}
	return begun
}

func (w *simulation) write(change Write) {
	name := change.Member.Cluster.Name
	d := w.deployments[name]
	if change.Content != nil {
		change.Record.Namespace = name
		created, err := change.Content.NewDeployment(w.fleet.Name, change.Record)
		w.Expect(err).NotTo(HaveOccurred())
		if created.Generation = 1; d != nil {
			created.Generation, created.Status = d.Generation+1, d.Status
		}
		w.deployments[name] = created
		return
	}
	change.Record.Namespace = name
	d.Annotations[v1alpha1.FleetRecordAnnotation] = change.Record.AnnotationValue()
}

// report lets MachineDeployments say that all is well, or that they cannot continue.
func (w *simulation) report(failing bool, names ...string) {
	for _, name := range names {
		d := w.deployments[name]
		d.Status = v1alpha1.MachineDeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		if failing {
			d.Status.AvailableReplicas = 0
			meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{
				Type: v1alpha1.StalledCondition, Status: metav1.ConditionTrue, Reason: "X", LastTransitionTime: metav1.NewTime(w.now),
			})
		}
	}
}

// pass lets time pass.
func (w *simulation) pass(time time.Duration) { w.now = w.now.Add(time) }

func (w *simulation) freeze(i int) {
	meta.SetStatusCondition(&w.clusters[i].Status.Conditions, metav1.Condition{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAgentSilent})
}

// retry has the rollout started by the spec as it is now.
func (w *simulation) retry() {
	w.fleet.Spec.RetriedAt = &metav1.Time{Time: w.now.Truncate(time.Second)}
}

// choose is a selector of clusters by their label group.
func choose(groups ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "group", Operator: metav1.LabelSelectorOpIn, Values: slices.Clone(groups)}}}
}

func chooseAll(*v1alpha1.Cluster) bool { return true }
