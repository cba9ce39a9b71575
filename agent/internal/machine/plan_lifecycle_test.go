package machine

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	preDrain     = v1alpha1.PreDrainHookPrefix + "backup"
	preTerminate = v1alpha1.PreTerminateHookPrefix + "release"
)

func newRemoval(change func(*Removal)) Removal {
	r := Removal{Machine: &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}, Labels: map[string]string{}}}}
	change(&r)
	return r
}

func TestRemoval(t *testing.T) {
	tests := map[string]struct {
		change        func(*Removal)
		before, after RemovalStep
		hooks         []string
	}{
		"should drain first":                             {func(*Removal) {}, Drain, Remove, nil},
		"should not drain when the class says so":        {func(r *Removal) { r.SkipDrain = true }, Remove, Remove, nil},
		"should not drain again what is on its way out":  {func(r *Removal) { r.Ending = true }, Remove, Remove, nil},
		"should wait for pre-drain hooks":                {func(r *Removal) { r.Machine.Annotations[preDrain] = "" }, AwaitHooks, Remove, []string{preDrain}},
		"should wait for pre-terminate hooks":            {func(r *Removal) { r.Machine.Annotations[preTerminate] = "" }, Drain, AwaitHooks, nil},
		"should wait for hooks also without a drain":     {func(r *Removal) { r.Machine.Annotations[preTerminate], r.SkipDrain = "", true }, AwaitHooks, AwaitHooks, []string{preTerminate}},
		"should wait for hooks also without an instance": {func(r *Removal) { r.Machine.Annotations[preDrain], r.Ending = "", true }, AwaitHooks, Remove, []string{preDrain}},
		"should wait for nothing when it is forced": {func(r *Removal) {
			r.Machine.Annotations[preDrain], r.Machine.Annotations[preTerminate], r.Machine.Labels[v1alpha1.ForceDeletionLabel] = "", "", "true"
		}, Remove, Remove, nil},
		"should not take any label for force": {func(r *Removal) { r.Machine.Labels[v1alpha1.ForceDeletionLabel] = "no" }, Drain, Remove, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRemoval(test.change)
			before, hooks := BeforeDrain(r)
			after, _ := AfterDrain(r.Machine)
			if before != test.before || after != test.after || !slices.Equal(hooks, test.hooks) {
				t.Errorf("%s %v, and after the drain %s; want %s %v and %s", before, hooks, after, test.before, test.hooks, test.after)
			}
		})
	}
}

// Edge case: The peers' timeouts, and slow start. Also: hub/internal/machineset TestSlowStart.
func TestLimits(t *testing.T) {
	minutes := func(n int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(n) * time.Minute} }
	machine, class := &v1alpha1.Machine{}, &v1alpha1.MachineClass{}
	got := LimitsOf(machine, nil)
	if got.Creation != 20*time.Minute || got.Health != 10*time.Minute || got.Drain != 2*time.Hour || got.UnhealthyNodeConditions != nil || got.SkipDrain {
		t.Errorf("defaults: %+v", got)
	}
	class.Spec.Timeouts = &v1alpha1.MachineTimeouts{Creation: minutes(1), Health: minutes(2)}
	class.Spec.UnhealthyNodeConditions = []string{"A"}
	class.Spec.DrainPolicy = v1alpha1.SkipDrain
	got = LimitsOf(machine, class)
	if got.Creation != time.Minute || got.Health != 2*time.Minute || got.Drain != 2*time.Hour || !slices.Equal(got.UnhealthyNodeConditions, []string{"A"}) || !got.SkipDrain {
		t.Errorf("of the class: %+v", got)
	}
	machine.Spec.Timeouts = &v1alpha1.MachineTimeouts{Health: minutes(3), Drain: minutes(0)}
	machine.Spec.UnhealthyNodeConditions = []string{"B"}
	got = LimitsOf(machine, class)
	if got.Creation != time.Minute || got.Health != 3*time.Minute || got.Drain != 0 || !slices.Equal(got.UnhealthyNodeConditions, []string{"B"}) {
		t.Errorf("of the machine, else of the class: %+v", got)
	}
}

// A kubelet version newer than the API server or more than three minors older is refused by default.
func TestSkewed(t *testing.T) {
	tests := map[string]struct {
		kubelet, server string
		problem         string
	}{
		"should allow the same":                  {"v1.37.1", "v1.37.1", ""},
		"should allow a newer patch":             {"1.37.9", "v1.37.1", ""},
		"should allow three minors older":        {"1.34.0", "v1.37.1", ""},
		"should refuse four minors older":        {"1.33.9", "v1.37.1", "more than 3 minor versions older than the API server's v1.37.1"},
		"should refuse the next minor":           {"v1.38.0-alpha.1", "v1.37.1", "newer than the API server's v1.37.1"},
		"should refuse the next major":           {"v2.0.0", "v1.37.1", "newer than"},
		"should refuse the last major":           {"v0.40.0", "v1.37.1", "older than"},
		"should read a distribution's version":   {"v1.33.1", "v1.37.1+k3s1", "older than"},
		"should not judge the provider's choice": {"", "v1.37.1", ""},
		"should not judge an unknown server":     {"v1.99.0", "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			machine := &v1alpha1.Machine{}
			machine.Spec.Versions.Kubelet = test.kubelet
			got := Skewed(machine, test.server)
			switch {
			case test.problem == "" && got != nil:
				t.Errorf("refused: %s", got.Message)
			case test.problem != "" && (got == nil || got.Reason != v1alpha1.ErrorUnsupportedKubeletVersion || !strings.Contains(got.Message, test.problem)):
				t.Errorf("got %+v, want %q", got, test.problem)
			}
			machine.Annotations = map[string]string{v1alpha1.AllowKubeletVersionSkewAnnotation: "true"}
			if got := Skewed(machine, test.server); got != nil {
				t.Errorf("the user allows it: %s", got.Message)
			}
		})
	}
}

// Whatever the world looks like: nothing is updated that is not emptied first, nothing is emptied that will not be
// updated, and nothing at all is done while frozen.
func TestDecideNeverTakesANodeFromUnderItsPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flip := func(name string) bool { return rapid.Bool().Draw(t, name) }
		o := observation(func(o *Observation) {
			o.Frozen, o.NodeKnown, o.InstanceKnown, o.MayRepair = flip("frozen"), flip("node known"), flip("instance known"), flip("may repair")
			o.Instance.State = rapid.SampledFrom([]State{Pending, Running, Failing, Failed, Deleting}).Draw(t, "state")
			o.Instance.UpToDate, o.Node.Spec.Unschedulable, o.Limits.SkipDrain = flip("up to date"), flip("unschedulable"), flip("skip drain")
			o.Update.Cordoned = o.Node.Spec.Unschedulable && flip("cordoned")
			if flip("unsupported") {
				o.Update.Unsupported = "no way"
			}
			if flip("waiting") {
				o.Update.Waiting = "others"
			}
			if flip("terminal") {
				o.Terminal = &Terminal{}
			}
			if flip("not ready") {
				o.Node.Status.Conditions = []corev1.NodeCondition{}
			}
			if !o.NodeKnown || flip("no node") {
				o.Node = nil
			}
			if !o.InstanceKnown || flip("no instance") {
				o.Instance = nil
			}
		})
		actions := Decide(o)
		if o.Frozen && len(actions) > 0 {
			t.Fatalf("frozen, and yet %v", actions)
		}
		update, drain := slices.Index(actions, UpdateInstance), slices.Index(actions, DrainNode)
		if update >= 0 && o.Node != nil && !o.Limits.SkipDrain && (drain < 0 || drain > update) {
			t.Fatalf("updated without a drain: %v", actions)
		}
		if drain >= 0 && (update < 0 || o.Update.Unsupported != "" || o.Terminal != nil || o.Update.Waiting != "" && !o.Update.Cordoned) {
			t.Fatalf("drained for nothing: %v", actions)
		}
		if drain >= 0 && !o.Node.Spec.Unschedulable && !slices.Contains(actions[:drain], CordonNode) {
			t.Fatalf("drained a node that takes new pods: %v", actions)
		}
		if slices.Contains(actions, UncordonNode) && (drain >= 0 || !o.Update.Cordoned) {
			t.Fatalf("gave back a node that is not its own, or still needed: %v", actions)
		}
	})
}
