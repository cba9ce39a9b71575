package rollout

import (
	"reflect"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// gateField is what a test knows of a field of a fleet's spec.
type gateField struct {
	// noGate is why an edit of the field in the middle of a rollout may have an effect at once; empty for a field that is promised.
	noGate string
	// prepare makes a fleet in which the field keeps the clusters from being started that are left after the first step, and weaken
	// edits it.
	prepare, weaken func(*simulation)
}

// gateFields has every field of a fleet's spec. One that is new has to come here: is it promised, or why not?
func gateFields() map[string]gateField {
	all := map[string]gateField{
		"clusterSelector":       {noGate: "a cluster that joins is late: its turn is when its wave has come by the promise and by the spec as it is now"},
		"placementRef":          {noGate: "as clusterSelector"},
		"template":              {noGate: "another template is another revision, with its own promise"},
		"overrides":             {noGate: "as template; replicas start no revision"},
		"replicas":              {noGate: "scales, and starts no revision; a cluster that was scaled to 0 proves nothing"},
		"replicasFromLabel":     {noGate: "as replicas"},
		"removalPolicy":         {noGate: "starts no revision"},
		"adopt":                 {noGate: "is there for a user to allow something in the middle"},
		"allowDowngrade":        {noGate: "as adopt"},
		"ignorePreflightErrors": {noGate: "as adopt"},
		"paused":                {noGate: "as adopt"},
		"abortedRevision":       {noGate: "as adopt"},
		"retriedAt":             {noGate: "ends the promise"},
		"rollbackPolicy":        {noGate: "a rollout that is stopped starts nothing, whatever is rolled back"},

		"rolloutStrategy.all": {noGate: "with All, no cluster waits for another"},

		"maintenanceWindows[].name":    {noGate: "is a name only"},
		"maintenanceExclusions[].name": {noGate: "is a name only"},
	}
	for _, more := range []map[string]gateField{strategyFields("progressive"), strategyFields("progressivePerGroup"), windowFields(), groupFields()} {
		for path, field := range more {
			all[path] = field
		}
	}
	return all
}

// bounds gives a fleet a strategy, in whose first wave the canary is, and returns its settings.
func (w *simulation) bounds(of string) *ocm.RolloutConfig {
	w.fleet.Spec.Groups = []v1alpha1.MachineFleetGroup{groupOf("canary"), groupOf("rest")}
	s := &w.fleet.Spec.RolloutStrategy
	if of == "progressive" {
		*s = ocm.RolloutStrategy{Type: ocm.Progressive, Progressive: &ocm.RolloutProgressive{MaxConcurrency: intstr.FromInt(1)}}
		return &s.Progressive.RolloutConfig
	}
	*s = ocm.RolloutStrategy{Type: ocm.ProgressivePerGroup, ProgressivePerGroup: &ocm.RolloutProgressivePerGroup{}}
	return &s.ProgressivePerGroup.RolloutConfig
}

func groupOf(name string) v1alpha1.MachineFleetGroup {
	return v1alpha1.MachineFleetGroup{Name: name, ClusterSelector: choose(name)}
}

// start starts the rollout.
func (w *simulation) begin() { w.Expect(w.step()).NotTo(BeEmpty()) }

func strategyFields(of string) map[string]gateField {
	config := func(w *simulation) *ocm.RolloutConfig {
		if of == "progressive" {
			return &w.fleet.Spec.RolloutStrategy.Progressive.RolloutConfig
		}
		return &w.fleet.Spec.RolloutStrategy.ProgressivePerGroup.RolloutConfig
	}
	mandatory := func(w *simulation) *[]ocm.MandatoryDecisionGroup {
		if of == "progressive" {
			return &w.fleet.Spec.RolloutStrategy.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups
		}
		return &w.fleet.Spec.RolloutStrategy.ProgressivePerGroup.MandatoryDecisionGroups.MandatoryDecisionGroups
	}
	at := "rolloutStrategy." + of + "."
	fields := map[string]gateField{
		at + "minSuccessTime": {
			prepare: func(w *simulation) {
				w.bounds(of).MinSuccessTime.Duration = time.Hour
				w.begin()
				w.report(false, "c0")
				w.step()
				w.pass(time.Minute)
			},
			weaken: func(w *simulation) { config(w).MinSuccessTime.Duration = 0 },
		},
		at + "progressDeadline": {
			prepare: func(w *simulation) {
				w.bounds(of).ProgressDeadline = "10m"
				w.begin()
			},
			weaken: func(w *simulation) {
				config(w).ProgressDeadline = "None"
				w.pass(11 * time.Minute)
				w.step()
				w.Expect(ReadRecord(w.deployments["c0"]).Phase).To(Equal(plan.TimedOut))
			},
		},
		at + "maxFailures": {
			prepare: func(w *simulation) {
				w.bounds(of)
				w.begin()
				w.report(true, "c0")
				w.step()
			},
			weaken: func(w *simulation) { config(w).MaxFailures = intstr.FromInt(4) },
		},
		at + "mandatoryDecisionGroups[].groupName": {
			prepare: func(w *simulation) {
				w.bounds(of)
				if of == "progressive" { // There is room beside the canary.
					w.fleet.Spec.RolloutStrategy.Progressive.MaxConcurrency = intstr.FromInt(4)
				} else { // The groups alone would have another order.
					w.fleet.Spec.Groups[0], w.fleet.Spec.Groups[1] = groupOf("rest"), groupOf("canary")
				}
				*mandatory(w) = []ocm.MandatoryDecisionGroup{{GroupName: "canary"}}
				w.begin()
			},
			weaken: func(w *simulation) { *mandatory(w) = nil },
		},
		at + "mandatoryDecisionGroups[].groupIndex": {noGate: "groups are named; an index alone is refused"},
	}
	if of == "progressive" {
		fields[at+"maxConcurrency"] = gateField{
			prepare: func(w *simulation) { w.bounds(of); w.begin() },
			weaken:  func(w *simulation) { w.fleet.Spec.RolloutStrategy.Progressive.MaxConcurrency = intstr.FromInt(4) },
		}
	}
	return fields
}

// groupFields are those of groups, and of what else is about clusters and their order.
func groupFields() map[string]gateField {
	approval := func(w *simulation) { // The rest waits for an approval that it does not have.
		w.bounds("progressive")
		w.fleet.Spec.RolloutStrategy.Progressive.MaxConcurrency = intstr.FromInt(4)
		w.fleet.Spec.Groups[1].Approval = v1alpha1.GroupApprovalRequired
		w.begin()
	}
	health := func(w *simulation) {
		w.bounds("progressive")
		w.fleet.Spec.HealthConditions = []v1alpha1.MachineFleetHealthCondition{{Type: "Good"}}
		meta.SetStatusCondition(&w.clusters[0].Status.Conditions, metav1.Condition{Type: "Good", Status: metav1.ConditionFalse, Reason: "X"})
		meta.SetStatusCondition(&w.clusters[0].Status.Conditions, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "X"})
		w.begin()
		w.report(false, "c0")
	}
	return map[string]gateField{
		"rolloutStrategy.type": {
			prepare: func(w *simulation) { w.bounds("progressive"); w.begin() },
			weaken:  func(w *simulation) { w.fleet.Spec.RolloutStrategy = ocm.RolloutStrategy{Type: ocm.All} },
		},
		"groups[].name": {
			prepare: func(w *simulation) { w.bounds("progressivePerGroup"); w.begin() },
			weaken:  func(w *simulation) { w.fleet.Spec.Groups = nil },
		},
		"groups[].approval": {prepare: approval, weaken: func(w *simulation) { w.fleet.Spec.Groups[1].Approval = "" }},
		"groups[].clusterSelector": {
			prepare: approval, weaken: func(w *simulation) { w.fleet.Spec.Groups[0].ClusterSelector = &metav1.LabelSelector{} },
		},
		"unreachablePolicy": {
			prepare: func(w *simulation) { w.bounds("progressivePerGroup"); w.begin(); w.freeze(0) },
			weaken:  func(w *simulation) { w.fleet.Spec.UnreachablePolicy = v1alpha1.UnreachableSkip },
		},
		"healthConditions[].type":   {prepare: health, weaken: func(w *simulation) { w.fleet.Spec.HealthConditions[0].Type = "Other" }},
		"healthConditions[].status": {prepare: health, weaken: func(w *simulation) { w.fleet.Spec.HealthConditions[0].Status = metav1.ConditionFalse }},
	}
}

// windowFields are those of maintenance windows and exclusions. It is midnight.
func windowFields() map[string]gateField {
	window := func(w *simulation) *v1alpha1.MaintenanceWindow { return &w.fleet.Spec.MaintenanceWindows[0] }
	exclusion := func(w *simulation) *v1alpha1.MaintenanceExclusion { return &w.fleet.Spec.MaintenanceExclusions[0] }
	closes := func(w *simulation) {
		w.fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{*newSpec("0 2 * * *", "UTC", time.Hour)}
		window(w).ClusterSelector = choose("rest")
		w.begin()
	}
	excludes := func(w *simulation) {
		w.fleet.Spec.MaintenanceExclusions = []v1alpha1.MaintenanceExclusion{{Name: "e", Start: "2025-12-30", End: "2026-01-01", ClusterSelector: choose("rest")}}
		w.begin()
	}
	return map[string]gateField{
		"maintenanceWindows[].schedule":           {prepare: closes, weaken: func(w *simulation) { window(w).Schedule = "0 * * * *" }},
		"maintenanceWindows[].duration":           {prepare: closes, weaken: func(w *simulation) { window(w).Duration.Duration = 23 * time.Hour }},
		"maintenanceWindows[].timeZone":           {prepare: closes, weaken: func(w *simulation) { window(w).TimeZone = "Africa/Johannesburg" }},
		"maintenanceWindows[].clusterSelector":    {prepare: closes, weaken: func(w *simulation) { window(w).ClusterSelector = choose("none") }},
		"maintenanceExclusions[].start":           {prepare: excludes, weaken: func(w *simulation) { exclusion(w).Start = "2026-01-01T02:00" }},
		"maintenanceExclusions[].end":             {prepare: excludes, weaken: func(w *simulation) { exclusion(w).End = "2025-12-31" }},
		"maintenanceExclusions[].timeZone":        {prepare: excludes, weaken: func(w *simulation) { exclusion(w).TimeZone, exclusion(w).End = "Pacific/Kiritimati", "2025-12-31" }},
		"maintenanceExclusions[].clusterSelector": {prepare: excludes, weaken: func(w *simulation) { exclusion(w).ClusterSelector = choose("none") }},
	}
}

// fieldsOf calls visit with the path of each field of a type, and of the fields below it where that wants it.
func fieldsOf(path string, of reflect.Type, visit func(path string) (below bool)) {
	switch of.Kind() {
	case reflect.Pointer:
		fieldsOf(path, of.Elem(), visit)
	case reflect.Slice:
		fieldsOf(path+"[]", of.Elem(), visit)
	case reflect.Struct:
		for i := range of.NumField() {
			name, options, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if options == "inline" {
				fieldsOf(path, of.Field(i).Type, visit)
				continue
			}
			if below := strings.TrimPrefix(path+"."+name, "."); visit(below) {
				fieldsOf(below, of.Field(i).Type, visit)
			}
		}
	}
}

// A field that is new in the spec is promised, or it is said why not.
// Claim: Every field that gates starts is promised, or sorted in. Broken: windows and health conditions of the current spec only; `unreachablePolicy` and `progressDeadline` likewise. Also: TestEveryGateFieldIsPromised.
func TestEveryFieldOfTheSpecIsPromisedOrNoGate(t *testing.T) {
	g, all, seen := NewWithT(t), gateFields(), map[string]bool{}
	fieldsOf("", reflect.TypeFor[v1alpha1.MachineFleetSpec](), func(path string) bool {
		if _, known := all[path]; known {
			seen[path] = true
			return false
		}
		below := false
		for other := range all {
			below = below || strings.HasPrefix(other, path+".") || strings.HasPrefix(other, path+"[]")
		}
		g.Expect(below).To(BeTrue(), "spec.%s: is it kept in Promise, and obeyed? Add it there and to gateFields, or say there why it is no gate", path)
		return below
	})
	for path, field := range all {
		g.Expect(seen).To(HaveKey(path), "there is no such field")
		if field.noGate == "" {
			g.Expect(field.weaken).NotTo(BeNil(), path)
		}
	}
}

// No edit of a field opens what it kept closed when the rollout started, until a user sets spec.retriedAt.
func TestEveryGateFieldIsPromised(t *testing.T) {
	for path, field := range gateFields() {
		if field.noGate != "" {
			continue
		}
		t.Run(path, func(t *testing.T) {
			w := newSimulation(t, 4)
			for _, cluster := range w.clusters[1:] {
				cluster.Labels["group"] = "rest"
			}
			field.prepare(w)
			w.Expect(w.step()).To(BeEmpty(), "the field keeps them from being started")
			field.weaken(w)
			w.Expect(w.step()).To(BeEmpty(), "the edit does not change that")
			w.Expect(w.step()).To(BeEmpty())
			w.retry()
			w.Expect(w.step()).NotTo(BeEmpty(), "it is what kept them")
		})
	}
}

// Each edit takes the windows away that clusters had when the rollout started.
func TestNoEditOpensAWindow(t *testing.T) {
	for name, edit := range map[string]func(*simulation){
		"the window is gone":    func(w *simulation) { w.fleet.Spec.MaintenanceWindows = nil },
		"the labels are gone":   func(w *simulation) { w.relabel("") },
		"they are others":       func(w *simulation) { w.relabel("canary") },
		"another window beside": func(w *simulation) { w.addWindow("0 * * * *") },
		"another one instead":   func(w *simulation) { w.fleet.Spec.MaintenanceWindows = nil; w.addWindow("0 * * * *") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 4)
			w.relabel("rest")
			windowFields()["maintenanceWindows[].schedule"].prepare(w)
			edit(w)
			w.Expect(w.step()).To(BeEmpty())
			s := w.read()
			d := Decide(s)
			w.Expect(s.standingOfWindows(d.Plan, func(names []string) string { return strings.Join(names, " ") })).To(And(
				ContainSubstring("the first of which opens at 2026-01-01T02:00:00Z: c1 c2 c3"), ContainSubstring("from the start of the rollout"), ContainSubstring(wayOut)))
			w.pass(2 * time.Hour)
			w.Expect(w.step()).To(HaveLen(3), "both are open")
		})
	}
}

// A window that is added in the middle holds beside the one that was promised.
func TestWindowsThenAndNowHaveToBeOpen(t *testing.T) {
	w := newSimulation(t, 2)
	w.relabel("rest")
	windowFields()["maintenanceWindows[].schedule"].prepare(w)
	w.fleet.Spec.MaintenanceWindows[0].Schedule = "30 2 3 * *"
	w.pass(2*time.Hour + 30*time.Minute)
	w.Expect(w.step()).To(BeEmpty())
	s := w.read()
	w.Expect(s.Members[1].opensAt).To(BeTemporally("==", time.Date(2026, 1, 3, 2, 30, 0, 0, time.UTC)))
	w.pass(48 * time.Hour)
	w.Expect(w.step()).To(Equal([]string{"c1"}))

	w.fleet.Spec.MaintenanceWindows[0].Schedule = "0 3 * * *" // It never opens together with the one at 02:00.
	s = w.read()
	w.Expect(s.Members[1].opensAt.IsZero()).To(BeTrue())
	w.Expect(s.SettlesAt.IsZero()).To(BeFalse(), "it is looked for again")
}

// A hub that is older has kept less of a promise.
func TestThePromiseOfAnOlderHubIsRead(t *testing.T) {
	w := newSimulation(t, 2)
	w.relabel("rest")
	windowFields()["maintenanceWindows[].schedule"].prepare(w)
	w.kept.Annotations[v1alpha1.FleetPromiseAnnotation] = `{"since":"2026-01-01T00:00:00Z","strategy":{"type":"All"}}`
	w.Expect(w.step()).To(BeEmpty(), "the present window is closed")
	w.fleet.Spec.MaintenanceWindows = nil
	w.Expect(w.step()).To(Equal([]string{"c1"}))
}

func TestRunsOfNumbersArePacked(t *testing.T) {
	g := NewWithT(t)
	for text, numbers := range map[string][]int{"": {}, "0": {0}, "0*3 12 0*2": {0, 0, 0, 12, 0, 0}} {
		g.Expect(packRuns(numbers)).To(Equal(text))
		g.Expect(unpackRuns(text, 100)).To(Equal(numbers))
	}
	for _, wrong := range []string{"x", "-1", "0*0", "0*-1", "0*101", "0*9223372036854775807", "1*", "*1"} {
		g.Expect(unpackRuns(wrong, 100)).To(BeNil(), wrong)
	}
}

// relabel gives all clusters but the first another group; none if it is empty.
func (w *simulation) relabel(group string) {
	for _, cluster := range w.clusters[1:] {
		if cluster.Labels["group"] = group; group == "" {
			delete(cluster.Labels, "group")
		}
	}
}

func (w *simulation) addWindow(schedule string) {
	w.fleet.Spec.MaintenanceWindows = append(w.fleet.Spec.MaintenanceWindows, v1alpha1.MaintenanceWindow{
		Name: "another", Schedule: schedule, Duration: metav1.Duration{Duration: time.Hour}, ClusterSelector: choose("rest"),
	})
}
