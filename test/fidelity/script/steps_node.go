package script

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

func nodeSteps() []*Step {
	return []*Step{
		{
			Name: "node", Row: rowStatus, Verdict: Adjustable, Alone: true, Run: describeNode,
			Declared: []Declared{
				{Figure: "addresses", Because: "the kubelet of a local fleet listens at a loopback address, its InternalDNS"},
				{Figure: "annotations", Because: "those of its Machine; and a local fleet has no controller for the ttl of caches"},
				{Figure: "labels", Because: "those of its Machine and of its code"},
				{Figure: "capacity of", Because: "what the MachineClass says"},
				{Figure: "allocatable of", Because: "what the MachineClass says"},
				{Figure: "runtime handlers", Because: "the default alone"},
			},
		},
		{
			Name: "lease", Row: rowStatus, Verdict: Adjustable, Run: observeLease,
			Declared:   []Declared{{Figure: "managed fields", Because: "they are most of a Lease, and say nothing"}},
			Tolerances: map[string]Tolerance{"renewed every": {Absolute: 2 * time.Second}},
		},
		{
			Name: "allocatable", Row: rowAllocatable, Verdict: Adjustable, Run: compareAllocatable,
			Declared: []Declared{{Figure: "hugepages-2Mi reserved", Because: "what the MachineClass says"}},
		},
		{
			Name: "csinode", Row: rowCSINode, Verdict: Adjustable, Run: findCSINode,
			Declared: []Declared{{Figure: "CSINode", Because: "the MachineClass has no csiDrivers"}},
		},
		{
			Name: "version", Row: rowVersion, Verdict: Adjustable, Run: describeVersion,
			Declared: []Declared{{Figure: "runtime", Because: "it runs nothing, and says so"}},
		},
	}
}

// kubeletLate is a condition that a hollow node has while this machine is too busy for it: then times say nothing.
const kubeletLate = "KubeletLate"

// describeNode writes down the Node as the API server shows it.
func describeNode(ctx context.Context, side *Side, r *Record) error {
	node, err := side.node(ctx)
	if err != nil {
		return err
	}
	var conditions, addresses []string
	for _, c := range node.Status.Conditions {
		if c.Type == kubeletLate {
			continue
		}
		conditions = append(conditions, fmt.Sprintf("%s=%s %s (%s)", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, address := range node.Status.Addresses {
		addresses = append(addresses, string(address.Type))
	}
	r.fact("conditions", strings.Join(conditions, ", "))
	r.fact("addresses", strings.Join(addresses, ", "))
	r.fact("capacity of", keys(node.Status.Capacity))
	r.fact("allocatable of", keys(node.Status.Allocatable))
	r.fact("labels", keys(node.Labels))
	r.fact("annotations", keys(node.Annotations))
	r.fact("taints", fmt.Sprint(node.Spec.Taints))
	r.fact("port of the kubelet", fmt.Sprint(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
	r.fact("finalizers and owners", fmt.Sprint(node.Finalizers, node.OwnerReferences))
	r.fact("images listed", fmt.Sprint(len(node.Status.Images) > 0))
	var handlers []string
	for _, handler := range node.Status.RuntimeHandlers {
		handlers = append(handlers, fmt.Sprintf("%q", handler.Name))
	}
	r.fact("runtime handlers", strings.Join(handlers, ", "))
	if node.Status.Features != nil {
		r.fact("features", node.Status.Features.String())
	}
	r.fact("declared features", strings.Join(node.Status.DeclaredFeatures, ", "))
	return nil
}

func keys[K ~string, V any](of map[K]V) string {
	var all []string
	for key := range maps.Keys(of) {
		all = append(all, string(key))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// observeLease watches the renewals of the Node's Lease.
func observeLease(ctx context.Context, side *Side, r *Record) error {
	watching, stop := context.WithTimeout(ctx, 45*time.Second)
	defer stop()
	leases, err := side.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Watch(watching, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", side.Node).String(),
	})
	if err != nil {
		return err
	}
	var renewals []time.Time
	for event := range leases.ResultChan() {
		lease, ok := event.Object.(*coordinationv1.Lease)
		if !ok {
			continue
		}
		renewals = append(renewals, lease.Spec.RenewTime.Time)
		r.fact("duration", fmt.Sprint(*lease.Spec.LeaseDurationSeconds))
		r.fact("holder is the node", fmt.Sprint(*lease.Spec.HolderIdentity == side.Node))
		r.fact("owner", lease.OwnerReferences[0].Kind)
		r.fact("managed fields", fmt.Sprint(len(lease.ManagedFields) > 0))
	}
	if len(renewals) < 3 {
		return fmt.Errorf("the Lease was renewed %d times in 45 s", len(renewals))
	}
	r.took("renewed every", renewals[len(renewals)-1].Sub(renewals[0])/time.Duration(len(renewals)-1))
	return nil
}

// compareAllocatable says what of the capacity is kept from pods.
func compareAllocatable(ctx context.Context, side *Side, r *Record) error {
	node, err := side.node(ctx)
	if err != nil {
		return err
	}
	for name, capacity := range node.Status.Capacity {
		allocatable := node.Status.Allocatable[name]
		capacity.Sub(allocatable)
		r.fact(string(name)+" reserved", capacity.String())
	}
	return nil
}

func describeVersion(ctx context.Context, side *Side, r *Record) error {
	node, err := side.node(ctx)
	if err != nil {
		return err
	}
	version, err := side.Client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	info := node.Status.NodeInfo
	r.fact("kubelet", info.KubeletVersion)
	r.fact("control plane", version.GitVersion)
	r.fact("system", info.OperatingSystem+"/"+info.Architecture)
	r.fact("runtime", strings.Split(info.ContainerRuntimeVersion, ":")[0])
	r.fact("all fields", fmt.Sprint(info.KernelVersion != "" && info.OSImage != "" && info.MachineID != "" && info.SystemUUID != "" && info.BootID != ""))
	return nil
}

// findCSINode looks for the object that a kubelet writes for its CSI drivers, also if it has none.
func findCSINode(ctx context.Context, side *Side, r *Record) error {
	found, err := side.Client.StorageV1().CSINodes().Get(ctx, side.Node, metav1.GetOptions{})
	if reason := apierrors.ReasonForError(err); reason != "" {
		r.fact("CSINode", string(reason))
		return nil
	}
	r.fact("CSINode", fmt.Sprint(len(found.Spec.Drivers), " drivers"))
	return err
}
