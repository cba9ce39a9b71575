// Package agenttest gives the tests of the agent's packages a real API server, which plays hub, target and host.
package agenttest

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// Wait bounds an Eventually against the API server. It is long, because a machine with much else to do is slow.
const Wait = 2 * time.Minute

var roles = sync.OnceValue(func() error {
	for _, dir := range []string{"rbac/agent-hub", "rbac/agent-workload", "rbac/agent-load-tests", "rbac/agent-csi", "rbac/agent-kwok"} {
		if err := config.Apply(context.Background(), testenv.Server().Client, config.RBAC, dir); err != nil {
			return err
		}
	}
	return nil
})

// Environment returns the package's control plane, with the agent's roles.
func Environment(t *testing.T) *testenv.Environment {
	t.Helper()
	if err := roles(); err != nil {
		t.Fatalf("making the agent's roles: %v", err)
	}
	return testenv.Server()
}

// NewEnv returns an Env of the package's control plane, with the agent's roles.
func NewEnv(t *testing.T) *testenv.Env {
	t.Helper()
	Environment(t)
	return testenv.NewEnv(t)
}

// Namespace makes a namespace of the test's own. It is not removed: the control plane goes as a whole.
func Namespace(t *testing.T, c client.Client) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	if err := c.Create(context.Background(), namespace); err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	return namespace.Name
}

// Machine returns a Machine as a MachineSet would make it, with the agent's finalizer.
func Machine(namespace, name string) *v1alpha1.Machine {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Finalizers: []string{v1alpha1.MachineFinalizer},
	}}
	machine.Spec.ClusterName = namespace
	return machine
}
