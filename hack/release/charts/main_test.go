package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// Claim: Packaged charts name their images. Broken: the appVersion of the source.
func TestPackagedChartsNameTheImagesOfTheirVersion(t *testing.T) {
	for version, chart := range map[string]string{"v1.2.3": "1.2.3", "0123456789ab-dirty-4f89bb99": "0.1.0-g0123456789ab-dirty-4f89bb99", "v1.2.3-4-g0123456789ab": "1.2.3+4.g0123456789ab"} {
		t.Run(version, func(t *testing.T) {
			g := NewWithT(t)
			to := t.TempDir()
			var out bytes.Buffer
			g.Expect(run([]string{"--from", filepath.Join(root, "charts"), "--out", to, "--version", version}, &out)).To(Succeed())
			for i, o := range all {
				o.packed = filepath.Join(to, o.name+".tgz")
				g.Expect(out.String()).To(ContainSubstring("%s, a copy of hollowfleet-%s-%s.tgz\n", o.packed, o.name, chart))
				g.Expect(filepath.Join(to, "hollowfleet-"+o.name+"-"+chart+".tgz")).To(BeARegularFile())
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

// Claim: The same chart gives the same package. Broken: the times at which helm made it.
func TestPackagesHaveNoTimes(t *testing.T) {
	g, to := NewWithT(t), t.TempDir()
	g.Expect(run([]string{"--from", filepath.Join(root, "charts"), "--out", to, "--version", "v1.2.3"}, io.Discard)).To(Succeed())
	for _, o := range all {
		file, err := os.Open(filepath.Join(to, o.name+".tgz"))
		g.Expect(err).NotTo(HaveOccurred())
		defer file.Close()
		unpacked, err := gzip.NewReader(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(unpacked.ModTime.IsZero()).To(BeTrue(), o.name)
		count := 0
		for reader := tar.NewReader(unpacked); ; count++ {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(header.ModTime.Unix()).To(BeZero(), header.Name)
		}
		g.Expect(count).To(BeNumerically(">", 5), o.name)
	}
}

// An upgrade to images of the same tag would leave the old pods running.
// Claim: Source charts need a tag. Broken: a chart of the source takes any tag. Also: TestPackagedChartsNameTheImagesOfTheirVersion.
func TestTheSourceOfAChartIsRefusedWithoutATag(t *testing.T) {
	for _, o := range all {
		o.images = ""
		_, err := o.render(t, o.values(t, ""))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("install bin/charts/%s.tgz, which make images writes, or set ", o.name)))
	}
}

// A digest names one image, whatever its tag says.
// Claim: The name of an image has what its values say. Broken: registry, tag or digest left out; the tag beside a digest.
func TestTheNameOfAnImage(t *testing.T) {
	for _, c := range []struct {
		chart             one
		image, repository string
	}{
		{hubChart, "image", "hollowfleet/hub"},
		{one{name: "hub", namespace: "hollowfleet-system", needs: "dashboard.enabled=true", images: hubChart.images}, "dashboard.image", "hollowfleet/dashboard"},
		{agentChart, "image", "hollowfleet/agent"},
		{agentChart, "hollowNode.image", "hollowfleet/hollow-node"},
		{one{name: "agent", namespace: "hollowfleet", needs: agentChart.needs + ",simulatedClusters.enabled=true", images: agentChart.images}, "simulatedClusters.image", "hollowfleet/simcluster"},
		{simclusterChart, "simcluster.image", "hollowfleet/simcluster"},
		{simclusterChart, "agent.image", "hollowfleet/agent"},
		{simclusterChart, "hollowNode.image", "hollowfleet/hollow-node"},
	} {
		for set, want := range map[string]string{
			"tag=v9":                         c.repository + ":v9",
			"tag=v9,registry=r.example.com":  "r.example.com/" + c.repository + ":v9",
			"tag=v9,digest=sha256:" + digest: c.repository + "@sha256:" + digest,
			"registry=r.example.com,tag=,digest=sha256:" + digest: "r.example.com/" + c.repository + "@sha256:" + digest,
		} {
			t.Run(c.chart.name+" "+c.image+" "+set, func(t *testing.T) {
				g := NewWithT(t)
				files, err := c.chart.render(t, c.chart.values(t, c.image+"."+strings.ReplaceAll(set, ",", ","+c.image+".")))
				g.Expect(err).NotTo(HaveOccurred())
				var names []string
				for _, text := range files {
					names = append(names, regexp.MustCompile(`[a-z0-9./-]*`+c.repository+`[:@][a-z0-9:]+`).FindAllString(text, -1)...)
				}
				g.Expect(names).To(And(Not(BeEmpty()), HaveEach(want)))
			})
		}
	}
}
