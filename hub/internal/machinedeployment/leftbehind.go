package machinedeployment

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// leftBehind names the Machines and MachineSets that carry the deployment's name and that it can neither use nor delete,
// and says what to do about each; empty if there are none.
func (s *scope) leftBehind() []string {
	var notes []string
	var names []string
	for _, machine := range s.ownerless.facts {
		if !machine.Deleting {
			names = append(names, machine.Name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		notes = append(notes, fmt.Sprintf("%d machines count although their MachineSet does not exist: %s: the garbage collector "+
			"deletes them; if it does not, delete them yourself", len(names), reconciler.ListFew(names)))
	}
	names = nil
	for _, set := range s.leftovers {
		names = append(names, set.Name)
	}
	if len(names) > 0 {
		notes = append(notes, fmt.Sprintf("MachineSet %s has the label %s=%s and no owner, and spec.selector does not match its labels, "+
			"so it keeps its machines beside those of this deployment: delete it, or give it labels that match to have it adopted",
			reconciler.ListFew(names), v1alpha1.MachineDeploymentNameLabel, s.deployment.Name))
	}
	return notes
}

// withLeftBehind is message followed by what is left behind.
func (s *scope) withLeftBehind(message string) string {
	notes := s.leftBehind()
	if message != "" {
		notes = slices.Insert(notes, 0, message)
	}
	return strings.Join(notes, "; ")
}

// emitLeftBehind sends an event about each thing left behind that the stored status, before, does not name.
func (c *Controller) emitLeftBehind(s *scope, before *v1alpha1.MachineDeploymentStatus) {
	told := ""
	if old := meta.FindStatusCondition(before.Conditions, v1alpha1.ProgressingCondition); old != nil {
		told = old.Message
	}
	for _, note := range s.leftBehind() {
		if !strings.Contains(told, note) {
			emit(c.Recorder, s.deployment, reconciler.WarningEvent("LeftBehind", "Reconcile", note))
		}
	}
}
