package confine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A quantity of a few characters may be a number of thousands of millions of digits.
// Edge case: A twelve-character quantity kept an agent busy. Also: agent/internal/loadtest/template TestARunThatWouldFillEtcdIsRefusedBeforeTheFirstRequest.
func TestQuantitiesThatCostMinutesAreRefusedAtOnce(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nspec: {%s}"
	for text, field := range map[string]string{
		fmt.Sprintf(pod, "containers: [{name: c, resources: {requests: {cpu: '%s'}}}]"):                                              "spec.containers[0].resources.requests.cpu",
		fmt.Sprintf(pod, "containers: [{name: c}], initContainers: [{name: i, resources: {limits: {example.com/x: '%s'}}}]"):         "spec.initContainers[0].resources.limits.example.com/x",
		fmt.Sprintf(pod, "containers: [{name: c}], resources: {limits: {cpu: '%s'}}"):                                                "spec.resources.limits.cpu",
		fmt.Sprintf(pod, "containers: [{name: c}], volumes: [{name: v, emptyDir: {sizeLimit: '%s'}}]"):                               "spec.volumes[0].emptyDir.sizeLimit",
		fmt.Sprintf(pod, "containers: [{name: c, env: [{name: a, valueFrom: {resourceFieldRef: {resource: a, divisor: '%s'}}}]}]"):   "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor",
		"apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{name: c, resources: {limits: {a: '%s'}}}]}}}": "spec.template.spec.containers[0].resources.limits.a",
		"apiVersion: v1\nkind: ResourceQuota\nspec: {hard: {pods: '%s'}}":                                                            "spec.hard.pods",
		"apiVersion: v1\nkind: LimitRange\nspec: {limits: [{type: Container, default: {cpu: '%s'}}]}":                                "spec.limits[0].default.cpu",
	} {
		for _, bomb := range []string{"1e-2000000000", "1E2000000000", "1e-10000000", "-1e999", "0." + strings.Repeat("1", 9000), strings.Repeat("9", 9000), "1e-9223372036854775808"} {
			t.Run(field+" "+bomb[:5], func(t *testing.T) {
				done := make(chan error, 1)
				object := parse(t, fmt.Sprintf(text, bomb))
				limits := complete(t, Limits{})
				go func() { done <- limits.Apply(object) }()
				select {
				case err := <-done:
					NewWithT(t).Expect(err).To(MatchError(HavePrefix(field + ": no quantity, or one of too many digits")))
				case <-time.After(5 * time.Second):
					t.Fatalf("%s is still being read after 5 seconds", bomb[:5])
				}
			})
		}
	}
}

func TestWhatIsNoQuantityMayLookLikeOne(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: ConfigMap\ndata: {limits: '1e-2000000000', max: none, hard: work}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {min: 7e12345}, annotations: {capacity: much}}",
		"apiVersion: v1\nkind: LimitRange\nspec: {limits: [{type: Container, max: {cpu: '2', memory: 1Gi}, min: {cpu: 10m}}]}",
		"apiVersion: v1\nkind: Pod\nspec: {nodeSelector: {max: 7e12345}, containers: [{name: c, args: [1e999], env: [{name: A, value: 1e999}], resources: {requests: {cpu: 0.5, memory: 1e3}}}]}",
		"apiVersion: v1\nkind: Service\nspec: {selector: {limits: 1e999}}",
	} {
		NewWithT(t).Expect(complete(t, Limits{}).Apply(parse(t, text))).To(Succeed(), text)
	}
}
