package fleet

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/trace"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

const testLabel = "test"

// env is a fleet over clusters of its own. Their MachineDeployments have no controller: the test plays it.
type env struct {
	*testenv.Env
	faults   interceptor.Funcs
	clusters []*v1alpha1.Cluster
	fleet    *v1alpha1.MachineFleet
	agents   *freeze.Agents
	// placements is how the hub reads Placements; nil if it is started with their kinds missing.
	placements client.Reader
	// placementsUnread: the hub has not read them yet.
	placementsUnread bool
	logic            *Controller
	// tracers, if not nil, makes spans from the next restart on.
	tracers trace.TracerProvider
	// leads tells until when the hub leads, from the next restart on; nil if it is the only one.
	leads func(context.Context) (time.Time, error)
}

// newEnv makes so many clusters, by name, the first of which is the group canary, and a fleet over them.
func newEnv(t *testing.T, clusters int, change func(*v1alpha1.MachineFleet)) *env {
	t.Helper()
	testenv.RunInParallel(t)
	f := &env{Env: testenv.NewCachedEnv(t), agents: &freeze.Agents{}}
	f.Clock.SetTime(time.Date(2026, 1, 1, 0, 0, 0, 123456789, time.UTC))
	name := testenv.Name()
	for range clusters {
		f.clusters = append(f.clusters, f.AcceptedCluster())
	}
	slices.SortFunc(f.clusters, func(a, b *v1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	for i, cluster := range f.clusters {
		f.label(i, testLabel, name)
		f.ExpectConditionApplied(cluster, v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
	if clusters > 0 {
		f.label(0, "group", "canary")
	}
	labels := map[string]string{"app": "x"}
	f.fleet = &v1alpha1.MachineFleet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.MachineFleetSpec{
			ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{testLabel: name}},
			Template: v1alpha1.MachineDeploymentTemplate{Spec: v1alpha1.MachineDeploymentTemplateSpec{
				Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
			}},
			Replicas: new(int32(3)),
		},
	}
	if change != nil {
		change(f.fleet)
	}
	f.ExpectApplied(f.fleet)
	t.Cleanup(f.remove)
	f.restart()
	return f
}

// remove deletes what other fleets would read at each of their reconciliations: all the Clusters, MachineDeployments and ControllerRevisions
// that there are.
func (f *env) remove() {
	ctx := context.Background()
	for _, cluster := range f.clusters {
		_ = f.Client.DeleteAllOf(ctx, &v1alpha1.MachineDeployment{}, client.InNamespace(cluster.Name))
		_ = f.Client.Delete(ctx, cluster)
	}
	for _, label := range []string{v1alpha1.MachineFleetNameLabel, v1alpha1.FleetRolloutLabel, v1alpha1.FleetPendingLabel} {
		_ = f.Client.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(v1alpha1.HubNamespace), client.MatchingLabels{label: f.fleet.Name})
	}
	_ = f.Client.Delete(ctx, f.fleet)
}

// restart is a hub that knows nothing but what is stored, and has heard no agent.
func (f *env) restart() {
	f.T.Helper()
	f.agents = &freeze.Agents{}
	counted := interceptor.NewClient(f.Writes.Count(f.Client), f.faults)
	logic, err := New(Deps{Client: counted, Live: f.Client, Recorder: f.Recorder, Placements: f, Agents: f.agents, Clock: f.Clock, Tracing: f.tracers, Leads: f.leads})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner, f.logic = reconciler.New(counted, counted, logic), logic
}

// reconcileBeside has another hub reconcile the fleet.
func (f *env) reconcileBeside() {
	f.T.Helper()
	logic, err := New(Deps{Client: f.Client, Live: f.Client, Recorder: f.Recorder, Placements: f, Agents: &freeze.Agents{}, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	_, err = reconciler.New(f.Client, f.Client, logic).Reconcile(f.T.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.fleet)})
	f.Expect(err).NotTo(HaveOccurred())
}

// after reconciles so much later.
func (f *env) after(time time.Duration) {
	f.T.Helper()
	f.Clock.Step(time)
	f.ExpectReconciled(f.fleet)
}

// refresh reads the fleet.
func (f *env) refresh() *v1alpha1.MachineFleet {
	f.T.Helper()
	f.ExpectExists(f.fleet)
	return f.fleet
}

// status is what the fleet says after its counts were written.
func (f *env) status() v1alpha1.MachineFleetStatus {
	f.T.Helper()
	f.after(countsInterval.Longest)
	return f.refresh().Status
}

func (f *env) update(change func(*v1alpha1.MachineFleet)) {
	f.T.Helper()
	change(f.refresh())
	f.ExpectApplied(f.fleet)
}

func (f *env) upgrade(version string) {
	f.T.Helper()
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = version
	})
}

// label sets or, with an empty value, removes a label of a cluster.
func (f *env) label(i int, key, value string) {
	f.T.Helper()
	cluster := f.cluster(i)
	if value == "" {
		delete(cluster.Labels, key)
	} else {
		metav1.SetMetaDataLabel(&cluster.ObjectMeta, key, value)
	}
	f.ExpectApplied(cluster)
}

func (f *env) cluster(i int) *v1alpha1.Cluster {
	f.T.Helper()
	f.ExpectExists(f.clusters[i])
	return f.clusters[i]
}

func (f *env) freeze(i int, frozen bool) {
	f.T.Helper()
	verdict := freeze.Verdict{Frozen: frozen, Reason: v1alpha1.ReasonAgentSilent, Message: "said by the test"}
	if !frozen {
		verdict = freeze.Verdict{}
	}
	freeze.RecordOnCluster(f.cluster(i), verdict, f.Clock.Now())
	f.ExpectStatusApplied(f.clusters[i])
}

// deployment returns that of a cluster; nil if there is none.
func (f *env) deployment(i int) *v1alpha1.MachineDeployment {
	f.T.Helper()
	deployment := &v1alpha1.MachineDeployment{}
	err := f.Client.Get(f.T.Context(), client.ObjectKey{Namespace: f.clusters[i].Name, Name: f.fleet.Name}, deployment)
	f.Expect(client.IgnoreNotFound(err)).To(Succeed())
	if err != nil {
		return nil
	}
	return deployment
}

func (f *env) edit(i int, change func(*v1alpha1.MachineDeployment)) {
	f.T.Helper()
	deployment := f.deployment(i)
	change(deployment)
	f.ExpectApplied(deployment)
}

// says lets the MachineDeployments of clusters report on their current spec. Failing ones are past their deadline.
func (f *env) says(failing bool, clusters ...int) {
	f.T.Helper()
	for _, i := range clusters {
		if f.deployment(i).Spec.Replicas == nil { // Their controller fills them in.
			f.edit(i, func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(1)) })
		}
		d := f.deployment(i)
		d.Status.ObservedGeneration, d.Status.Replicas = d.Generation, *d.Spec.Replicas
		available, progressing := metav1.ConditionTrue, metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNewMachineSetAvailable}
		d.Status.UpdatedReplicas, d.Status.AvailableReplicas = d.Status.Replicas, d.Status.Replicas
		if failing {
			available, d.Status.UpdatedReplicas = metav1.ConditionFalse, 0
			progressing = metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressDeadlineExceeded, Message: "0 of 3 machines"}
		}
		progressing.Type, progressing.LastTransitionTime = v1alpha1.ProgressingCondition, metav1.NewTime(f.Clock.Now())
		meta.SetStatusCondition(&d.Status.Conditions, progressing)
		meta.RemoveStatusCondition(&d.Status.Conditions, v1alpha1.ReconcilingCondition)
		meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: v1alpha1.AvailableCondition, Status: available, Reason: "X"})
		f.ExpectStatusApplied(d)
	}
}

// phases is how far each cluster is, such as "Succeeded v1.36.2, Progressing v1.37.0, -".
func (f *env) phases() string {
	f.T.Helper()
	var all []string
	for i := range f.clusters {
		d := f.deployment(i)
		switch {
		case d == nil:
			all = append(all, "-")
			continue
		case rollout.ReadRecord(d) == nil:
			all = append(all, "foreign")
			continue
		}
		phase := string(rollout.ReadRecord(d).Phase)
		if rollout.ReadRecord(d).Held {
			phase += " held"
		}
		all = append(all, phase+" "+d.Spec.Template.Spec.Versions.Kubelet)
	}
	return strings.Join(all, ", ")
}

// settle rolls out what the fleet says in every cluster, however slow its strategy is.
func (f *env) settle() {
	f.T.Helper()
	for range 2*len(f.clusters) + 2 {
		f.after(2 * time.Hour)
		if f.reportAll() == 0 {
			break
		}
	}
	f.after(2 * time.Hour)
	f.Writes.Counts()
}

// reportAll lets the MachineDeployments report that have news, and returns how many clusters do, or are not through.
func (f *env) reportAll() int {
	f.T.Helper()
	present, err := f.logic.observer.ReadSpelling(f.T.Context(), f.refresh())
	f.Expect(err).NotTo(HaveOccurred())
	news := 0
	for i := range f.clusters {
		d := f.deployment(i)
		if d == nil {
			news++
			continue
		}
		if d.Status.ObservedGeneration != d.Generation || !meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ProgressingCondition) {
			f.says(false, i)
			news++
		} else if r := rollout.ReadRecord(d); r == nil || r.Phase != plan.Succeeded || rollout.FleetRevision(r.Revision) != present.Revision {
			news++
		}
	}
	return news
}

// inSteps has a canary first, and then so many clusters at once.
func inSteps(most int, soak time.Duration) func(*v1alpha1.MachineFleet) {
	return func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Groups = []v1alpha1.MachineFleetGroup{{Name: "canary", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": "canary"}}}}
		fleet.Spec.RolloutStrategy = clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
			RolloutConfig:  clusterv1alpha1.RolloutConfig{MinSuccessTime: metav1.Duration{Duration: soak}},
			MaxConcurrency: intstr.FromInt(most),
			MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{
				MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "canary"}},
			},
		}}
	}
}

// both applies two changes.
func both(a, b func(*v1alpha1.MachineFleet)) func(*v1alpha1.MachineFleet) {
	return func(fleet *v1alpha1.MachineFleet) { a(fleet); b(fleet) }
}
