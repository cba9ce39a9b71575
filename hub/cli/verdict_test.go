package cli

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
)

// What was read while this process was stopped, or starved, is old: nobody knows how the fleet is now.
func TestALookThatTookTooLongIsNoProof(t *testing.T) {
	g := NewWithT(t)
	healthy := &overview.Fleet{Report: health.Report{Counts: []health.Count{{Kind: health.Cluster, Total: 1, Healthy: 1}}}}
	g.Expect(healthy.VerdictError()).To(Succeed())
	late := *healthy
	late.Took = time.Hour
	g.Expect(late.VerdictError()).To(MatchError(ContainSubstring("reading took 1h0m0s: run it again")))
	g.Expect(cmdutil.Code(late.VerdictError())).To(Equal(cmdutil.Failed))
	g.Expect(newStatusDocument(&late).Healthy).To(BeFalse())
	g.Expect(newStatusDocument(&late).Problem).To(ContainSubstring("run it again"))
}
