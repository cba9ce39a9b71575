// Package rollout rolls MachineDeployments of real hollow nodes out, with a real hub and agent.
package rollout

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// fleet is shared by all specs, which keep apart by the names of their MachineDeployments.
var fleet *fleettest.Fleet

func TestRollout(t *testing.T) {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(fleettest.Patience)
	SetDefaultEventuallyPollingInterval(fleettest.Glance)
	RegisterFailHandler(Fail)
	RunSpecs(t, "Rollout")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	fleet = fleettest.Start(ctx, localfleet.Options{Clusters: []string{"c1"}})
}, NodeTimeout(fleettest.StartTimeout))
