package cli_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

const heldByBudget = "waiting for pod default/web-0: The disruption budget web needs 2 healthy pods and has 2 currently"

// drainedMachine is a Machine of the env's MachineDeployment that is drained for its deletion.
func (f *env) drainedMachine(name, reason, message string) *v1alpha1.Machine {
	f.T.Helper()
	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.name, Name: name, Finalizers: []string{"example.com/held"}, Labels: map[string]string{v1alpha1.MachineDeploymentNameLabel: "workers"},
		},
		Spec: v1alpha1.MachineSpec{ClusterName: f.name, MachineTemplateBody: testenv.Template(nil).Spec},
	}
	f.ExpectApplied(machine)
	f.drains(machine, reason, message)
	f.Expect(f.Client.Delete(f.T.Context(), machine)).To(Succeed())
	return machine
}

func (f *env) drains(machine *v1alpha1.Machine, reason, message string) {
	f.T.Helper()
	machine.Status.Phase = v1alpha1.MachineTerminating
	meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleting})
	meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{Type: v1alpha1.MachineDrainedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message})
	f.ExpectStatusApplied(machine)
}

// A rollout that is followed names the pod and the budget for which a Machine waits, again when the reason changes.
func TestARolloutNamesWhatAMachineWaitsFor(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.counts(1, 1)
	shown := f.follows("rollout status machinedeployment workers -n NAME")
	shown.shows(`1 of 2 machines updated`)
	machine := f.drainedMachine("workers-old", v1alpha1.ReasonDraining, heldByBudget)
	shown.shows(`(?m)^  ` + f.name + `/workers-old: Draining since 20\S+ \(Draining\): ` + heldByBudget)
	f.ExpectExists(machine)
	f.drains(machine, v1alpha1.ReasonMisconfiguredBudget, "PodDisruptionBudget default/web allows none")
	shown.shows(`(?m)^  ` + f.name + `/workers-old: Draining since 20\S+ \(MisconfiguredBudget\): PodDisruptionBudget default/web allows none`)
	shown.stopsBy130()
}

// On a terminal, each Machine that is not Ready has its place on the screen, in 40 columns too.
func TestARolloutOnATerminalShowsItsMachines(t *testing.T) {
	f := newEnv(t)
	f.deployment(2)
	f.counts(1, 1)
	machine := f.drainedMachine("workers-old", v1alpha1.ReasonDraining, heldByBudget+"\x1b[2J")
	screen := newTerminal(t)
	f.Expect(unix.IoctlSetWinsize(int(screen.file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 40})).To(Succeed())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan run, 1)
	go func() { ended <- f.hollowOn(ctx, screen.file, "rollout status machinedeployment workers -n NAME") }()
	f.Eventually(screen.shows).WithTimeout(patience).Should(And(ContainSubstring("workers-old"), ContainSubstring("Draining for"), ContainSubstring("default/web-0:"), ContainSubstring("web needs 2 healthy")))
	f.Expect(screen.raw()).NotTo(ContainSubstring("\x1b[2J"))
	f.ExpectExists(machine)
	machine.Finalizers = nil
	f.ExpectApplied(machine)
	f.counts(2, 2)
	var r run
	f.Eventually(ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Eventually(screen.shows).Should(ContainSubstring("2 of 2 machines updated"))
}
