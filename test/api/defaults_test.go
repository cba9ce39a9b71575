package api_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

const (
	unknownReady = `conditions: [
  {type: Ready, status: Unknown, reason: Pending, lastTransitionTime: "1970-01-01T00:00:00Z", message: %s},
  {type: Reconciling, status: "True", reason: Pending, lastTransitionTime: "1970-01-01T00:00:00Z", message: %s}]`
	minimalBody = `{clusterName: c, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {providerConfig: {valueRef: {name: x}}}}`
	scaled      = `, deletePolicy: Oldest, remediation: {maxUnhealthy: 40%, maxInFlight: 1}`
)

// unseenDeployment is the status of a MachineDeployment at which no hub has looked.
var unseenDeployment = "status: {" + strings.ReplaceAll(unknownReady, "%s", "The hub has not observed this machine deployment yet") + "}"

// The parts of a MachineFleet: what is written, and what the API server adds to it.
const (
	minimalFleet   = `{clusterSelector: {}, template: {spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {providerConfig: {valueRef: {name: x}}}}}}`
	defaultedFleet = `{removalPolicy: Orphan, rollbackPolicy: None, unreachablePolicy: Hold, clusterSelector: {}, template: {spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {providerConfig: {valueRef: {name: x}}}}` +
		`, deletePolicy: Oldest, remediation: {maxUnhealthy: 40%, maxInFlight: 1}, strategy: {type: RollingUpdate}, progressDeadlineSeconds: 1800, revisionHistoryLimit: 10}}`
	defaultedConfig = `maxFailures: 0, minSuccessTime: "0", progressDeadline: None`
)

// unseenFleet is the status of a MachineFleet at which no hub has looked.
var unseenFleet = "}\nstatus: {" + strings.ReplaceAll(unknownReady, "%s", "The hub has not observed this machine fleet yet") + "}"

// minimalRun is the least that a NodeDisruptionRun says, unseenRun the status of one at which no agent has looked.
const minimalRun = `{faults: [{type: NotReady}], timing: {duration: 1m}}`

var unseenRun = "\nstatus: {phase: Pending, " +
	strings.ReplaceAll(unknownReady, "%s", "The agent has not observed this run yet") + "}"

// The same of a NodeDisruption.
const minimalDisruption = `{clusterSelector: {}, faults: [{type: NotReady}], timing: {duration: 1m}}`

var unseenDisruption = "\nstatus: {phase: Pending, " + strings.ReplaceAll(unknownReady, "%s", "The hub has not observed this disruption yet") + "}"

// minimalLoad is the least that a LoadTestRun says, defaultedLoad what the API server makes of it.
const (
	minimalLoad   = `{steps: [{name: a, phases: [{action: Wait, duration: 1s}]}]}`
	defaultedLoad = `namespaces: 1, steps: [{name: a, iterations: 1, phases: [{action: Wait, duration: 1s, tuning: {type: Steady, qps: 5, burst: 1}, wait: None}]}], timeout: 15m, cleanupPolicy: Delete`
)

var unseenLoadRun = "\nstatus: {phase: Pending, " + strings.ReplaceAll(unknownReady, "%s", "The agent has not observed this run yet") + "}"

// What happened to a threshold, in the status of both kinds.
const (
	thresholdResult = "\nstatus: {thresholds: [{measurement: PodReady, max: 5s, met: false, count: 0}]}"
	defaultedResult = "\nstatus: {thresholds: [{measurement: PodReady, scope: EachCluster, quantile: P99, max: 5s, met: false, count: 0}]}"
)

// The same of a LoadTest.
const minimalLoadTest = `{clusterSelector: {}, load: ` + minimalLoad + `}`

var unseenLoadTest = "\nstatus: {phase: Pending, " + strings.ReplaceAll(unknownReady, "%s", "The hub has not observed this load test yet") + "}"

// defaultedSet is what the API server makes of a SimulatedClusterSet, up to its strategy, and unseenSet the status of one at which no hub
// has looked.
const defaultedSet = `hostSelector: {}, replicas: 1, template: {spec: {}}, rollout: {unreachablePolicy: Hold`

var unseenSet = "\nstatus: {" + strings.ReplaceAll(unknownReady, "%s", "The hub has not observed this simulated cluster set yet") + "}"

// What is left open is filled in, and nothing else: no cluster joins by itself, not known is not False, and there is no
// empty reference, which would count as a Node.
// Claim: Defaults, all of them. Broken: acceptance defaults to Accepted; trigger to Manual; a default more.
func TestDefaults(t *testing.T) {
	defaulted := map[string]map[string]bool{}
	for name, test := range map[string]struct{ kind, spec, want string }{
		"cluster": {"Cluster", "", `
spec: {acceptance: Pending, acceptancePolicy: Manual, credential: Certificate}
status: {` + strings.ReplaceAll(unknownReady, "%s", "The hub has not observed this cluster yet") + `}`},
		"class": {"MachineClass", `{provider: hollow}`, `
spec: {provider: hollow, drainPolicy: Drain}`},
		"class-secret": {"MachineClass", `{provider: hollow, secretRef: {}}`, `
spec: {provider: hollow, drainPolicy: Drain, secretRef: {name: ""}}`},
		"machine": {"Machine", `{clusterName: c, providerConfig: {valueRef: {name: x}}}`, `
spec: {clusterName: c, providerConfig: {valueRef: {name: x}}}
status: {phase: Pending, ` + strings.ReplaceAll(unknownReady, "%s", "The agent has not reported on this machine yet") + `}`},
		"set": {"MachineSet", minimalBody + "}", `
spec: ` + minimalBody + scaled + "}\nstatus: {" + strings.ReplaceAll(unknownReady, "%s", "The hub has not observed this machine set yet") + "}"},
		"deployment": {"MachineDeployment", minimalBody + "}", `
spec: ` + minimalBody + scaled + `, strategy: {type: RollingUpdate}, progressDeadlineSeconds: 1800, revisionHistoryLimit: 10}
` + unseenDeployment},
		"strategy": {"MachineDeployment", minimalBody + ", strategy: {}}", `
spec: ` + minimalBody + scaled + `, strategy: {type: RollingUpdate}, progressDeadlineSeconds: 1800, revisionHistoryLimit: 10}
` + unseenDeployment},
		"in-place": {"MachineDeployment", minimalBody + ", strategy: {type: InPlace, inPlace: {}}}", `
spec: ` + minimalBody + scaled + `, strategy: {type: InPlace, inPlace: {trigger: Auto}}, progressDeadlineSeconds: 1800, revisionHistoryLimit: 10}
` + unseenDeployment},
		"fleet": {"MachineFleet", minimalFleet + "}", `
spec: ` + defaultedFleet + `, rolloutStrategy: {type: All}` + unseenFleet},
		"fleet-health": {"MachineFleet", minimalFleet + ", healthConditions: [{type: A}]}", `
spec: ` + defaultedFleet + `, healthConditions: [{type: A, status: "True"}], rolloutStrategy: {type: All}` + unseenFleet},
		"fleet-all": {"MachineFleet", minimalFleet + ", rolloutStrategy: {all: {}}}", `
spec: ` + defaultedFleet + `, rolloutStrategy: {type: All, all: {` + defaultedConfig + `}}` + unseenFleet},
		"fleet-progressive": {"MachineFleet", minimalFleet + ", rolloutStrategy: {type: Progressive, progressive: {}}}", `
spec: ` + defaultedFleet + `, rolloutStrategy: {type: Progressive, progressive: {` + defaultedConfig + `}}` + unseenFleet},
		"fleet-groups": {"MachineFleet", minimalFleet + ", rolloutStrategy: {type: ProgressivePerGroup, progressivePerGroup: {}}}", `
spec: ` + defaultedFleet + `, rolloutStrategy: {type: ProgressivePerGroup, progressivePerGroup: {` + defaultedConfig + `}}` + unseenFleet},
		"fleet-in-place": {"MachineFleet", strings.ReplaceAll(minimalFleet, "template: {spec: {selector", "template: {spec: {strategy: {type: InPlace, inPlace: {}}, selector") + "}", `
spec: ` + strings.ReplaceAll(defaultedFleet, "type: RollingUpdate", "type: InPlace, inPlace: {trigger: Auto}") + `, rolloutStrategy: {type: All}` + unseenFleet},
		"disruption": {"NodeDisruption", minimalDisruption, `
spec: {clusterSelector: {}, target: {mode: All}, faults: [{type: NotReady}], timing: {duration: 1m}}` + unseenDisruption},
		"disruption-expectation": {"NodeDisruption", minimalDisruption[:len(minimalDisruption)-1] + `, expectations: [{type: Condition, condition: {type: Ready}, within: 30s}]}`, `
spec: {clusterSelector: {}, target: {mode: All}, faults: [{type: NotReady}], timing: {duration: 1m}, expectations: [{type: Condition, condition: {type: Ready, status: "True"}, within: 30s}]}` + unseenDisruption},
		"run": {"NodeDisruptionRun", minimalRun, `
spec: {target: {mode: All}, faults: [{type: NotReady}], timing: {duration: 1m}}` + unseenRun},
		"run-expectation": {"NodeDisruptionRun", minimalRun[:len(minimalRun)-1] + `, expectations: [{type: Condition, condition: {type: Ready}, within: 30s}]}`, `
spec: {target: {mode: All}, faults: [{type: NotReady}], timing: {duration: 1m}, expectations: [{type: Condition, condition: {type: Ready, status: "True"}, within: 30s}]}` + unseenRun},
		"load-run": {"LoadTestRun", minimalLoad, `
spec: {` + defaultedLoad + `, withStartTime: false}` + unseenLoadRun},
		"load-run-thresholds": {"LoadTestRun", minimalLoad[:len(minimalLoad)-1] + `, thresholds: [{measurement: PodReady, max: 5s}]}`, `
spec: {` + defaultedLoad + `, withStartTime: false, thresholds: [{measurement: PodReady, scope: EachCluster, quantile: P99, max: 5s}]}` + unseenLoadRun},
		"load-test": {"LoadTest", minimalLoadTest, `
spec: {clusterSelector: {}, load: {` + defaultedLoad + `}, prepareTimeout: 1m}` + unseenLoadTest},
		"load-test-thresholds": {"LoadTest", `{clusterSelector: {}, load: ` + minimalLoad[:len(minimalLoad)-1] + `, thresholds: [{measurement: PodReady, max: 5s}]}}`, `
spec: {clusterSelector: {}, load: {` + defaultedLoad + `, thresholds: [{measurement: PodReady, scope: EachCluster, quantile: P99, max: 5s}]}, prepareTimeout: 1m}` + unseenLoadTest},
		"load-run-result": {"LoadTestRun", minimalLoad + thresholdResult, `
spec: {` + defaultedLoad + `, withStartTime: false}` + defaultedResult},
		"load-test-result": {"LoadTest", minimalLoadTest + thresholdResult, `
spec: {clusterSelector: {}, load: {` + defaultedLoad + `}, prepareTimeout: 1m}` + defaultedResult},
		"load-test-preset": {"LoadTest", `{clusterSelector: {}, preset: {name: density, thresholds: [{measurement: PodReady, max: 5s}]},
  disruption: {faults: [{type: NotReady}], timing: {duration: 1m}, expectations: [{type: Condition, condition: {type: Ready}, within: 30s}]}}`, `
spec:
  clusterSelector: {}
  preset: {name: density, thresholds: [{measurement: PodReady, scope: EachCluster, quantile: P99, max: 5s}], cleanupPolicy: Delete}
  disruption: {target: {mode: All}, faults: [{type: NotReady}], timing: {duration: 1m}, expectations: [{type: Condition, condition: {type: Ready, status: "True"}, within: 30s}]}
  prepareTimeout: 1m` + unseenLoadTest},
		"simulated": {"SimulatedCluster", "", `
spec: {}
status: {` + strings.ReplaceAll(unknownReady, "%s", "The hub has not observed this simulated cluster yet") + `}`},
		"simulated-class": {"SimulatedCluster", `{machineClasses: [{name: small, spec: {provider: hollow, secretRef: {}}}]}`, `
spec: {machineClasses: [{name: small, spec: {provider: hollow, drainPolicy: Drain, secretRef: {name: ""}}}]}
status: {` + strings.ReplaceAll(unknownReady, "%s", "The hub has not observed this simulated cluster yet") + `}`},
		"simulated-set-class": {"SimulatedClusterSet", `{hostSelector: {}, template: {spec: {machineClasses: [{name: small, spec: {provider: hollow, secretRef: {}}}]}}, rollout: {rolloutStrategy: {all: {}}}}`, `
spec: {` + strings.Replace(defaultedSet, "template: {spec: {}}", `template: {spec: {machineClasses: [{name: small, spec: {provider: hollow, drainPolicy: Drain, secretRef: {name: ""}}}]}}`, 1) + `, rolloutStrategy: {type: All, all: {` + defaultedConfig + `}}}}` + unseenSet},
		"simulated-set": {"SimulatedClusterSet", `{hostSelector: {}}`, `
spec: {` + defaultedSet + `, rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 0, minSuccessTime: "0", progressDeadline: 10m}}}}` + unseenSet},
		"simulated-set-all": {"SimulatedClusterSet", `{hostSelector: {}, rollout: {rolloutStrategy: {all: {}}}}`, `
spec: {` + defaultedSet + `, rolloutStrategy: {type: All, all: {` + defaultedConfig + `}}}}` + unseenSet},
		"simulated-set-progressive": {"SimulatedClusterSet", `{hostSelector: {}, rollout: {rolloutStrategy: {type: Progressive, progressive: {}}}}`, `
spec: {` + defaultedSet + `, rolloutStrategy: {type: Progressive, progressive: {` + defaultedConfig + `}}}}` + unseenSet},
		"simulated-set-groups": {"SimulatedClusterSet", `{hostSelector: {}, rollout: {rolloutStrategy: {type: ProgressivePerGroup, progressivePerGroup: {}}}}`, `
spec: {` + defaultedSet + `, rolloutStrategy: {type: ProgressivePerGroup, progressivePerGroup: {` + defaultedConfig + `}}}}` + unseenSet},
		"log-request": {"MachineLogRequest", `{machineName: a}`, `
spec: {machineName: a, tailLines: 100}
status: {phase: Pending}`},
		"approval": {"FleetApproval", `{fleet: a, fleetUID: b, revision: c, rollout: 1, group: d, approver: e}`, `
spec: {kind: MachineFleet, fleet: a, fleetUID: b, revision: c, rollout: 1, group: d, approver: e}`},
	} {
		header := "apiVersion: " + v1alpha1.GroupVersion.String() + "\nkind: " + test.kind + "\nmetadata: {name: defaults-" + name
		if test.kind != "Cluster" && test.kind != "MachineFleet" && test.kind != "NodeDisruption" && test.kind != "LoadTest" && test.kind != "SimulatedClusterSet" && test.kind != "FleetApproval" {
			header += ", namespace: default"
		}
		header += "}\n"
		written := header
		if test.spec != "" {
			written += "spec: " + test.spec
		}
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			want, err := yaml.YAMLToJSON([]byte(test.want))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(content(t, store(t, parse(t, []byte(written))))).To(MatchJSON(want))
		})
		if defaulted[test.kind] == nil {
			defaulted[test.kind] = map[string]bool{}
		}
		pathsOf(parse(t, []byte(header+test.want)).Object, "", defaulted[test.kind])
	}

	for resource := range kinds {
		t.Run("every default of "+resource, func(t *testing.T) {
			g := NewWithT(t)
			kind, paths := defaultsOf(t, resource)
			for _, path := range slices.Sorted(maps.Keys(paths)) {
				g.Expect(defaulted[kind]).To(HaveKey(path), "the schema has a default that no object here shows")
			}
		})
	}
}

// defaultsOf returns a kind and the paths of the fields to which its schema gives a value.
func defaultsOf(t *testing.T, resource string) (string, map[string]bool) {
	t.Helper()
	g := NewWithT(t)
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	g.Expect(testenv.Server().Client.Get(t.Context(), client.ObjectKey{Name: resource + "." + v1alpha1.GroupVersion.Group}, definition)).To(Succeed())
	kind, _, err := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	g.Expect(err).NotTo(HaveOccurred())
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(versions).To(HaveLen(1))
	schema, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(BeTrue())
	paths := map[string]bool{}
	defaultsIn(schema, "", paths)
	return kind, paths
}

func defaultsIn(schema map[string]any, path string, into map[string]bool) {
	if _, has := schema["default"]; has {
		into[path] = true
	}
	if items, is := schema["items"].(map[string]any); is {
		defaultsIn(items, path+"[]", into)
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		defaultsIn(property.(map[string]any), path+"."+name, into)
	}
}
