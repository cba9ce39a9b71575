package shape

import (
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// ManagedByLabel with the value ManagedBy is on the SimulatedCluster of a rehearsal, so that one which was left can be found.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "kubectl-hollow-rehearse"
	// groupLabel tells the Machines of the groups apart.
	groupLabel = ownDomain + "/group"
	// grace is how much longer than a drain a rollout may be without progress.
	grace = 10 * time.Minute
)

func newCluster(o Options) *v1alpha1.SimulatedCluster {
	return &v1alpha1.SimulatedCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Host, Name: o.Name, Labels: map[string]string{ManagedByLabel: ManagedBy}},
		Spec: v1alpha1.SimulatedClusterSpec{
			ClusterMetadata: v1alpha1.ClusterMetadata{Labels: map[string]string{ownDomain + "/name": o.Name}},
			Versions:        v1alpha1.ControlPlaneVersions{ControlPlane: o.Versions.From},
		},
	}
}

// newMachineDeployment makes the Nodes of a group. isSkewed is that the skew policy does not allow its kubelets at some time: they are
// rehearsed all the same, and reported.
func newMachineDeployment(g *Group, o Options, isSkewed bool) *v1alpha1.MachineDeployment {
	labels := map[string]string{groupLabel: g.Name}
	replicas := int32(g.Nodes)
	deadline := int32((o.DrainTimeout + grace) / time.Second)
	template := v1alpha1.MachineTemplate{
		Metadata: v1alpha1.TemplateMetadata{Labels: labels},
		Spec: v1alpha1.MachineTemplateBody{
			NodeMetadata:   v1alpha1.NodeMetadata{Labels: maps.Clone(g.Labels)},
			Taints:         g.Taints,
			Versions:       v1alpha1.MachineVersions{Kubelet: g.Kubelet},
			Timeouts:       &v1alpha1.MachineTimeouts{Drain: &metav1.Duration{Duration: o.DrainTimeout}},
			ProviderConfig: v1alpha1.ProviderConfig{Provider: v1alpha1.ProviderHollow, Value: &runtime.RawExtension{Raw: nodeConfig(g, o)}},
		},
	}
	if isSkewed {
		template.Metadata.Annotations = map[string]string{v1alpha1.AllowKubeletVersionSkewAnnotation: "true"}
	}
	return &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Name, Name: g.Name},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: o.Name, Replicas: &replicas, Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: template,
			Strategy: o.Strategy, ProgressDeadlineSeconds: &deadline,
		},
	}
}

const (
	defaultPods, leastPods, mostPods = 110, 1, 1000
	readyProbes                      = v1alpha1.HollowProbesRun
)

func nodeConfig(g *Group, o Options) []byte {
	capacity := g.Allocatable.DeepCopy()
	pods := int64(defaultPods)
	if quantity, has := capacity[corev1.ResourcePods]; has {
		pods = min(max(quantity.Value(), leastPods), mostPods)
	}
	delete(capacity, corev1.ResourcePods)
	maxPods := int32(pods)
	config := v1alpha1.HollowNodeConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.HollowNodeConfigKind},
		Capacity: capacity, MaxPods: &maxPods, HollowTaint: v1alpha1.HollowTaintNever, TerminationPercent: &o.TerminationPercent,
	}
	if o.ReadyAfter > 0 {
		config.Probes = readyProbes
	}
	raw, err := json.Marshal(config)
	if err != nil {
		panic(err) // It has plain values only.
	}
	return raw
}
