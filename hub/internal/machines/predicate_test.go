package machines

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler/reconcilertest"
)

func TestChangesOfAMachineThatCount(t *testing.T) {
	machine := &v1alpha1.Machine{}
	machine.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	reconcilertest.CheckPredicate(t, Changed(), machine, map[string]func(*v1alpha1.Machine){
		"readiness":                func(m *v1alpha1.Machine) { m.Status.Conditions[0].Status = metav1.ConditionFalse },
		"ready since another time": func(m *v1alpha1.Machine) { m.Status.Conditions[0].LastTransitionTime.Time = now.Add(time.Minute) },
		"failure":                  func(m *v1alpha1.Machine) { m.Status.Phase = v1alpha1.MachineFailed },
		"deletion":                 func(m *v1alpha1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: now} },
		"mark":                     func(m *v1alpha1.Machine) { m.Annotations = map[string]string{v1alpha1.DeleteMachineAnnotation: ""} },
		"labels":                   func(m *v1alpha1.Machine) { m.Labels = map[string]string{"a": "b"} },
		"owner":                    func(m *v1alpha1.Machine) { m.OwnerReferences = []metav1.OwnerReference{{UID: "x"}} },
	}, map[string]func(*v1alpha1.Machine){
		"nothing":     func(*v1alpha1.Machine) {},
		"addresses":   func(m *v1alpha1.Machine) { m.Status.LastUpdated = &metav1.Time{Time: now} },
		"provider ID": func(m *v1alpha1.Machine) { m.Spec.ProviderID = new("x") },
	})
}
