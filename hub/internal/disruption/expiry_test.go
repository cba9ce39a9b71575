package disruption

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// A dry run whose command has died goes; what is a user's own, or has become so, stays.
// Claim: Abandoned dry runs are deleted, users' are not. Broken: nobody deletes it.
func TestADryRunOfACommandExpires(t *testing.T) {
	for name, test := range map[string]struct {
		mark    string
		spec    func(*v1alpha1.NodeDisruptionSpec)
		expires bool
	}{
		"of a command":                     {mark: "NAME 90s", expires: true},
		"of a user":                        {},
		"a copy":                           {mark: "other-dry-run-abcde 90s"},
		"with a mark that says no time":    {mark: "NAME"},
		"with a mark that says nothing":    {mark: "NAME soon"},
		"with a mark forever":              {mark: "NAME 10000h"},
		"with a time that is past at once": {mark: "NAME -1h"},
		"started since":                    {mark: "NAME 90s", spec: func(spec *v1alpha1.NodeDisruptionSpec) { spec.DryRun = false }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 1, func(spec *v1alpha1.NodeDisruptionSpec) {
				spec.DryRun = true
				if test.spec != nil {
					test.spec(spec)
				}
			})
			if test.mark != "" {
				mark := test.mark
				if mark[:4] == "NAME" {
					mark = f.disruption.Name + mark[4:]
				}
				f.Expect(f.Client.Patch(t.Context(), f.disruption, client.RawPatch(types.MergePatchType,
					[]byte(`{"metadata":{"annotations":{"`+v1alpha1.CommandDryRunAnnotation+`":"`+mark+`"}}}`)))).To(Succeed())
			}
			next := f.ExpectReconciled(f.disruption)
			f.ExpectExists(f.disruption) // Its time has not come.
			if test.expires {
				f.Expect(next.RequeueAfter).To(BeNumerically("~", 90*time.Second, time.Second), "nothing else wakes the hub")
			}
			f.Clock.Step(48 * time.Hour)
			f.ExpectReconciled(f.disruption)
			err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(f.disruption), f.disruption)
			f.Expect(apierrors.IsNotFound(err)).To(Equal(test.expires))
		})
	}
}
