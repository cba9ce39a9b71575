package autoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// bounds: parseScalingBounds (clusterapi_utils.go).
func bounds(annotations map[string]string) (least, most int, err error) {
	read := func(name string) (int, error) {
		value, found := annotations[group+"/cluster-api-autoscaler-node-group-"+name+"-size"]
		if !found {
			return 0, nil
		}
		return strconv.Atoi(value)
	}
	if least, err = read("min"); err != nil {
		return 0, 0, err
	}
	if most, err = read("max"); err != nil {
		return 0, 0, err
	}
	if least < 0 || most < least {
		return 0, 0, fmt.Errorf("invalid bounds %d and %d", least, most)
	}
	return least, most, nil
}

// targetSize: TargetSize (clusterapi_nodegroup.go).
func (g nodeGroup) targetSize() int64 {
	replicas, found, err := unstructured.NestedInt64(g.Object, "spec", "replicas")
	if err != nil || !found {
		return -1
	}
	return replicas
}

func (a *autoscaler) resource(g nodeGroup) schema.GroupVersionResource {
	if g.GetKind() == "MachineSet" {
		return a.set
	}
	return a.deployment
}

// replicas: Replicas (clusterapi_unstructured.go): GET of the scale subresource.
func (a *autoscaler) replicas(ctx context.Context, g nodeGroup) int {
	GinkgoHelper()
	found, err := a.scales.Scales(a.namespace).Get(ctx, a.resource(g).GroupResource(), g.GetName(), metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return int(found.Spec.Replicas)
}

// setSize: SetSize (clusterapi_unstructured.go): a merge patch of the scale subresource with replicas alone, also 0.
func (a *autoscaler) setSize(ctx context.Context, g nodeGroup, size int) error {
	if size > g.most || size < g.least {
		return fmt.Errorf("size %d is not from %d to %d", size, g.least, g.most)
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"replicas": size}})
	if err != nil {
		return err
	}
	_, err = a.scales.Scales(a.namespace).Patch(ctx, a.resource(g), g.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// increase: IncreaseSize (clusterapi_nodegroup.go).
func (a *autoscaler) increase(ctx context.Context, g nodeGroup, delta int) {
	GinkgoHelper()
	Expect(a.setSize(ctx, g, a.replicas(ctx, g)+delta)).To(Succeed())
}

// decrease: DecreaseTargetSize (clusterapi_nodegroup.go): it gives up what has not come, marks nothing, and never goes
// below the number of Machines that are nodes.
func (a *autoscaler) decrease(ctx context.Context, g nodeGroup, delta int) error {
	size, nodes := a.replicas(ctx, g)-delta, 0
	for _, id := range a.instances(g) {
		if _, made := madeUp(id); !made {
			nodes++
		}
	}
	if size < nodes {
		return fmt.Errorf("size %d is less than %d nodes", size, nodes)
	}
	return a.setSize(ctx, g, size)
}

// deleteNodes: DeleteNodes (clusterapi_nodegroup.go): for each, mark the Machine, then one replica fewer; if that
// fails, take the mark off again.
func (a *autoscaler) deleteNodes(ctx context.Context, g nodeGroup, providerIDs ...string) error {
	GinkgoHelper()
	replicas := a.replicas(ctx, g)
	if replicas-len(providerIDs) < g.least {
		return fmt.Errorf("%d fewer of %d is less than %d", len(providerIDs), replicas, g.least)
	}
	for _, id := range providerIDs {
		if of := a.groupOf(id); of != g.id() {
			return fmt.Errorf("%s is not of %s but of %q", id, g.id(), of)
		}
	}
	for _, id := range providerIDs {
		machine := a.findMachine(id)
		Expect(machine).NotTo(BeNil())
		if machine.GetDeletionTimestamp() != nil {
			continue
		}
		a.mark(ctx, machine.GetName())
		if err := a.setSize(ctx, g, replicas-1); err != nil {
			a.unmark(ctx, machine.GetName())
			return err
		}
		replicas--
	}
	return nil
}

// mark: MarkMachineForDeletion (clusterapi_unstructured.go).
func (a *autoscaler) mark(ctx context.Context, machine string) {
	GinkgoHelper()
	a.annotate(ctx, machine, func(annotations map[string]string) {
		annotations[group+"/delete-machine"] = time.Now().String()
	})
}

// unmark: UnmarkMachineForDeletion (clusterapi_unstructured.go).
func (a *autoscaler) unmark(ctx context.Context, machine string) {
	GinkgoHelper()
	a.annotate(ctx, machine, func(annotations map[string]string) { delete(annotations, group+"/delete-machine") })
}

// annotate is a GET, and a PUT of the whole Machine.
func (a *autoscaler) annotate(ctx context.Context, machine string, change func(map[string]string)) {
	GinkgoHelper()
	machines := a.dynamic.Resource(a.machine).Namespace(a.namespace)
	Eventually(func() error {
		object, err := machines.Get(ctx, machine, metav1.GetOptions{})
		if err != nil {
			return err
		}
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		change(annotations)
		object.SetAnnotations(annotations)
		_, err = machines.Update(ctx, object, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}
