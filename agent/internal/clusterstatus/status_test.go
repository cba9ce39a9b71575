package clusterstatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/checks"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func thawed() freeze.State {
	return freeze.State{Reason: v1alpha1.ReasonNotFrozen, Endpoints: []freeze.EndpointStatus{
		{Scope: freeze.Hub, Reason: v1alpha1.ReasonReachable}, {Scope: freeze.Target, Reason: v1alpha1.ReasonReachable},
	}}
}

func frozen(scope freeze.Scope, endpointReason, reason, message string) freeze.State {
	state := thawed()
	state.Frozen, state.Reason, state.Message = true, reason, message
	for i := range state.Endpoints {
		if state.Endpoints[i].Scope == scope {
			state.Endpoints[i] = freeze.EndpointStatus{Scope: scope, Frozen: true, Reason: endpointReason, LastMessage: message}
		}
	}
	return state
}

func cores(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

func known() facts {
	return facts{clusterUID: "u", kubernetesVersion: "v1.37.1", agentVersion: "v1", capacity: cores("8"), freeze: thawed(), now: now}
}

func TestConditions(t *testing.T) {
	tests := map[string]struct {
		state             freeze.State
		reachable, frozen string
	}{
		"all well":         {thawed(), "True/Reachable", "False/NotFrozen"},
		"starting":         {frozen(freeze.Target, v1alpha1.ReasonStarting, v1alpha1.ReasonStarting, "m"), "Unknown/Starting", "True/Starting"},
		"target away":      {frozen(freeze.Target, v1alpha1.ReasonUnreachable, v1alpha1.ReasonTargetUnreachable, "m"), "False/Unreachable", "True/TargetUnreachable"},
		"hub was away":     {frozen(freeze.Hub, v1alpha1.ReasonUnreachable, v1alpha1.ReasonHubUnreachable, "m"), "True/Reachable", "True/HubUnreachable"},
		"nothing is known": {freeze.State{}, "Unknown/Starting", "False/"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := known()
			f.freeze = test.state
			status := statusOf(v1alpha1.ClusterStatus{}, f)
			for conditionType, want := range map[string]string{
				v1alpha1.ClusterTargetReachableCondition: test.reachable, v1alpha1.ClusterAgentFrozenCondition: test.frozen,
			} {
				c := meta.FindStatusCondition(status.Conditions, conditionType)
				if got := string(c.Status) + "/" + c.Reason; got != want {
					t.Errorf("%s = %s, want %s", conditionType, got, want)
				}
			}
		})
	}
}

func TestTheStatusSaysWhetherSimulatedClustersAreHosted(t *testing.T) {
	for on, want := range map[bool]string{true: "True/TurnedOn", false: "False/TurnedOff"} {
		f := known()
		f.simulatedClusters = on
		c := meta.FindStatusCondition(statusOf(v1alpha1.ClusterStatus{}, f).Conditions, v1alpha1.ClusterSimulatedClustersAllowedCondition)
		if got := string(c.Status) + "/" + c.Reason; got != want || (c.Message == "") != on {
			t.Errorf("turned on %t: %s %q, want %s", on, got, c.Message, want)
		}
	}
}

func TestStatusOfKeepsWhatIsNotKnown(t *testing.T) {
	before := statusOf(v1alpha1.ClusterStatus{}, known())
	restarted := facts{agentVersion: "v1", freeze: thawed(), now: now.Add(time.Hour)}
	if diff := cmp.Diff(before, statusOf(before, restarted)); diff != "" {
		t.Errorf("an agent that has just started has changed (-before +after):\n%s", diff)
	}
}

func TestStatusOfHasNothingOfTheHub(t *testing.T) {
	before := v1alpha1.ClusterStatus{Namespace: "c1", ObservedGeneration: 3, Conditions: []metav1.Condition{{Type: "Joined", Status: metav1.ConditionTrue}}}
	got := statusOf(before, known())
	if got.Namespace != "" || got.ObservedGeneration != 0 || meta.FindStatusCondition(got.Conditions, "Joined") != nil {
		t.Errorf("the agent would own fields of the hub: %+v", got)
	}
}

func TestSame(t *testing.T) {
	cluster := statusOf(v1alpha1.ClusterStatus{}, known())
	cluster.Namespace = "c1"
	cluster.Conditions = append(cluster.Conditions, metav1.Condition{Type: "Joined"})
	tests := map[string]struct {
		change func(*facts)
		want   bool
	}{
		"nothing":           {func(*facts) {}, true},
		"the time":          {func(f *facts) { f.now = now.Add(time.Hour) }, true},
		"the version":       {func(f *facts) { f.kubernetesVersion = "v2" }, false},
		"the agent":         {func(f *facts) { f.agentVersion = "v2" }, false},
		"capacity":          {func(f *facts) { f.capacity = cores("9") }, false},
		"the same in milli": {func(f *facts) { f.capacity = cores("8000m") }, true},
		"the freeze": {func(f *facts) {
			f.freeze = frozen(freeze.Target, v1alpha1.ReasonUnreachable, v1alpha1.ReasonTargetUnreachable, "m")
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := known()
			test.change(&f)
			if got := hasSameStatus(cluster, statusOf(cluster, f)); got != test.want {
				t.Errorf("same = %t, want %t", got, test.want)
			}
		})
	}
}

func TestANewMessageOfTheSameTroubleIsNoChange(t *testing.T) {
	f := known()
	f.freeze = frozen(freeze.Target, v1alpha1.ReasonUnreachable, v1alpha1.ReasonTargetUnreachable, "Timeout")
	cluster := statusOf(v1alpha1.ClusterStatus{}, f)
	f.freeze = frozen(freeze.Target, v1alpha1.ReasonUnreachable, v1alpha1.ReasonTargetUnreachable, "Refused")
	if !hasSameStatus(cluster, statusOf(cluster, f)) {
		t.Error("every new message of a failing probe would be written")
	}
}

func TestATroubleOfAnotherKindIsTold(t *testing.T) {
	f := known()
	f.freeze = frozen(freeze.Target, v1alpha1.ReasonUnreachable, v1alpha1.ReasonTargetUnreachable, "Timeout")
	cluster := statusOf(v1alpha1.ClusterStatus{}, f)
	f.freeze, f.otherTrouble = frozen(freeze.Target, v1alpha1.ReasonUnreachable, v1alpha1.ReasonTargetUnreachable, "Unauthorized"), true
	for _, condition := range statusOf(cluster, f).Conditions {
		if condition.Type != v1alpha1.ClusterSimulatedClustersAllowedCondition && condition.Message != "Unauthorized" {
			t.Errorf("%s says %q", condition.Type, condition.Message)
		}
	}
}

func TestTroubles(t *testing.T) {
	type troubles = map[freeze.Scope]freeze.Outcome
	target := func(isFrozen bool, outcome freeze.Outcome) freeze.State {
		return freeze.State{Endpoints: []freeze.EndpointStatus{{Scope: freeze.Target, Frozen: isFrozen, LastOutcome: outcome}}}
	}
	before := troubles{freeze.Target: freeze.Timeout}
	for name, test := range map[string]struct {
		state freeze.State
		want  troubles
	}{
		"not probed yet":                     {target(true, ""), before},
		"another":                            {target(true, freeze.Unauthorized), troubles{freeze.Target: freeze.Unauthorized}},
		"a good answer that thaws nothing":   {target(true, freeze.OK), before},
		"thawed":                             {target(false, freeze.OK), troubles{}},
		"a failure that freezes nothing yet": {target(false, freeze.Refused), troubles{}},
	} {
		if diff := cmp.Diff(test.want, troublesOf(test.state, before)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A crash of the agent is no news of its target.
// Claim: A started agent does not improve what its predecessor said of the target. Broken: Unknown is reported over False. Also: hub/internal/machines TestMarkersStayUntilTheAgentHasLooked.
func TestAnAgentThatStartsKeepsThatTheTargetIsAway(t *testing.T) {
	f := known()
	f.freeze = frozen(freeze.Target, v1alpha1.ReasonUnreachable, v1alpha1.ReasonTargetUnreachable, "Timeout")
	away := statusOf(v1alpha1.ClusterStatus{}, f)
	was := meta.FindStatusCondition(away.Conditions, v1alpha1.ClusterTargetReachableCondition)

	f.now = now.Add(time.Minute)
	for step, state := range []freeze.State{
		frozen(freeze.Target, v1alpha1.ReasonStarting, v1alpha1.ReasonStarting, ""),
		frozen(freeze.Target, v1alpha1.ReasonStarting, v1alpha1.ReasonStarting, "Timeout"),
		frozen(freeze.Target, v1alpha1.ReasonUnreachable, v1alpha1.ReasonStarting, "Timeout"),
	} {
		f.freeze = state
		away = statusOf(away, f)
		if diff := cmp.Diff(was, meta.FindStatusCondition(away.Conditions, v1alpha1.ClusterTargetReachableCondition)); diff != "" {
			t.Errorf("step %d (-before +after):\n%s", step, diff)
		}
	}
	f.freeze, f.otherTrouble = frozen(freeze.Target, v1alpha1.ReasonStarting, v1alpha1.ReasonStarting, "Refused"), true
	if c := meta.FindStatusCondition(statusOf(away, f).Conditions, v1alpha1.ClusterTargetReachableCondition); c.Status != metav1.ConditionFalse || c.Message != "Refused" {
		t.Errorf("another trouble is not told: %+v", c)
	}
	// One that was reachable is not known to be, and one that answers is reachable.
	f.freeze = frozen(freeze.Target, v1alpha1.ReasonStarting, v1alpha1.ReasonStarting, "")
	if c := meta.FindStatusCondition(statusOf(statusOf(v1alpha1.ClusterStatus{}, known()), f).Conditions, v1alpha1.ClusterTargetReachableCondition); c.Status != metav1.ConditionUnknown {
		t.Errorf("after a healthy target: %+v", c)
	}
	f.freeze = thawed()
	if c := meta.FindStatusCondition(statusOf(away, f).Conditions, v1alpha1.ClusterTargetReachableCondition); c.Status != metav1.ConditionTrue || c.Message != "" {
		t.Errorf("after the thaw: %+v", c)
	}
}

func TestSettling(t *testing.T) {
	var s debounced[corev1.ResourceList]
	steps := []struct {
		after   time.Duration
		offered corev1.ResourceList
		want    corev1.ResourceList
	}{
		{0, nil, nil},               // not known
		{0, cores("0"), cores("0")}, // the first that is known
		{10 * time.Second, cores("4"), cores("0")},
		{20 * time.Second, cores("8"), cores("0")},
		{30 * time.Second, cores("8"), cores("8")}, // twice in a row
		{40 * time.Second, cores("9"), cores("8")},
		{50 * time.Second, nil, cores("8")}, // not known keeps
		{60 * time.Second, cores("10"), cores("8")},
		{70 * time.Second, cores("11"), cores("8")},
		{80 * time.Second, cores("12"), cores("8")},
		{90 * time.Second, cores("13"), cores("13")}, // changing for long enough
	}
	for i, step := range steps {
		got := s.offerValue(step.offered, step.offered != nil, now.Add(step.after))
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Fatalf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestSum(t *testing.T) {
	node := func(list corev1.ResourceList) corev1.Node {
		return corev1.Node{Status: corev1.NodeStatus{Capacity: list}}
	}
	got := Sum([]corev1.Node{node(cores("4")), node(corev1.ResourceList{"cpu": resource.MustParse("500m"), "hugepages-2Mi": resource.MustParse("0")})})
	if diff := cmp.Diff(cores("4500m"), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if Sum(nil) == nil {
		t.Error("no nodes have no capacity, which is known")
	}
}

func TestOrphansAreReportedWhenTheyAreKnown(t *testing.T) {
	orphans := &v1alpha1.Orphans{Instances: 1, Names: []string{"instance/lost"}}
	f := known()
	f.orphans, f.orphansKnown = orphans, true
	status := statusOf(v1alpha1.ClusterStatus{}, f)
	if diff := cmp.Diff(orphans, status.Orphans); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if hasSameStatus(v1alpha1.ClusterStatus{}, status) {
		t.Error("a status without them counts as the same")
	}
	f.orphansKnown = false
	if diff := cmp.Diff(status, statusOf(status, f)); diff != "" {
		t.Errorf("what is not known has changed (-before +after):\n%s", diff)
	}
	f.orphans, f.orphansKnown = nil, true
	if got := statusOf(status, f).Orphans; got != nil {
		t.Errorf("there are none any more, and the status has %v", got)
	}
}

func TestChecksAreReportedWhenTheyAreKnown(t *testing.T) {
	const kind = "example.com/FrontendAvailable"
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: "m"}
	}
	f := known()
	f.healthChecks = []v1alpha1.ClusterHealthCheck{{Type: kind}}
	f.checks = checks.Result{Known: true, Conditions: []metav1.Condition{
		condition(v1alpha1.ClusterDisruptionAllowedCondition, metav1.ConditionFalse), condition(kind, metav1.ConditionTrue), condition("example.com/Gone", metav1.ConditionTrue),
	}}
	f.podQuota = &v1alpha1.PodQuota{Name: "small", Remaining: 3}
	before := v1alpha1.ClusterStatus{Conditions: []metav1.Condition{condition("example.com/Foreign", metav1.ConditionTrue)}}
	status := statusOf(before, f)
	if !meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ClusterDisruptionAllowedCondition) || !meta.IsStatusConditionTrue(status.Conditions, kind) {
		t.Errorf("%+v", status.Conditions)
	}
	for _, foreign := range []string{"example.com/Gone", "example.com/Foreign"} {
		if meta.FindStatusCondition(status.Conditions, foreign) != nil {
			t.Errorf("the agent would write %s, which no health check asks for", foreign)
		}
	}
	if diff := cmp.Diff(f.podQuota, status.PodQuota); diff != "" || hasSameStatus(before, status) {
		t.Errorf("the quota is not written (-want +got):\n%s", diff)
	}
	f.checks, f.podQuota = checks.Result{}, nil
	if diff := cmp.Diff(status, statusOf(status, f)); diff != "" {
		t.Errorf("what is not known has changed (-before +after):\n%s", diff)
	}
	f.checks.Known = true
	if got := statusOf(status, f).PodQuota; got != nil {
		t.Errorf("no quota bounds the pods any more, and the status has %v", got)
	}
	f.healthChecks, f.generation = nil, 2
	if after := statusOf(status, f); meta.FindStatusCondition(after.Conditions, kind) != nil || hasSameStatus(status, after) {
		t.Errorf("the condition of a check that is gone stays: %+v", after.Conditions)
	}
}
