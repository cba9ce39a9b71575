package admission_test

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// warnings keeps what an API server warns of.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// warningsOf makes an object as a dry run, and returns what the API server warns its author of.
func warningsOf(t *testing.T, object client.Object) string {
	t.Helper()
	told := &warnings{}
	own := rest.CopyConfig(testenv.Server().Config)
	own.WarningHandler = told
	c, err := client.New(own, client.Options{Scheme: testenv.Server().Client.Scheme()})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(c.Create(t.Context(), object, client.DryRunAll)).To(Succeed(), "a warning refuses nothing")
	return strings.Join(told.texts, "\n")
}

// everyField is a configuration with all fields that a HollowNodeConfig has.
func everyField() string {
	fields := []string{`"apiVersion":"hollowfleet.io/v1alpha1"`, `"kind":"HollowNodeConfig"`}
	kind := reflect.TypeFor[v1alpha1.HollowNodeConfig]()
	for i := range kind.NumField() {
		if name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ","); name != "" {
			fields = append(fields, `"`+name+`":{}`)
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// The author of a class is told at once what its Machines would say later.
// Claim: A MachineClass of which no Machine can be made is warned of. Broken: new: without the policy, and with every class healthy, as before. Also: hub/cli/health TestAClassOfWhichNoMachineCanBeMadeIsNamed.
// Edge case: A MachineClass with a typo was accepted silently.
func TestAClassOfWhichNoMachineCanBeMadeIsWarnedOf(t *testing.T) {
	g := NewWithT(t)
	applyPolicies(t, "machineclasses")
	of := func(provider, config string) client.Object {
		return with(class(), func(c *v1alpha1.MachineClass) {
			if c.Spec.Provider = provider; config != "" {
				c.Spec.ProviderConfig = raw(config)
			}
		})
	}
	g.Eventually(func() string { return warningsOf(t, of("aws", "")) }).WithTimeout(time.Minute).Should(ContainSubstring("spec.provider: 'aws' is not built in"))
	g.Expect(warningsOf(t, of("aws", `{"maxpods":1}`))).NotTo(ContainSubstring("maxpods"), "that is its driver's matter")
	g.Expect(warningsOf(t, of("hollow", `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","maxpods":5,"cpu":1}`))).To(And(
		ContainSubstring("spec.providerConfig: "), ContainSubstring("maxpods"), ContainSubstring("cpu"), ContainSubstring("InvalidConfiguration")))
	for _, config := range []string{"", "{}", everyField()} {
		g.Expect(warningsOf(t, of("hollow", config))).To(BeEmpty(), config)
	}
}
