// Package lifecycle makes, scales, rolls out, drains, updates and removes Machines with a real hub, real agents and real hollow nodes,
// also under workloads that mind.
package lifecycle

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// fleet is shared by all specs, which keep apart by the names of their MachineDeployments.
var fleet *fleettest.Fleet

// firstCluster selects the first of the clusters, where most specs work.
var firstCluster = &metav1.LabelSelector{MatchLabels: map[string]string{"first": "yes"}}

func TestLifecycle(t *testing.T) {
	fleettest.Run(t, "Lifecycle")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	args := startReceiver()
	fleet = fleettest.Start(ctx, localfleet.Options{
		Clusters: []string{"c1", "c2"}, Programs: localfleet.Programs{Isolation: localfleet.IsolationShared, HubInGroup: true, HubArgs: args, AgentArgs: args},
	})
	first := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fleet.Members[0].Name}}
	Expect(fleet.HubClient.Patch(ctx, first, client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"labels":{"first":"yes"}}}`)))).To(Succeed())
}, NodeTimeout(fleettest.StartTimeout))
