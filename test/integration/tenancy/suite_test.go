// Package tenancy lets the identities of workload clusters try, on a real hub, everything that is not theirs.
package tenancy

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

func TestTenancy(t *testing.T) {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(fleettest.Patience)
	SetDefaultEventuallyPollingInterval(fleettest.Glance)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RegisterFailHandler(Fail)
	RunSpecs(t, "Tenancy")
}

// hub is shared by all specs, which keep apart by the names of their clusters.
var hub *testHub

var _ = BeforeSuite(func(ctx SpecContext) {
	hub = startHub(ctx)
	hub.settle(ctx)
}, NodeTimeout(fleettest.StartTimeout))
