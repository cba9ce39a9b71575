// Package preset has the loads that the hub knows by name, for the hub and for the command line.
package preset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// The names of presets.
const (
	PodStartup = "pod-startup"
	NodeChurn  = "node-churn"
	APIMix     = "api-mix"
	Density    = "density"
)

const (
	// mostReplicas are the objects that a phase makes in a namespace.
	mostReplicas = 10_000
	// setupTime is how long a preset's pods may take to start and to go, beside the time of the requests.
	setupTime = 10 * time.Minute
)

// preset is one load that the hub knows.
type preset struct {
	defaults v1alpha1.LoadPreset
	steps    func(preset *v1alpha1.LoadPreset, perNamespace int32) []v1alpha1.LoadStep
	// templates are those of the steps; a preset that has pods needs Nodes for them.
	templates []v1alpha1.LoadTemplate
	// disruption is nil for a preset in which no Node fails.
	disruption func(preset *v1alpha1.LoadPreset, nodes int32) *v1alpha1.Disruption
}

// presets are small enough for a machine of two cores.
var presets = map[string]preset{
	PodStartup: {
		defaults: presetDefaults(20, 0, 5, 0, podReadyIn(5*time.Second)), templates: []v1alpha1.LoadTemplate{podTemplate}, steps: startAndStop,
	},
	NodeChurn: {
		defaults: presetDefaults(20, 0, 5, 2*time.Minute, v1alpha1.LoadThreshold{
			Measurement: v1alpha1.LoadNodeReady, Quantile: v1alpha1.LoadP99, Max: &metav1.Duration{Duration: time.Minute},
		}),
		templates: []v1alpha1.LoadTemplate{podTemplate}, steps: startHoldAndStop, disruption: rebootAgainAndAgain,
	},
	APIMix: {
		defaults:  presetDefaults(20, 0, 16, 30*time.Second),
		templates: []v1alpha1.LoadTemplate{podTemplate, configMapTemplate, secretTemplate}, steps: mixedSteps,
	},
	Density: {
		defaults: presetDefaults(0, 10, 5, time.Minute, podReadyIn(5*time.Second)), templates: []v1alpha1.LoadTemplate{podTemplate}, steps: startHoldAndStop,
	},
}

// The objects of presets. Their pods fit the Pod Security Standard restricted, run on hollow Nodes only, and request nothing: the scheduler spreads such pods. Those that request
// little of processors and less of memory than a Node has in proportion, such as 1m and 1Mi, it puts on one Node, 80 of 100 on one of 20, to
// keep the others in balance, and what is measured is then how that one keeps up.
var (
	podTemplate = v1alpha1.LoadTemplate{Name: "pod", Object: `apiVersion: v1
kind: Pod
spec:
  nodeSelector: {"` + v1alpha1.HollowNodeLabel + `": "true"}
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: main
    image: pause
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`}
	configMapTemplate = v1alpha1.LoadTemplate{Name: "configmap", Object: `apiVersion: v1
kind: ConfigMap
data: {text: "{{.Name}} is {{.Index}} of {{.Run}}"}
`}
	secretTemplate = v1alpha1.LoadTemplate{Name: "secret", Object: `apiVersion: v1
kind: Secret
stringData: {text: "{{.Name}} is {{.Index}} of {{.Run}}"}
`}
)

// presetDefaults of a preset. To its thresholds come those of all of them.
func presetDefaults(pods, podsPerNode, qps int32, duration time.Duration, thresholds ...v1alpha1.LoadThreshold) v1alpha1.LoadPreset {
	return v1alpha1.LoadPreset{
		Pods: pods, PodsPerNode: podsPerNode, Namespaces: 1, QPS: qps, Duration: &metav1.Duration{Duration: duration},
		Thresholds: append(thresholds,
			v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadAPIRequest, Quantile: v1alpha1.LoadP99, Max: &metav1.Duration{Duration: time.Second}},
			v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors, Quantile: v1alpha1.LoadP99, MaxPercent: new(int32(0))}),
	}
}

func podReadyIn(most time.Duration) v1alpha1.LoadThreshold {
	return v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP99, Max: &metav1.Duration{Duration: most}}
}

// Names are the names of all presets.
func Names() []string { return slices.Sorted(maps.Keys(presets)) }

// Expand makes the load of a preset for a cluster with so many hollow Nodes that are Ready, and what Nodes fail of it; nil for
// none.
func Expand(wanted *v1alpha1.LoadPreset, nodes int32) (v1alpha1.Load, *v1alpha1.Disruption, error) {
	known, set, err := fillPreset(wanted)
	if err != nil {
		return v1alpha1.Load{}, nil, err
	}
	if nodes < 1 {
		return v1alpha1.Load{}, nil, fmt.Errorf("the pods of preset %s run on hollow Nodes only, and none is Ready: create Machines there", wanted.Name)
	}
	pods := set.Pods
	if set.PodsPerNode > 0 {
		pods = set.PodsPerNode * nodes
	}
	perNamespace := (pods + set.Namespaces - 1) / set.Namespaces
	if perNamespace > mostReplicas {
		return v1alpha1.Load{}, nil, fmt.Errorf("%d pods in %d namespaces are more than %d in one: set preset.namespaces higher", pods, set.Namespaces, mostReplicas)
	}
	load := v1alpha1.Load{
		Namespaces: set.Namespaces, Templates: known.templates, Steps: known.steps(set, perNamespace),
		Timeout:    metav1.Duration{Duration: min(setupTime+set.Duration.Duration+2*requestTime(set.QPS, pods), 24*time.Hour)},
		Thresholds: set.Thresholds, CleanupPolicy: set.CleanupPolicy, Seed: set.Seed,
	}
	if known.disruption == nil {
		return load, nil, nil
	}
	return load, known.disruption(set, nodes), nil
}

// Check reports what keeps a preset from being used, by its field.
func Check(wanted *v1alpha1.LoadPreset) error {
	_, _, err := fillPreset(wanted)
	return err
}

// HasDisruption reports whether Nodes fail in the preset of that name.
func HasDisruption(name string) bool { return presets[name].disruption != nil }

// Thresholds are those of a preset with its defaults; nil for one that cannot be used.
func Thresholds(wanted *v1alpha1.LoadPreset) []v1alpha1.LoadThreshold {
	_, set, err := fillPreset(wanted)
	if err != nil {
		return nil
	}
	return set.Thresholds
}

// fillPreset finds a preset, and gives what is not set its defaults.
func fillPreset(wanted *v1alpha1.LoadPreset) (preset, *v1alpha1.LoadPreset, error) {
	known, is := presets[wanted.Name]
	if !is {
		return preset{}, nil, fmt.Errorf("unknown preset %q: want one of %s", wanted.Name, strings.Join(Names(), ", "))
	}
	if wanted.Pods > 0 && wanted.PodsPerNode > 0 {
		return preset{}, nil, fmt.Errorf("preset.pods and preset.podsPerNode: set one of them")
	}
	set := wanted.DeepCopy()
	if set.Pods == 0 && set.PodsPerNode == 0 {
		set.Pods, set.PodsPerNode = known.defaults.Pods, known.defaults.PodsPerNode
	}
	if set.Namespaces == 0 {
		set.Namespaces = known.defaults.Namespaces
	}
	if set.QPS == 0 {
		set.QPS = known.defaults.QPS
	}
	if set.Duration == nil {
		set.Duration = known.defaults.Duration
	}
	if set.Thresholds == nil {
		set.Thresholds = known.defaults.DeepCopy().Thresholds
	}
	return known, set, nil
}

// requestTime is how long so many requests take.
func requestTime(qps, requests int32) time.Duration {
	return time.Duration(requests) * time.Second / time.Duration(qps)
}

func steadyTuning(qps int32) v1alpha1.LoadTuning {
	return v1alpha1.LoadTuning{Type: v1alpha1.LoadSteady, QPS: qps, Burst: 1}
}

func newStep(name string, phases ...v1alpha1.LoadPhase) v1alpha1.LoadStep {
	return v1alpha1.LoadStep{Name: name, Iterations: 1, Phases: phases}
}

func createPhase(template string, replicas, qps int32, wait v1alpha1.LoadWaitFor) v1alpha1.LoadPhase {
	return v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Template: template, Replicas: replicas, Tuning: steadyTuning(qps), Wait: wait}
}

func deletePhase(template string, qps int32) v1alpha1.LoadPhase {
	return v1alpha1.LoadPhase{Action: v1alpha1.LoadDelete, Template: template, Tuning: steadyTuning(qps), Wait: v1alpha1.LoadWaitGone}
}

func startAndStop(set *v1alpha1.LoadPreset, perNamespace int32) []v1alpha1.LoadStep {
	return []v1alpha1.LoadStep{
		newStep("create", createPhase("pod", perNamespace, set.QPS, v1alpha1.LoadWaitReady)),
		newStep("delete", deletePhase("pod", set.QPS)),
	}
}

func startHoldAndStop(set *v1alpha1.LoadPreset, perNamespace int32) []v1alpha1.LoadStep {
	hold := newStep("hold", v1alpha1.LoadPhase{Action: v1alpha1.LoadWait, Duration: set.Duration, Wait: v1alpha1.LoadWaitNone})
	return slices.Insert(startAndStop(set, perNamespace), 1, hold)
}

// mixedSteps has requests of all kinds side by side. What is churned is not read one by one: it may be gone by then.
func mixedSteps(set *v1alpha1.LoadPreset, perNamespace int32) []v1alpha1.LoadStep {
	part := max(set.QPS/8, 1)
	phase := func(action v1alpha1.LoadAction, template string) v1alpha1.LoadPhase {
		return v1alpha1.LoadPhase{Action: action, Template: template, Duration: set.Duration, Tuning: steadyTuning(part), Wait: v1alpha1.LoadWaitNone}
	}
	churn := phase(v1alpha1.LoadChurn, "secret")
	churn.ChurnPercent = 10
	third := max(set.QPS/3, 1)
	return []v1alpha1.LoadStep{
		newStep("create", createPhase("pod", perNamespace, third, v1alpha1.LoadWaitReady), createPhase("configmap", perNamespace, third, v1alpha1.LoadWaitNone),
			createPhase("secret", perNamespace, third, v1alpha1.LoadWaitNone)),
		newStep("mix", phase(v1alpha1.LoadGet, "configmap"), phase(v1alpha1.LoadList, "configmap"), phase(v1alpha1.LoadPatch, "configmap"),
			churn, phase(v1alpha1.LoadList, "secret"),
			phase(v1alpha1.LoadGet, "pod"), phase(v1alpha1.LoadList, "pod"), phase(v1alpha1.LoadPatch, "pod")),
		newStep("delete", deletePhase("pod", third), deletePhase("configmap", third), deletePhase("secret", third)),
	}
}

// rebootAgainAndAgain lets a quarter of the Nodes, and at least one, reboot every half minute, from the beginning of the load on.
func rebootAgainAndAgain(set *v1alpha1.LoadPreset, nodes int32) *v1alpha1.Disruption {
	const part = 4
	lasts := max(set.Duration.Duration, time.Second)
	healthy, away := min(20*time.Second, lasts/2), 10*time.Second
	return &v1alpha1.Disruption{
		// A percentage is rounded down, and a quarter of three Nodes would be none.
		Target: v1alpha1.DisruptionTarget{Mode: disrupt.ModeFixed, Value: max(nodes/part, 1)},
		Faults: []disrupt.Fault{{Type: disrupt.Reboot}},
		Timing: v1alpha1.DisruptionTiming{
			Duration:   metav1.Duration{Duration: lasts},
			HealthyFor: metav1.Duration{Duration: healthy}, UnhealthyFor: metav1.Duration{Duration: away},
		},
		Seed: &set.Seed,
	}
}
