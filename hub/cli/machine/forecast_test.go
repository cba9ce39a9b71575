package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// newForecast is the story of a Machine whose Node has joined, and whose deletion nothing stands in the way of.
func newForecast() *story {
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "set"}, Spec: v1alpha1.MachineSetSpec{Replicas: new(int32(3))}, Status: v1alpha1.MachineSetStatus{Replicas: 3}}
	return &story{
		now: time.Now(), set: set, class: &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: "small"}},
		cluster: &v1alpha1.Cluster{Status: v1alpha1.ClusterStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionTrue}}}},
		document: Document{Cluster: &Related{Kind: clusters, Name: "c1"}, Machine: &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "c1", Name: "workers-a", Labels: map[string]string{}, Annotations: map[string]string{},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
			},
			Status: v1alpha1.MachineStatus{NodeRef: &v1alpha1.NodeReference{Name: "workers-a"}},
		}},
	}
}

func TestTheForecastOfADeletion(t *testing.T) {
	frozen := []metav1.Condition{{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionTrue, Reason: "ManualFreeze", Message: "maintenance"}}
	for name, test := range map[string]struct {
		change func(*story)
		says   string
	}{
		"drained and replaced": {func(*story) {}, "drained within disruption budgets for at most 2h"},
		"a drain of its own": {func(s *story) {
			s.document.Machine.Spec.Timeouts = &v1alpha1.MachineTimeouts{Drain: &metav1.Duration{Duration: 90 * time.Minute}}
		}, "at most 1h30m"},
		"a drain of its class": {func(s *story) {
			s.class.Spec.Timeouts = &v1alpha1.MachineTimeouts{Drain: &metav1.Duration{Duration: 5 * time.Second}}
		}, "at most 5s"},
		"no drain by its class":  {func(s *story) { s.class.Spec.DrainPolicy = v1alpha1.SkipDrain }, "without a drain, because MachineClass small"},
		"an unknown class":       {func(s *story) { s.class, s.unread = nil, []string{classes} }, "whether Node workers-a is drained first is not known"},
		"forced":                 {func(s *story) { s.document.Machine.Labels[v1alpha1.ForceDeletionLabel] = "true" }, "without a drain, because the Machine has label"},
		"no Node":                {func(s *story) { s.document.Machine.Status.NodeRef = nil }, "nothing to drain"},
		"a hook":                 {func(s *story) { s.document.Machine.Annotations[v1alpha1.PreDrainHookPrefix+"backup"] = "" }, "waits until these annotations are removed: pre-drain.hook"},
		"a frozen cluster":       {func(s *story) { s.cluster.Status.Conditions = append(s.cluster.Status.Conditions, frozen...) }, "Cluster c1 is frozen (ManualFreeze): maintenance: nothing is drained"},
		"a silent agent":         {func(s *story) { s.cluster.Status.Conditions = nil }, "is not connected: nothing is removed before it is"},
		"no cluster":             {func(s *story) { s.cluster, s.document.Cluster.Missing = nil, true }, "remove-finalizers"},
		"an unknown cluster":     {func(s *story) { s.cluster, s.unread = nil, []string{clusters} }, "is not known"},
		"no set":                 {func(s *story) { s.document.Machine.OwnerReferences = nil }, "No MachineSet owns it: it is not replaced"},
		"a set that is gone":     {func(s *story) { s.set = nil }, "does not exist: it is not replaced"},
		"a set of the same name": {func(s *story) { s.set.UID = "another" }, "does not exist: it is not replaced"},
		"a set being deleted":    {func(s *story) { s.set.DeletionTimestamp = &metav1.Time{} }, "being deleted: it is not replaced"},
		"a set with too many":    {func(s *story) { s.set.Status.Replicas = 4 }, "has 4 Machines and wants 3: it is not replaced"},
		"a frozen set":           {func(s *story) { s.set.Status.Conditions = frozen }, "it is replaced once that is over"},
		"an unknown set":         {func(s *story) { s.unread = []string{sets} }, "whether it is replaced is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newForecast()
			test.change(s)
			NewWithT(t).Expect(s.forecastDeletion()).To(ContainElement(ContainSubstring(test.says)))
		})
	}
	NewWithT(t).Expect(newForecast().forecastWaits()).To(BeEmpty())
}
