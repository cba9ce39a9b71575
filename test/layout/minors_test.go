package layout_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// Claim: An agent knows which kubelet code its hollow nodes have. Broken: another minor is built in.
// Claim: A hollow node of a minor is built from that minor's own modules. Broken: one staging module stays behind; the adapter of another minor.
func TestMinors(t *testing.T) {
	g := NewWithT(t)
	g.Expect(read(t, "agent/simulator/go.mod")).To(MatchRegexp(`(?m)^\s*k8s\.io/kubernetes v%s\.\d+$`, regexp.QuoteMeta(hollownode.BuiltInMinor)))
	adapters := map[string]string{hollownode.BuiltInMinor: "agent/simulator/go.mod"}
	files, err := filepath.Glob(filepath.Join(root, "agent/simulator/minors/v*.mod"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		adapters[strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "v"), ".mod")] = "agent/simulator/minors/" + filepath.Base(file)
	}
	replaced := regexp.MustCompile(`(?m)^\s*(k8s\.io/\S+) => k8s\.io/\S+ v0(\.\d+)(\.\d+)$`)
	for minor, file := range adapters {
		modules := read(t, file)
		kubernetes := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v1(\.\d+)(\.\d+)$`).FindStringSubmatch(modules)
		g.Expect(kubernetes).To(HaveLen(3), file)
		g.Expect("1"+kubernetes[1]).To(Equal(minor), file)
		all := replaced.FindAllStringSubmatch(modules, -1)
		g.Expect(len(all)).To(BeNumerically(">=", 28), "the staging modules in %s", file)
		for _, one := range all {
			g.Expect(one[2]+one[3]).To(Equal(kubernetes[1]+kubernetes[2]), "%s in %s", one[1], file)
		}
		g.Expect(modules).To(ContainSubstring("simulator/minor => ./minors/v"+minor+"\n"), file)
		g.Expect(read(t, "agent/simulator/minors/v"+minor+"/minor.go")).To(ContainSubstring(`Kubernetes = "` + minor + `"`))
	}
}

// Claim: Only minors that there are can be built. Broken: the Makefile does not look.
func TestAMinorThatIsNotThere(t *testing.T) {
	g := NewWithT(t)
	output, err := command(t, nil, "make", "-n", "build-simulator", "MINORS=9.99")
	g.Expect(err).To(HaveOccurred())
	g.Expect(output).To(ContainSubstring("MINORS: no other Kubernetes minor 9.99: hollow-node is always built for " + hollownode.BuiltInMinor + ", and can be for 1.36"))
}
