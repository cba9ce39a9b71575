package cli

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
)

// What was read while this process was stopped, or starved, is old: nobody knows how the fleet is now.
func TestALookThatTookTooLongIsNoProof(t *testing.T) {
	g := NewWithT(t)
	healthy := fleet{report: health.Report{Counts: []health.Count{{Kind: health.Cluster, Total: 1, Healthy: 1}}}}
	g.Expect(healthy.verdictError()).To(Succeed())
	late := healthy
	late.took = time.Hour
	g.Expect(late.verdictError()).To(MatchError(ContainSubstring("reading took 1h0m0s: run it again")))
	g.Expect(cmdutil.Code(late.verdictError())).To(Equal(cmdutil.Failed))
	g.Expect(late.newDocument().Healthy).To(BeFalse())
	g.Expect(late.newDocument().Problem).To(ContainSubstring("run it again"))
}
