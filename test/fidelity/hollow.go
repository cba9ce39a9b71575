package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/fidelity/script"
)

const (
	clusterName = "fidelity"
	subject     = "subject"
	pressed     = "pressed"
	patience    = 3 * time.Minute
)

// hollowNode is the configuration with which a hollow node does what a kubelet with defaults does. Its size is any.
const hollowNode = `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","profile":"Realistic","registration":"Once",
"terminationPercent":0,"hollowTaint":"Never","kubelet":{"enableServer":true}}`

// subjectNode is the configuration of the node of the script, which has the static pod and the devices too.
func subjectNode() ([]byte, error) {
	config := map[string]any{}
	if err := json.Unmarshal([]byte(hollowNode), &config); err != nil {
		return nil, err
	}
	config["staticPods"] = []any{script.StaticPod()}
	config["devices"] = []any{map[string]any{"resource": script.DeviceResource, "count": script.DeviceCount}}
	return json.Marshal(config)
}

// pressedConfiguration is the kubelet's of the node that always has too little memory. test/fidelity/run.sh gives it to the worker of kind.
const pressedConfiguration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
evictionHard: {memory.available: 99.9%}
evictionPressureTransitionPeriod: 0s
`

// startHollow starts a local fleet with two hollow nodes.
func startHollow(ctx context.Context, binDir string) (side *script.Side, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "hollowfleet-fidelity-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a directory for the fleet: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("opening the fleet's directory: %w", err)
	}
	id, err := localfleet.Take(dir, true)
	if err != nil {
		return nil, nil, err
	}
	fleet, err := localfleet.Up(ctx, localfleet.Options{
		Dir: dir, DirID: id, Clusters: []string{clusterName}, Programs: localfleet.Programs{BinDir: binDir, NodesPerPack: 1},
		Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
	})
	if err != nil {
		return nil, nil, err
	}
	keeping, release := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		fleet.Keep(keeping)
	}()
	remove = func() error {
		release()
		<-kept
		return fleet.Down()
	}
	if side, err = makeNodes(ctx, fleet); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return side, remove, nil
}

// makeNodes makes both hollow nodes and waits until they have joined.
func makeNodes(ctx context.Context, fleet *localfleet.Fleet) (*script.Side, error) {
	configs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: clusterName, Name: v1alpha1.KubeletConfigMap}}
	configs.Data = map[string]string{pressed: pressedConfiguration}
	configuration, err := subjectNode()
	if err != nil {
		return nil, err
	}
	objects := []client.Object{
		configs, makeDeployment(subject, nil, configuration), makeDeployment(pressed, &v1alpha1.ConfigSource{Key: pressed}, []byte(hollowNode)),
	}
	for _, object := range objects {
		if err := fleet.HubClient.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	member := fleet.Members[0]
	side, err := sideOf("hollow", member.Cluster.AdminKubeconfig())
	if err != nil {
		return nil, err
	}
	side.Machine = &hollowMachine{hub: fleet.HubClient}
	for pool, name := range map[string]*string{subject: &side.Node, pressed: &side.Pressed} {
		err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
			nodes := &corev1.NodeList{}
			if member.Client.List(ctx, nodes, client.MatchingLabels{"pool": pool}) == nil && len(nodes.Items) == 1 {
				*name = nodes.Items[0].Name
				return isReady(&nodes.Items[0]), nil
			}
			return false, nil // It may not answer at once.
		})
		if err != nil {
			return nil, fmt.Errorf("waiting for the hollow node of %s: %w", pool, err)
		}
	}
	return side, nil
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func makeDeployment(name string, source *v1alpha1.ConfigSource, configuration []byte) *v1alpha1.MachineDeployment {
	labels := map[string]string{"pool": name}
	made := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: clusterName, Name: name}}
	made.Spec.ClusterName, made.Spec.Replicas, made.Spec.Selector.MatchLabels = clusterName, ptr.To[int32](1), labels
	made.Spec.Template.Metadata.Labels = labels
	made.Spec.Template.Spec = v1alpha1.MachineTemplateBody{
		NodeMetadata: v1alpha1.NodeMetadata{Labels: labels}, ConfigSource: source,
		ProviderConfig: v1alpha1.ProviderConfig{Value: &runtime.RawExtension{Raw: configuration}},
	}
	return made
}

// hollowMachine breaks the hollow node with disruptions. It is a script.Machine.
type hollowMachine struct {
	hub  client.Client
	made int
}

// startFault starts a fault, and returns when it started and what ends it.
func (m *hollowMachine) startFault(ctx context.Context, fault disrupt.FaultType) (time.Time, func(context.Context) error, error) {
	timing := v1alpha1.DisruptionTiming{Duration: metav1.Duration{Duration: 10 * time.Minute}}
	return m.createDisruption(ctx, fault, timing, func(run *v1alpha1.NodeDisruptionRun) *metav1.Time {
		if len(run.Status.Nodes) == 0 {
			return nil
		}
		return run.Status.Nodes[0].InjectedAt
	})
}

// createDisruption makes a disruption, and waits until the time is known that is asked for.
func (m *hollowMachine) createDisruption(
	ctx context.Context, fault disrupt.FaultType, timing v1alpha1.DisruptionTiming, timeOf func(*v1alpha1.NodeDisruptionRun) *metav1.Time,
) (at time.Time, mend func(context.Context) error, err error) {
	m.made++
	made := &v1alpha1.NodeDisruption{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("fidelity-%d", m.made)}}
	made.Spec.ClusterSelector = &metav1.LabelSelector{}
	made.Spec.Target.MachineDeployment = subject
	made.Spec.Faults = []disrupt.Fault{{Type: fault}}
	made.Spec.Timing = timing
	if err := m.hub.Create(ctx, made); err != nil {
		return at, nil, fmt.Errorf("creating a disruption: %w", err)
	}
	mend = func(ctx context.Context) error { return m.hub.Delete(ctx, made) }
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		runs := &v1alpha1.NodeDisruptionRunList{}
		// It may not answer at once.
		if m.hub.List(ctx, runs, client.MatchingLabels{v1alpha1.NodeDisruptionNameLabel: made.Name}) == nil && len(runs.Items) > 0 {
			if known := timeOf(&runs.Items[0]); known != nil {
				at = known.Time
			}
		}
		return !at.IsZero(), nil
	})
	if err != nil {
		return at, nil, fmt.Errorf("waiting for fault %s: %w", fault, errors.Join(err, mend(ctx)))
	}
	return at, mend, nil
}

// RestartKubelet has fault RestartKubelet, which is over at once.
func (m *hollowMachine) RestartKubelet(ctx context.Context) (time.Time, error) {
	at, mend, err := m.startFault(ctx, disrupt.RestartKubelet)
	if err != nil {
		return at, err
	}
	return at, mend(ctx)
}

// RestartKubeletIn has it in a window that starts later: a Node that is gone cannot be chosen.
func (m *hollowMachine) RestartKubeletIn(ctx context.Context, after time.Duration) (time.Time, func(context.Context) error, error) {
	timing := v1alpha1.DisruptionTiming{
		Duration:   metav1.Duration{Duration: after + 10*time.Minute},
		HealthyFor: metav1.Duration{Duration: after}, UnhealthyFor: metav1.Duration{Duration: 10 * time.Minute},
	}
	start, mend, err := m.createDisruption(ctx, disrupt.RestartKubelet, timing, func(run *v1alpha1.NodeDisruptionRun) *metav1.Time {
		return run.Status.StartTime
	})
	at := start.Add(after)
	return at, func(ctx context.Context) error {
		if err := sleepUntil(ctx, at.Add(time.Second)); err != nil {
			return err
		}
		return mend(ctx)
	}, err
}

// StopRuntime has fault NotReady.
func (m *hollowMachine) StopRuntime(ctx context.Context) (time.Time, func(context.Context) error, error) {
	return m.startFault(ctx, disrupt.NotReady)
}

// CutOff has fault APIErrors: all requests of the kubelet fail.
func (m *hollowMachine) CutOff(ctx context.Context) (time.Time, func(context.Context) error, error) {
	return m.startFault(ctx, disrupt.APIErrors)
}
