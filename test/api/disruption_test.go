package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// badDisruptions are specs that cannot be carried out, and the field at fault.
var badDisruptions = map[string]string{
	`{faults: [{type: Flap, flap: {notReadyFor: 1s, readyFor: 20s}}], timing: {duration: 1m}}`:                                                                   "notReadyFor",
	`{faults: [{type: Flap, flap: {notReadyFor: 20s, readyFor: "0"}}], timing: {duration: 1m}}`:                                                                  "readyFor",
	`{faults: [{type: Flap, flap: {notReadyFor: 20s, readyFor: 25h}}], timing: {duration: 1m}}`:                                                                  "readyFor",
	`{faults: [{type: NotReady}, {type: Flap, flap: {notReadyFor: 14999ms, readyFor: 15s}}], timing: {duration: 1m}}`:                                            "notReadyFor",
	`{faults: [{type: SlowAPI, slowAPI: {latency: 0s}}], timing: {duration: 1m}}`:                                                                                "latency",
	`{faults: [{type: SlowAPI, slowAPI: {latency: 1s, jitter: 6m}}], timing: {duration: 1m}}`:                                                                    "jitter",
	`{faults: [{type: PodStartDelay, podStartDelay: {delay: 2h}}], timing: {duration: 1m}}`:                                                                      "delay",
	`{faults: [{type: APIErrors, apiErrors: {statusCode: 404}}], timing: {duration: 1m}}`:                                                                        "statusCode",
	`{faults: [{type: Condition, condition: {type: Ready}}], timing: {duration: 1m}}`:                                                                            "condition.type",
	`{faults: [{type: Condition, condition: {type: "Kernel Deadlock"}}], timing: {duration: 1m}}`:                                                                "condition.type",
	`{faults: [{type: Condition, condition: {type: KernelDeadlock, reason: "two words"}}], timing: {duration: 1m}}`:                                              "condition.reason",
	`{faults: [{type: NotReady}], timing: {duration: 1m}, target: {mode: Percent}}`:                                                                              "target.value",
	`{faults: [{type: NotReady}], timing: {duration: 1m}, target: {mode: Percent, value: 0}}`:                                                                    "target.value",
	`{faults: [{type: NotReady}], timing: {duration: 1m}, target: {mode: Percent, value: 101}}`:                                                                  "target.value",
	`{faults: [{type: NotReady}], timing: {duration: 1m}, target: {mode: Fixed}}`:                                                                                "target.value",
	`{faults: [{type: NotReady}], timing: {duration: 1m}, target: {mode: One, value: 2}}`:                                                                        "target.value",
	`{faults: [{type: NotReady}], timing: {duration: 1m}, target: {value: 2}}`:                                                                                   "target.value",
	`{faults: [{type: NotReady}], timing: {duration: 1m, unhealthyFor: 10ms}}`:                                                                                   "unhealthyFor",
	`{faults: [{type: NotReady}], timing: {duration: 1m, repeat: 3}}`:                                                                                            "timing.repeat",
	`{faults: [{type: NotReady}], timing: {duration: 1m, unhealthyFor: 5s, jitter: 3s, healthyFor: 2s}}`:                                                         "timing.jitter",
	`{faults: [{type: NotReady}], timing: {duration: 1m, healthyFor: 59s, jitter: 1s}}`:                                                                          "timing.healthyFor",
	`{faults: [{type: NotReady}], timing: {duration: 20s}, expectations: [{type: PodsEvicted, within: 40s}]}`:                                                    "within",
	`{faults: [{type: NotReady}], timing: {duration: 60s, healthyFor: 30s}, expectations: [{type: PodsEvicted, within: 40s}]}`:                                   "within",
	`{faults: [{type: NotReady}], timing: {duration: 60s, jitter: 30s}, expectations: [{type: MachineReplaced, within: 10s}, {type: PodsEvicted, within: 40s}]}`: "within",
	`{faults: [{type: NotReady}], timing: {duration: 20s}, expectations: [{type: PodsEvicted, within: 0s}]}`:                                                     "within",
}

// goodDisruptions are at the edges of what can be carried out.
var goodDisruptions = []string{
	`{faults: [{type: Flap, flap: {notReadyFor: 15s, readyFor: 24h}}], timing: {duration: 1s}}`,
	`{faults: [{type: SlowAPI, slowAPI: {latency: 1ms, jitter: 5m}}], timing: {duration: 720h}}`,
	`{faults: [{type: APIErrors, apiErrors: {statusCode: 429}}, {type: APIErrors, apiErrors: {statusCode: 599}}], timing: {duration: 1m}}`,
	`{faults: [{type: Condition, condition: {type: example.com/KernelDeadlock, reason: _a1}}], timing: {duration: 1m}}`,
	`{faults: [{type: NotReady}], timing: {duration: 1m}, target: {mode: Percent, value: 100}}`,
	`{faults: [{type: NotReady}], timing: {duration: 1m}, target: {mode: Fixed, value: 1}}`,
	`{faults: [{type: NotReady}], timing: {duration: 1m}, target: {mode: One, value: 0}}`,
	`{faults: [{type: NotReady}], timing: {duration: 1m, unhealthyFor: 5s, jitter: 3s, healthyFor: 2s, repeat: 1}}`,
	`{faults: [{type: NotReady}], timing: {duration: 1m, unhealthyFor: 5s, jitter: 3s, healthyFor: 3s, repeat: 3}}`,
	`{faults: [{type: NotReady}], timing: {duration: 1m, jitter: 30s, repeat: 1}}`,
	`{faults: [{type: NotReady}], timing: {duration: 60s, healthyFor: 20s}, seed: 0, expectations: [{type: PodsEvicted, within: 40s}]}`,
}

// The API server and the command line refuse the same, before anything exists, and name the same field.
// Claim: Impossible disruptions are refused with remedy. Broken: rules left out of the schema. Also: hub/cli TestADisruptionThatCannotBeMeantIsBadUsage.
func TestDisruptionsThatCannotBeCarriedOutAreRefused(t *testing.T) {
	for text, field := range badDisruptions {
		t.Run(field+" "+text, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(validateDisruption(g, text)).To(MatchError(ContainSubstring(lastOf(field))), "the command line")
			for _, object := range disruptionsOf(g, text) {
				err := testenv.Server().Client.Create(t.Context(), object)
				g.Expect(err).To(MatchError(ContainSubstring(field)), object.GetKind())
				g.Expect(err.Error()).To(MatchRegexp("must be|want|required|shorten it|shorten them|remove|use a fault"), "it says what to do")
			}
		})
	}
	for _, text := range goodDisruptions {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(validateDisruption(g, text)).To(Succeed(), "the command line")
			for _, object := range disruptionsOf(g, text) {
				g.Expect(testenv.Server().Client.Create(t.Context(), object)).To(Succeed(), object.GetKind())
				g.Expect(testenv.Server().Client.Delete(t.Context(), object)).To(Succeed())
			}
		})
	}
}

// Claim: A disruption names its clusters in exactly one way. Broken: the rule is left out of the schema.
func TestADisruptionChoosesClustersInExactlyOneWay(t *testing.T) {
	g := NewWithT(t)
	object := disruptionsOf(g, goodDisruptions[0])[0]
	g.Expect(unstructured.SetNestedMap(object.Object, map[string]any{"namespace": "a", "name": "b"}, "spec", "placementRef")).To(Succeed())
	g.Expect(testenv.Server().Client.Create(t.Context(), object.DeepCopy())).To(MatchError(ContainSubstring("set exactly one of clusterSelector and placementRef")))
	unstructured.RemoveNestedField(object.Object, "spec", "clusterSelector")
	placed := object.DeepCopy()
	g.Expect(testenv.Server().Client.Create(t.Context(), placed)).To(Succeed())
	g.Expect(testenv.Server().Client.Delete(t.Context(), placed)).To(Succeed())
	unstructured.RemoveNestedField(object.Object, "spec", "placementRef")
	g.Expect(testenv.Server().Client.Create(t.Context(), object)).To(MatchError(ContainSubstring("set exactly one of clusterSelector and placementRef")))
}

func lastOf(field string) string { return field[strings.LastIndex(field, ".")+1:] }

func validateDisruption(g *WithT, text string) error {
	disruption := &v1alpha1.Disruption{}
	g.Expect(yaml.Unmarshal([]byte(text), disruption)).To(Succeed())
	return disruption.Validate()
}

// disruptionsOf are the objects that have the spec: on the hub, in a cluster, and in a load test.
func disruptionsOf(g *WithT, text string) []*unstructured.Unstructured {
	spec, err := yaml.YAMLToJSON([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	var objects []*unstructured.Unstructured
	for _, format := range []string{
		`{"kind": "NodeDisruption", "metadata": {"name": "d"}, "spec": %s}`, `{"kind": "NodeDisruptionRun", "metadata": {"name": "d", "namespace": "default"}, "spec": %s}`,
	} {
		object := &unstructured.Unstructured{}
		g.Expect(json.Unmarshal(fmt.Appendf(nil, format, spec), &object.Object)).To(Succeed())
		object.SetAPIVersion(v1alpha1.GroupVersion.String())
		if object.GetKind() == "NodeDisruption" {
			g.Expect(unstructured.SetNestedMap(object.Object, map[string]any{}, "spec", "clusterSelector")).To(Succeed())
		}
		objects = append(objects, object)
	}
	return objects
}
