package local

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// Claim: A low open-files limit is refused. Broken: any limit is enough.
func TestALowLimitOfOpenFilesIsNamedBeforeAnythingStarts(t *testing.T) {
	g := NewWithT(t)
	err := refuseOpenFiles(64)
	g.Expect(err).To(MatchError(And(ContainSubstring("64 files here (ulimit -n)"), ContainSubstring("ulimit -n 1024"))))
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Refused))
	g.Expect(refuseOpenFiles(1024)).To(Succeed())
	g.Expect(checkOpenFiles()).To(Succeed())
}
