package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func (f *env) disruption() (*v1alpha1.NodeDisruption, error) {
	disruption := &v1alpha1.NodeDisruption{}
	return disruption, f.Client.Get(context.WithoutCancel(f.T.Context()), client.ObjectKey{Name: f.name}, disruption)
}

// hub writes the status of the first disruption whose name starts with the env's, as the hub would.
func (f *env) hub(change func(*v1alpha1.NodeDisruptionStatus)) {
	go func() {
		ctx := f.T.Context()
		for tick := time.NewTicker(glance); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			list := &v1alpha1.NodeDisruptionList{}
			if err := f.Client.List(ctx, list); err != nil {
				return
			}
			for i := range list.Items {
				one := &list.Items[i]
				if strings.HasPrefix(one.Name, f.name) {
					if mark := one.Annotations[v1alpha1.CommandDryRunAnnotation]; one.Spec.DryRun && mark != one.Name+" 1m30s" {
						f.T.Errorf("dry run %s has the mark %q: the hub would not delete it", one.Name, mark)
					}
					change(&one.Status)
					if f.Client.Status().Update(ctx, one) == nil {
						return
					}
				}
			}
		}
	}()
}

func TestADisruptionIsMadeOfFlags(t *testing.T) {
	f := newEnv(t)
	f.succeeds("disrupt create NAME --clusters a=b -l app=x --exclude keep --machine-deployment workers --zone z1 --mode Percent --value 30 --max-unavailable 50% --seed 7" +
		" --fault NotReady --fault FreezeHeartbeat:Lease --fault Flap:20s/30s --fault Pressure:Memory,Disk --fault Condition:KernelDeadlock --fault SlowAPI:2s --fault APIErrors:20" +
		" --fault PodStartDelay:10s --fault PodStartFail --fault DeviceFailure:example.com/gpu=2 --fault DeviceFailure:gpu.example.com=1:NoExecute --for 10m --start-after 5s --healthy-for 1m --unhealthy-for 20s --jitter 5s --repeat 3" +
		" --expect condition=Ready:False@1m --expect taint=a/b:NoExecute@2m --expect evicted@3m --expect replaced@4m")
	made, err := f.disruption()
	f.Expect(err).NotTo(HaveOccurred())
	spec := made.Spec
	f.Expect(spec.ClusterSelector.MatchLabels).To(Equal(map[string]string{"a": "b"}))
	f.Expect(spec.Target).To(And(HaveField("MachineDeployment", "workers"), HaveField("Zones", ConsistOf("z1")), HaveField("Mode", disrupt.ModePercent), HaveField("Value", BeEquivalentTo(30)), HaveField("MaxUnavailable.StrVal", "50%")))
	f.Expect(spec.Target.MachineSelector.MatchLabels).To(Equal(map[string]string{"app": "x"}))
	f.Expect(spec.Target.Exclude.MatchExpressions).To(HaveLen(1))
	f.Expect(spec.Faults).To(HaveLen(11))
	f.Expect(spec.Faults[9].DeviceFailure).To(HaveValue(Equal(disrupt.DeviceFailureParameters{Name: "example.com/gpu", Count: 2})))
	f.Expect(spec.Faults[10].DeviceFailure).To(HaveValue(Equal(disrupt.DeviceFailureParameters{Name: "gpu.example.com", Count: 1, Effect: "NoExecute"})))
	f.Expect(spec.Timing).To(And(HaveField("Duration.Duration", 10*time.Minute), HaveField("Repeat", BeEquivalentTo(3)), HaveField("Jitter.Duration", 5*time.Second)))
	f.Expect(spec.Expectations).To(HaveExactElements(
		HaveField("Condition.Type", "Ready"), HaveField("Taint.Effect", "NoExecute"), HaveField("Type", v1alpha1.ExpectPodsEvicted), HaveField("Type", v1alpha1.ExpectMachineReplaced)))
	f.Expect(f.succeeds("disrupt list")).To(ContainSubstring(f.name))
	f.succeeds("disrupt pause NAME")
	made, _ = f.disruption()
	f.Expect(made.Spec.Paused).To(BeTrue())
	f.succeeds("disrupt resume NAME")
	f.fails(4, "already exists: choose another name, or remove it with: kubectl hollow disrupt stop", "disrupt create NAME --fault Kill --for 1m")
	f.Expect(f.succeeds("disrupt stop NAME --dry-run")).To(ContainSubstring("(dry run)"))
	f.Expect(f.succeeds("disrupt stop NAME")).To(ContainSubstring("deleted"))
	f.fails(3, "does not exist: see kubectl hollow disrupt list", "disrupt stop NAME")
	f.fails(3, "does not exist: see kubectl hollow disrupt list", "disrupt pause NAME")
}

// disruptionRun makes a run of the env's disruption in a namespace of its own, on whose Nodes a fault continues.
func (f *env) disruptionRun() *v1alpha1.NodeDisruptionRun {
	f.namespace()
	run := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: f.name, Labels: map[string]string{v1alpha1.NodeDisruptionNameLabel: f.name}}}
	run.Spec.Faults = []disrupt.Fault{{Type: disrupt.NotReady}}
	run.Spec.Timing.Duration = metav1.Duration{Duration: time.Minute}
	f.ExpectApplied(run)
	now := metav1.Now()
	run.Status.Phase, run.Status.StartTime, run.Status.Selected, run.Status.Observed = v1alpha1.NodeDisruptionRunning, &now, 3, 3
	f.ExpectStatusApplied(run)
	return run
}

// restores pauses and recovers the Nodes of a run as an agent does, and deletes it when the disruption is gone, as the garbage
// collector does.
func (f *env) restores(run *v1alpha1.NodeDisruptionRun, recovered int32) {
	go func() {
		for tick := time.NewTicker(glance); ; <-tick.C {
			disruption, err := f.disruption()
			switch {
			case f.T.Context().Err() != nil:
				tick.Stop()
				return
			case apierrors.IsNotFound(err):
				_ = f.Client.Delete(f.T.Context(), run)
			case err == nil && disruption.Spec.Paused:
				run.Status.Phase, run.Status.Recovered = v1alpha1.NodeDisruptionPaused, recovered
				_ = f.Client.Status().Update(f.T.Context(), run)
			}
		}
	}()
}

// Claim: `disrupt stop` waits for recovery and deletes anyway. Broken: it does not wait; it does not delete when the time is over.
func TestStopWaitsForTheNodes(t *testing.T) {
	f := newEnv(t)
	f.succeeds("disrupt create NAME --clusters a=b --fault NotReady --for 1m")
	f.restores(f.disruptionRun(), 3)
	f.Expect(f.succeeds("disrupt stop NAME")).To(MatchRegexp(`(?s)paused, to restore its Nodes.*waiting for 3 Nodes of %[1]s.*its Nodes are healthy again.*deleted.*its runs are gone`, f.name))
	_, err := f.disruption()
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue())

	f = newEnv(t)
	f.succeeds("disrupt create NAME --clusters a=b --fault NotReady --for 1m")
	f.restores(f.disruptionRun(), 2)
	f.stops(5, "the Nodes were not reported healthy again within 3s: 1 Node of "+f.name, "disrupt stop NAME --timeout 3s")
	_, err = f.disruption()
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it is deleted all the same")
}

func TestADisruptionThatCannotBeMeantIsBadUsage(t *testing.T) {
	f := newEnv(t)
	for args, says := range map[string]string{
		"":                                         "give --fault and --for",
		"--fault Kill":                             "give --fault and --for",
		"--fault Flop --for 1m":                    "want one of NotReady",
		"--fault Flap --for 1m":                    "flap: required",
		"--fault Flap:1s --for 1m":                 "invalid duration",
		"--fault Kill:7 --for 1m":                  "has no parameter",
		"--fault APIErrors:700 --for 1m":           "percentage from 1 to 100",
		"--fault Kill --for soon":                  "invalid duration",
		"--fault Kill --for 1m --mode Few":         "want one of One, All, Fixed, Percent",
		"--fault Kill --for 1m --expect x":         "WHAT@DURATION",
		"--fault Kill --for 1m --expect evicted@x": "duration such as 5m",
		"--fault Kill --for 1m --expect gone@5m":   "want condition=",
		"--fault Kill --for 1m --clusters a==b==c": `--clusters: "a==b==c" is not a label selector`,
		"--fault Kill --for 1m --exclude a==b==c":  `--exclude: "a==b==c" is not a label selector`,
	} {
		f.fails(2, says, "disrupt create NAME "+args)
	}
	f.fails(2, "a disruption with a schedule has no end", "disrupt create NAME --fault Kill --for 1m --wait", "--schedule", "*/5 * * * *")
	file := filepath.Join(t.TempDir(), "x.yaml")
	f.Expect(os.WriteFile(file, []byte("apiVersion: hollowfleet.io/v1alpha1\nkind: NodeDisruption\nmetadata: {name: x}\nspec: {fault: []}\n"), 0o600)).To(Succeed())
	f.fails(2, "fault", "disrupt create -f "+file)
	f.fails(2, "and --mode both describe the disruption", "disrupt create --mode All -f "+file)
	f.fails(2, "spec.timing: duration", "disrupt create NAME --fault Kill --for 721h")
	// Nothing is created for a dry run of what cannot be carried out either.
	f.fails(2, "spec.expectations[0].within: 40s is longer than the run", "disrupt create NAME --fault Kill --for 20s --expect evicted@40s --dry-run")
	f.fails(2, "spec.faults[0]: flap.notReadyFor: want a duration from 15s", "disrupt create -f "+f.file("flap: {notReadyFor: 1s, readyFor: 20s}", ""))
	f.fails(2, "spec.target.value: required for the mode Percent", "disrupt create -f "+f.file("flap: {notReadyFor: 20s, readyFor: 20s}", "target: {mode: Percent}, "))
}

// file is one with a NodeDisruption that flaps.
func (f *env) file(flap, more string) string {
	file := filepath.Join(f.T.TempDir(), "x.yaml")
	f.Expect(os.WriteFile(file, []byte("apiVersion: hollowfleet.io/v1alpha1\nkind: NodeDisruption\nmetadata: {name: x}\nspec: {clusterSelector: {}, "+more+
		"faults: [{type: Flap, "+flap+"}], timing: {duration: 1m}}\n"), 0o600)).To(Succeed())
	return file
}

// Claim: Missed expectations have an exit code. Broken: a missed one counts as met.
func TestFollowingADisruptionHasAnExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		status v1alpha1.NodeDisruptionStatus
		code   int
		says   string
	}{
		"passed":      {v1alpha1.NodeDisruptionStatus{Phase: v1alpha1.NodeDisruptionCompleted, Verdict: v1alpha1.DisruptionPassed}, 0, ""},
		"missed":      {v1alpha1.NodeDisruptionStatus{Phase: v1alpha1.NodeDisruptionCompleted, Verdict: v1alpha1.DisruptionMissed}, 5, "the verdict is Failed"},
		"unknown":     {v1alpha1.NodeDisruptionStatus{Phase: v1alpha1.NodeDisruptionCompleted, Verdict: v1alpha1.DisruptionUnknown}, 1, "the verdict is Unknown"},
		"not carried": {v1alpha1.NodeDisruptionStatus{Phase: v1alpha1.NodeDisruptionFailed, Message: "frozen"}, 1, "not carried out in every cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t)
			f.hub(func(status *v1alpha1.NodeDisruptionStatus) { *status = c.status })
			r := f.hollow("disrupt create NAME --clusters x=NAME --fault Kill --for 1m --wait -o json")
			f.Expect(r.code).To(Equal(c.code), r.errOut)
			f.Expect(r.errOut).To(ContainSubstring(c.says))
			f.Expect(r.out).To(ContainSubstring(`"phase": "` + string(c.status.Phase) + `"`))
		})
	}
	f := newEnv(t)
	f.stops(5, "The disruption continues. To see its progress: kubectl hollow disrupt list. To end it: kubectl hollow disrupt stop "+f.name, "disrupt create NAME --clusters x=NAME --fault Kill --for 1m --wait --timeout 1s")
}

func TestADryRunShowsWhatWouldBeHitAndLeavesNothing(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME")
	f.hub(func(status *v1alpha1.NodeDisruptionStatus) {
		status.ObservedGeneration = 1
		status.Preview = []v1alpha1.DisruptionPreview{{Cluster: f.name, NodePreview: v1alpha1.NodePreview{Selected: 12, Nodes: []string{"m1", "m2"}, Warnings: []string{"a threshold is crossed"}}}}
	})
	cluster := f.cluster()
	cluster.Labels, cluster.Spec.Acceptance = map[string]string{"x": f.name}, v1alpha1.AcceptanceAccepted
	f.ExpectApplied(cluster)
	f.Expect(f.succeeds("disrupt create NAME --clusters x=NAME --fault Kill --for 1m --dry-run")).To(And(
		ContainSubstring(f.name+": 12 Nodes: m1, m2 and 10 more"), ContainSubstring("warning: a threshold is crossed"), ContainSubstring("would hit 12 Nodes in 1 of 1 clusters (dry run)")))
	_, err := f.disruption()
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	list := &v1alpha1.NodeDisruptionList{}
	f.Expect(f.Client.List(t.Context(), list)).To(Succeed())
	f.Expect(list.Items).NotTo(ContainElement(HaveField("Name", HavePrefix(f.name))))
}
