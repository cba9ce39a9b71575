package cli_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// manyMachines makes a cluster with a MachineDeployment of a fleet, a MachineSet and so many Machines that are Ready.
func (f *env) manyMachines(cluster, fleet string, count int) error {
	labels := map[string]string{"pool": "workers"}
	status := func(object client.Object, generation int64) error {
		conditions := []metav1.Condition{}
		meta.SetStatusCondition(&conditions, metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, ObservedGeneration: generation})
		switch o := object.(type) {
		case *v1alpha1.Machine:
			o.Status.Phase, o.Status.ObservedGeneration, o.Status.Conditions = v1alpha1.MachineRunning, generation, conditions
			o.Status.NodeRef = &v1alpha1.NodeReference{Kind: "Node", Name: o.Name, UID: "a"}
		case *v1alpha1.Cluster:
			o.Status.Conditions, o.Status.ObservedGeneration = conditions, generation
		}
		return f.Client.Status().Update(f.T.Context(), object)
	}
	ctx := f.T.Context()
	made := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster, Labels: map[string]string{"many": fleet}}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: fleet, Labels: map[string]string{v1alpha1.MachineFleetNameLabel: fleet}},
		Spec:       v1alpha1.MachineDeploymentSpec{ClusterName: cluster, Replicas: new(int32(count)), Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels)},
	}
	for _, object := range []client.Object{made, namespace, deployment} {
		if err := f.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	set := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster, Name: fleet + "-1", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, v1alpha1.GroupVersion.WithKind("MachineDeployment"))},
		},
		Spec: v1alpha1.MachineSetSpec{ClusterName: cluster, Replicas: new(int32(count)), Selector: deployment.Spec.Selector, Template: deployment.Spec.Template},
	}
	if err := f.Client.Create(ctx, set); err != nil {
		return err
	}
	for i := range count {
		machine := &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: cluster, Name: fmt.Sprintf("%s-1-%d", fleet, i), Labels: labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
			},
			Spec: v1alpha1.MachineSpec{ClusterName: cluster, MachineTemplateBody: deployment.Spec.Template.Spec},
		}
		if err := f.Client.Create(ctx, machine); err != nil {
			return err
		}
		if err := status(machine, machine.Generation); err != nil {
			return err
		}
	}
	return status(made, made.Generation)
}

// Two hundred clusters with fifty Machines each are at most three pages of each kind. How long that takes is printed.
func TestStatusAndTreeOfTwoHundredClusters(t *testing.T) {
	testenv.Long(t)
	f := newEnv(t)
	f.emptyHub()
	const clusters, machines = 200, 50
	made, _ := errgroup.WithContext(t.Context())
	made.SetLimit(16)
	for i := range clusters {
		made.Go(func() error { return f.manyMachines(fmt.Sprintf("%s-%d", f.name, i), f.name, machines) })
	}
	f.Expect(made.Wait()).To(Succeed())
	for _, command := range []string{"status", "fleet tree machinedeployment/NAME -n NAME-7", "fleet tree cluster/NAME-7"} {
		address, lists := countingProxy(t)
		started := time.Now()
		r := f.hollow(command + " --server " + address)
		t.Logf("%s: exit code %d after %s, lists %v", command, r.code, time.Since(started), lists())
		f.Expect(lists()).To(HaveEach(BeNumerically("<=", 3)))
	}
	f.Expect(f.hollow("status").out).To(MatchRegexp(fmt.Sprintf(`(?m)^Machine: +%d: `, clusters*machines)))
}
