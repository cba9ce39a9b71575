package cmdutil_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// Edge case: A stopped hub seemed to work.
// Edge case: No overall status, no hub version. Also: hub/cli TestVersionAndStatusAskTheHub, TestASupportBundleHasObjectsAndNoSecrets; hub TestHubServesHealthAndMetricsAndGivesItsLeaseUp.
func TestStateOfTheHub(t *testing.T) {
	g := NewWithT(t)
	renewed := metav1.NewMicroTime(now.Add(-4 * time.Second))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.VersionLabel: "v0.2.0_dirty"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("hub-1"), RenewTime: &renewed, LeaseDurationSeconds: new(int32(15))},
	}
	g.Expect(cmdutil.StateOfLease(lease, now)).To(Equal(cmdutil.HubState{Version: "v0.2.0+dirty", Holder: "hub-1", Renewed: 4 * time.Second}))
	g.Expect(cmdutil.StateOfLease(lease, now.Add(-20*time.Second)).Problem).To(BeEmpty(), "a clock that is a little behind")
	g.Expect(cmdutil.StateOfLease(lease, now.Add(-time.Minute)).Problem).To(And(ContainSubstring("56s in the future"), ContainSubstring("is unknown")))
	g.Expect(cmdutil.StateOfLease(lease, now.Add(time.Minute)).Problem).To(HavePrefix("the hub hub-1 has not renewed its Lease for 1m4s: "))
	gone := func(after time.Duration) bool { return cmdutil.StateOfLease(lease, renewed.Add(after)).Gone }
	g.Expect(gone(2*time.Minute)).To(BeFalse(), "it may be restarting")
	g.Expect(gone(2*time.Minute + 1)).To(BeTrue())
	g.Expect(gone(-time.Hour)).To(BeFalse(), "one of the clocks is wrong")
	lease.Spec.LeaseDurationSeconds = new(int32(600))
	g.Expect(gone(10*time.Minute)).To(BeFalse(), "its Lease has not expired")
	lease.Labels, lease.Spec.HolderIdentity = nil, new("")
	g.Expect(cmdutil.StateOfLease(lease, now)).To(Equal(cmdutil.HubState{Version: cmdutil.UnknownVersion, Problem: "no hub is running: the last one has stopped: start one"}))
	g.Expect(gone(2*time.Minute)).To(BeFalse(), "the next one is starting")
	g.Expect(gone(2*time.Minute + 1)).To(BeTrue())
	lease.Spec.RenewTime = nil
	g.Expect(cmdutil.StateOfLease(lease, now).Gone).To(BeTrue())
}
