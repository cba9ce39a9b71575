package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
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
			}))
			for i, o := range both {
				o.packed = files[i]
				for _, file := range o.load(t).Files {
					g.Expect(file.Name).NotTo(HavePrefix("ci/"))
				}
				objects := o.objects(t, "")
				g.Expect(objects).To(HaveLen(len(both[i].objects(t, ""))), "nothing is left out")
				container := find[*appsv1.Deployment](t, objects, "").Spec.Template.Spec.Containers[0]
				g.Expect(container.Image).To(Equal("hollowfleet/" + o.name + ":" + version))
			}
		})
	}
	NewWithT(t).Expect(run(nil, io.Discard)).To(MatchError("--version is required"))
}
