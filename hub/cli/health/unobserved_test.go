package health

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: `status` raises no alarm in the middle of an ordinary rollout. Broken: a set that its MachineDeployment has just changed is a problem; the status' own writes count as changes; nothing is ever a problem.
func TestWhatIsNotObservedYetIsNoProblemForAMoment(t *testing.T) {
	changed := func(age time.Duration, subresource string) []metav1.ManagedFieldsEntry {
		at := ago(age)
		return []metav1.ManagedFieldsEntry{{Manager: "user", Time: since(time.Hour)}, {Manager: "user", Subresource: subresource, Time: &at}}
	}
	owned := []metav1.OwnerReference{{Kind: MachineDeployment, Name: "workers", Controller: new(true)}}
	for name, test := range map[string]struct {
		object client.Object
		want   State
	}{
		"a deployment that was just changed":           {unobserved(deployment(ready, available), changed(20*time.Second, "")), InProgress},
		"a deployment that was changed long ago":       {unobserved(deployment(ready, available), changed(40*time.Second, "")), Problem},
		"only its status was written":                  {unobserved(deployment(ready, available), changed(20*time.Second, "status")), Problem},
		"a change of the future":                       {unobserved(deployment(ready, available), changed(-time.Minute, "")), Problem},
		"a set without a deployment":                   {unobserved(machineSet(ready, available), changed(80*time.Second, "")), Problem},
		"a set of a deployment, within the interval":   {ownedBy(unobserved(machineSet(ready, available), changed(80*time.Second, "")), owned), InProgress},
		"a set of a deployment, beyond the interval":   {ownedBy(unobserved(machineSet(ready, available), changed(100*time.Second, "")), owned), Problem},
		"a Machine that has just come":                 {born(&v1alpha1.Machine{ObjectMeta: objectMeta("m")}, 2*time.Second), InProgress},
		"a Machine on which nothing was ever reported": {born(&v1alpha1.Machine{ObjectMeta: objectMeta("m")}, time.Minute), Problem},
	} {
		t.Run(name, func(t *testing.T) {
			found := judged(test.object)
			NewWithT(t).Expect([]any{found.state, found.reason}).To(Equal([]any{test.want, ReasonNotObserved}))
		})
	}
}

func unobserved[T metav1.Object](object T, managed []metav1.ManagedFieldsEntry) T {
	object.SetGeneration(3)
	object.SetManagedFields(managed)
	return object
}

func ownedBy[T metav1.Object](object T, owners []metav1.OwnerReference) T {
	object.SetOwnerReferences(owners)
	return object
}

func born[T metav1.Object](object T, age time.Duration) T {
	object.SetCreationTimestamp(ago(age))
	return object
}
