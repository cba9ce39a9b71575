package machines

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// machine is one whose Ready condition has that status since age ago.
func machine(status metav1.ConditionStatus, age time.Duration) *v1alpha1.Machine {
	m := &v1alpha1.Machine{}
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-age))}}
	return m
}

// moved is one that was ready for an hour and moved to its generation 2, of which the agent said so 3 seconds ago.
func moved(status metav1.ConditionStatus, observed int64, reason string) *v1alpha1.Machine {
	m := machine(metav1.ConditionTrue, time.Hour)
	m.Generation = 2
	m.Annotations = map[string]string{v1alpha1.InPlaceUpdateAnnotation: "2"}
	if reason != "" {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: v1alpha1.MachineUpdatedCondition, Status: status, Reason: reason, ObservedGeneration: observed,
			LastTransitionTime: metav1.NewTime(now.Add(-3 * time.Second)),
		})
	}
	return m
}

func TestOf(t *testing.T) {
	deleted := machine(metav1.ConditionTrue, time.Hour)
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	marked := machine(metav1.ConditionTrue, time.Hour)
	marked.Annotations = map[string]string{v1alpha1.DeleteMachineAnnotation: ""}
	failed := machine(metav1.ConditionFalse, time.Hour)
	failed.Status.Phase = v1alpha1.MachineFailed
	urgent := machine(metav1.ConditionFalse, time.Hour)
	urgent.Annotations = map[string]string{v1alpha1.DeletionPriorityAnnotation: "-2"}
	odd := machine(metav1.ConditionFalse, time.Hour)
	odd.Annotations = map[string]string{v1alpha1.DeletionPriorityAnnotation: "soon"}
	requested := machine(metav1.ConditionTrue, time.Hour)
	requested.Labels = map[string]string{v1alpha1.UpdateInPlaceLabel: "true"}
	kubelet := func(asked, reported string) *v1alpha1.Machine {
		m := machine(metav1.ConditionTrue, time.Hour)
		m.Spec.Versions.Kubelet, m.Status.Versions = asked, &v1alpha1.ObservedVersions{Kubelet: reported}
		return m
	}
	tests := map[string]struct {
		machine *v1alpha1.Machine
		want    State
	}{
		"another kubelet":          {kubelet("v1.37.0", "v1.36.2"), State{Ready: true}},
		"the kubelet asked for":    {kubelet("1.37.0", "v1.37.0"), State{Ready: true, Available: true}},
		"any kubelet":              {kubelet("", "v1.37.0"), State{Ready: true, Available: true}},
		"no kubelet is reported":   {kubelet("v1.37.0", ""), State{Ready: true, Available: true}},
		"new":                      {&v1alpha1.Machine{}, State{}},
		"not ready":                {machine(metav1.ConditionFalse, time.Hour), State{}},
		"unknown":                  {machine(metav1.ConditionUnknown, time.Hour), State{}},
		"ready long enough":        {machine(metav1.ConditionTrue, 10*time.Second), State{Ready: true, Available: true}},
		"ready, not long enough":   {machine(metav1.ConditionTrue, 4*time.Second), State{Ready: true, AvailableIn: 6 * time.Second}},
		"being deleted":            {deleted, State{Ready: true, Deleting: true}},
		"marked":                   {marked, State{Ready: true, Available: true, Marked: true}},
		"failed":                   {failed, State{Failed: true}},
		"low priority":             {urgent, State{Priority: -2}},
		"priority is not a number": {odd, State{}},
		"to be updated in place":   {requested, State{Ready: true, Available: true, Requested: true}},
		"moved, nothing said":      {moved("", 0, ""), State{Ready: true, Update: v1alpha1.ReasonAwaitingUpdate}},
		"moved, said of the template before": {
			moved(metav1.ConditionTrue, 1, v1alpha1.ReasonUpToDate), State{Ready: true, Update: v1alpha1.ReasonAwaitingUpdate}},
		"moved, unknown":  {moved(metav1.ConditionUnknown, 2, v1alpha1.ReasonUnknown), State{Ready: true, Update: v1alpha1.ReasonAwaitingUpdate}},
		"drained":         {moved(metav1.ConditionFalse, 2, v1alpha1.ReasonDraining), State{Ready: true, Update: v1alpha1.ReasonAwaitingUpdate}},
		"update failed":   {moved(metav1.ConditionFalse, 2, v1alpha1.ReasonUpdateFailed), State{Ready: true, Update: v1alpha1.ReasonUpdateFailed}},
		"cannot in place": {moved(metav1.ConditionFalse, 2, v1alpha1.ReasonInPlaceUnsupported), State{Ready: true, Update: v1alpha1.ReasonInPlaceUnsupported}},
		"updated lately":  {moved(metav1.ConditionTrue, 2, v1alpha1.ReasonUpToDate), State{Ready: true, AvailableIn: 7 * time.Second}},
		"updated":         {moved(metav1.ConditionTrue, 3, v1alpha1.ReasonUpToDate), State{Ready: true, AvailableIn: 7 * time.Second}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.want.Priority == 0 {
				test.want.Priority = v1alpha1.DefaultDeletionPriority
			}
			if got := Of(test.machine, 10*time.Second, now); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// steady is a clock that shows the same whenever it is asked.
type steady time.Duration

func (s steady) Sub(time.Time) time.Duration { return time.Duration(s) }

func TestOnlyWhatTheClockShowsIsServed(t *testing.T) {
	for shown, want := range map[time.Duration]State{
		0:                {Ready: true, AvailableIn: 10 * time.Second},
		3 * time.Second:  {Ready: true, AvailableIn: 7 * time.Second},
		10 * time.Second: {Ready: true, Available: true},
		time.Hour:        {Ready: true, Available: true},
	} {
		want.Priority = v1alpha1.DefaultDeletionPriority
		if got := Of(machine(metav1.ConditionTrue, time.Hour), 10*time.Second, steady(shown)); got != want {
			t.Errorf("%s: %+v, want %+v", shown, got, want)
		}
	}
	without := Of(machine(metav1.ConditionTrue, 0), 0, steady(-time.Hour))
	if !without.Available || without.AvailableIn != 0 {
		t.Errorf("without minReadySeconds: %+v", without)
	}
}

func TestAdd(t *testing.T) {
	var counts Counts
	for _, state := range []State{
		{}, {Ready: true, Available: true}, {Ready: true, Available: true, Marked: true}, {Marked: true},
		{Ready: true, AvailableIn: 9}, {Ready: true, AvailableIn: 3}, {Ready: true, AvailableIn: 5},
		{Deleting: true, Ready: true, Update: v1alpha1.ReasonAwaitingUpdate}, {Failed: true, Update: v1alpha1.ReasonUpdateFailed},
	} {
		counts.Add(state)
	}
	want := Counts{Total: 9, Active: 8, Ready: 5, Available: 2, Failed: 1, MarkedAvailable: 1, Updating: 1, NextAvailable: 3}
	if counts != want {
		t.Errorf("%+v, want %+v", counts, want)
	}
	if counts.Terminating() != 1 {
		t.Errorf("%d terminating, want 1", counts.Terminating())
	}
}

// What spec.replicas becomes where it is left out: what is there, 1 for a new object, within the autoscaler's bounds.
func TestKeepReplicas(t *testing.T) {
	for name, test := range map[string]struct {
		there       int
		isNew       bool
		least, most string
		want        int32
	}{
		"what is there":              {4, false, "", "", 4},
		"none":                       {0, false, "", "", 0},
		"a new one":                  {0, true, "", "", 1},
		"a new one that takes over":  {4, true, "", "", 4},
		"at least":                   {4, false, "5", "9", 5},
		"more than the least":        {4, false, "3", "9", 4},
		"at most":                    {4, false, "0", "2", 2},
		"a new one, at most none":    {0, true, "0", "0", 0},
		"bounds that are no numbers": {4, false, "few", "many", 4},
		"bounds below 0":             {4, false, "-1", "-1", 4},
		"more than a set may have":   {v1alpha1.MaxReplicas + 1, false, "", "", v1alpha1.MaxReplicas},
	} {
		object := &metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AutoscalerMinSizeAnnotation: test.least, v1alpha1.AutoscalerMaxSizeAnnotation: test.most}}
		if got := KeepReplicas(object, test.there, test.isNew); got != test.want {
			t.Errorf("%s: %d replicas, want %d", name, got, test.want)
		}
	}
}
