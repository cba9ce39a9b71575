package pods

import (
	"errors"
	"os"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
)

// The program simcluster is of the module agent/simulator.
func TestTheVersionIsThatOfTheSimulator(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile("../../simulator/go.mod")
	g.Expect(err).NotTo(HaveOccurred())
	found := regexp.MustCompile(`(?m)^\s+k8s.io/kubernetes (v\S+)$`).FindSubmatch(content)
	g.Expect(found).To(HaveLen(2))
	g.Expect(programVersion).To(Equal(string(found[1])))
}

func TestVersionsAreThoseThatTheProgramEmulates(t *testing.T) {
	g := NewWithT(t)
	g.Expect(supportedVersions()).To(Equal([]string{"v1.34", "v1.35", "v1.36", "v1.37", programVersion}))
	for wanted, minor := range map[string]string{"": "1.37", "v1.37": "1.37", programVersion: "1.37", "v1.36": "1.36", "v1.34": "1.34"} {
		g.Expect(emulatedMinor(wanted)).To(Equal(minor), wanted)
	}
	for _, wanted := range []string{"v1.33", "v1.38", "v1.36.2"} {
		_, err := emulatedMinor(wanted)
		var refused *clusterdriver.RefusedError
		g.Expect(errors.As(err, &refused)).To(BeTrue())
		g.Expect(refused.Refusal).To(Equal(clusterdriver.VersionNotSupported))
		g.Expect(refused.Versions).To(Equal(supportedVersions()))
	}
}

// Claim: The control plane of a pod is never downgraded, and skips no minor. Broken: versions compared as texts.
func TestDowngradesAndSkippedMinorsAreRefused(t *testing.T) {
	for _, test := range []struct {
		before, wanted string
		refusal        clusterdriver.Refusal
	}{
		{"v1.36", "v1.36", ""}, {"v1.36", "v1.37", ""}, {"v1.36", "", ""}, {"", "v1.37", ""}, {"", "", ""}, {"v1.37", programVersion, ""}, {programVersion, "v1.37", ""},
		{"v1.9", "v1.10", ""},
		{"v1.9", "v1.34", clusterdriver.Changing}, {"v1.35", "v1.37", clusterdriver.Changing}, {"v1.35", "", clusterdriver.Changing},
		{"v1.36", "v1.35", clusterdriver.Downgrade}, {"", "v1.36", clusterdriver.Downgrade}, {"v1.100", "v1.37", clusterdriver.Downgrade},
		{"broken", "v1.37", clusterdriver.Invalid},
	} {
		g, err := NewWithT(t), checkUpgrade(test.before, test.wanted)
		var refused *clusterdriver.RefusedError
		g.Expect(errors.As(err, &refused)).To(Equal(test.refusal != ""), "%q to %q: %v", test.before, test.wanted, err)
		if refused != nil {
			g.Expect(refused.Refusal).To(Equal(test.refusal), "%q to %q: %v", test.before, test.wanted, err)
		}
	}
}
