package main

import (
	"bytes"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestPackagedChartsNameTheImagesOfTheirVersion(t *testing.T) {
	for version, chart := range map[string]string{"v1.2.3": "1.2.3", "0123456789ab-dirty": "0.1.0-g0123456789ab-dirty", "v1.2.3-4-g0123456789ab": "1.2.3+4.g0123456789ab"} {
		t.Run(version, func(t *testing.T) {
			g := NewWithT(t)
			to := t.TempDir()
			var out bytes.Buffer
			g.Expect(run([]string{"--from", filepath.Join(root, "charts"), "--out", to, "--version", version}, &out)).To(Succeed())
			files := strings.Fields(out.String())
			g.Expect(files).To(Equal([]string{
				filepath.Join(to, "hollowfleet-hub-"+chart+".tgz"), filepath.Join(to, "hollowfleet-agent-"+chart+".tgz"),
				filepath.Join(to, "hollowfleet-simcluster-"+chart+".tgz"),
			}))
			for i, o := range all {
				o.packed = files[i]
				for _, file := range o.load(t).Files {
					g.Expect(file.Name).NotTo(HavePrefix("ci/"))
				}
				objects := o.objects(t, "")
				g.Expect(objects).To(HaveLen(len(all[i].objects(t, ""))), "nothing is left out")
				for _, container := range containers(workloadOf(t, objects).pod) {
					g.Expect(container.Image).To(MatchRegexp("^hollowfleet/[a-z]+:" + regexp.QuoteMeta(version) + "$"))
				}
			}
		})
	}
	NewWithT(t).Expect(run(nil, io.Discard)).To(MatchError("--version is required"))
}
