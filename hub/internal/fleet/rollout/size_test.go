package rollout

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// largestStatus is what the status of 1,000 clusters may take up.
const largestStatus = 64 << 10

// largeScope is a fleet in the middle of a rollout whose clusters have the longest names, and of which each is in another
// state than the next, with long messages.
func largeScope(t testing.TB, clusters int) *Scope {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	labels := map[string]string{"app": "x"}
	fleet := &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: "f", UID: "f"}, Spec: v1alpha1.MachineFleetSpec{
		Template: v1alpha1.MachineDeploymentTemplate{Spec: v1alpha1.MachineDeploymentTemplateSpec{
			Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
		}},
	}}
	fleet.Spec.Groups = []v1alpha1.MachineFleetGroup{{Name: "canary", ClusterSelector: choose("canary")}}
	fleet.Spec.RolloutStrategy = ocm.RolloutStrategy{Type: ocm.Progressive, Progressive: &ocm.RolloutProgressive{
		RolloutConfig: ocm.RolloutConfig{MinSuccessTime: metav1.Duration{Duration: time.Minute}}, MaxConcurrency: intstr.FromInt(clusters / 10),
		MandatoryDecisionGroups: ocm.MandatoryDecisionGroups{MandatoryDecisionGroups: []ocm.MandatoryDecisionGroup{{GroupName: "canary"}}},
	}}
	for i := range 20 {
		fleet.Spec.Groups = append(fleet.Spec.Groups, v1alpha1.MachineFleetGroup{
			Name: fmt.Sprintf("%s%02d", strings.Repeat("g", 61), i), Approval: v1alpha1.GroupApprovalRequired,
		})
	}
	fleet.Spec.RolloutStrategy.Progressive.MaxFailures = intstr.FromInt(clusters)
	s := &Scope{Fleet: fleet, Now: now, selection: &selection{matches: chooseAll}}
	var err error
	if s.Revision, err = TextRevision(fleet); err != nil {
		t.Fatal(err)
	}
	phases := []plan.Phase{plan.ToApply, plan.Progressing, plan.Soaking, plan.Succeeded, plan.Failed, plan.TimedOut, plan.RollingBack, plan.RolledBack, plan.RollbackFailed}
	for i := range clusters {
		name := fmt.Sprintf("%s%04d", strings.Repeat("c", 59), i)
		m := &Member{Cluster: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, matches: true, Selected: true, template: ownTemplate(fleet)}
		content := NewApplied(fleet, &fleet.Spec.Template, name, new(int32(3)))
		m.Record = NewRecord(fleet, plan.Record{Revision: s.Revision, Phase: phases[i%len(phases)], Since: now, Previous: "before"}, "")
		m.Record.Cause = strings.Repeat("failed at length; ", 256)
		if m.Deployment, err = content.NewDeployment("f", m.Record); err != nil {
			t.Fatal(err)
		}
		m.replicas = content.Spec.Replicas
		m.Deployment.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressDeadlineExceeded,
			Message: strings.Repeat("a long message; ", 256),
		}}
		switch i % 5 {
		case 0:
			m.held = strings.Repeat("frozen for long; ", 256)
		case 1:
			m.blocked = []Problem{{v1alpha1.ReasonWriteRefused, strings.Repeat("refused at length; ", 256)}}
		case 2:
			m.group = fleet.Spec.Groups[1+i%20].Name
		case 3:
			m.closed = true
		case 4:
			m.unhealthy = []string{strings.Repeat("not healthy; ", 256)}
		}
		s.Members = append(s.Members, m)
		s.unused = append(s.unused, groupField(v1alpha1.MachineFleetGroup{Name: strings.Repeat("g", 63), ClusterSelector: &metav1.LabelSelector{}}))
	}
	return s
}

func TestTheStatusOfAThousandClustersIsSmall(t *testing.T) {
	s := largeScope(t, 1000)
	Report(s, Decide(s), s.Now)
	text, err := json.Marshal(s.Fleet.Status)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the status of 1,000 clusters has %d bytes", len(text))
	if len(text) > largestStatus {
		t.Errorf("the status of 1,000 clusters has %d bytes, more than %d", len(text), largestStatus)
	}
	if n := len([]rune(s.Fleet.Status.Message)); n > conditions.MaxMessage {
		t.Errorf("the message has %d characters", n)
	}
	if n := len(s.Fleet.Status.Failures); n != mostFailures {
		t.Errorf("%d failures are named, not %d", n, mostFailures)
	}
}

func BenchmarkDecideFor500Clusters(b *testing.B) {
	s := largeScope(b, 500)
	for b.Loop() {
		Decide(s)
	}
}

// A decision for 500 clusters is to take 100 ms of CPU time. A machine that is shared may need ten times as long.
func TestADecisionFor500ClustersIsFast(t *testing.T) {
	result := testing.Benchmark(BenchmarkDecideFor500Clusters)
	s := largeScope(t, 500)
	cpu := testenv.CPUTime(t, 5, func() error {
		Decide(s)
		return nil
	})
	t.Logf("one decision for 500 clusters takes %s, %s of CPU", time.Duration(result.NsPerOp()), cpu)
	if result.NsPerOp() > time.Second.Nanoseconds() || cpu > 100*time.Millisecond {
		t.Errorf("one decision for 500 clusters takes %s, %s of CPU", time.Duration(result.NsPerOp()), cpu)
	}
}
