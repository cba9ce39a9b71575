package localfleet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

var own = version.MustParseSemantic("v1.37.1")

func TestVersionsAreThoseThatProgramsEmulate(t *testing.T) {
	g := NewWithT(t)
	g.Expect(supportedVersions(own)).To(Equal([]string{"v1.34", "v1.35", "v1.36", "v1.37", "v1.37.1"}))
	for wanted, minor := range map[string]string{"": "", "v1.37": "", "v1.37.1": "", "v1.36": "1.36", "v1.34": "1.34"} {
		g.Expect(emulatedMinor(wanted, own)).To(Equal(minor), wanted)
	}
	for _, wanted := range []string{"v1.33", "v1.38", "v1.36.2", "v1.37.2"} {
		_, err := emulatedMinor(wanted, own)
		g.Expect(localclusters.ReasonOf(err)).To(Equal(localclusters.VersionNotSupported), wanted)
		g.Expect(err).To(MatchError(And(HavePrefix("controlPlaneVersion: "+wanted), ContainSubstring("v1.34, v1.35"))))
	}
	g.Expect(parseVersion([]byte(`{"major":"1","minor":"37","gitVersion":"v1.37.1","emulationMajor":"1","emulationMinor":"36"}`))).To(Equal("v1.36"))
	g.Expect(parseVersion([]byte(`{"major":"1","minor":"37","gitVersion":"v1.37.1","emulationMajor":"1","emulationMinor":"37"}`))).To(Equal("v1.37.1"))
}

// Claim: The keeper takes no cluster for another of the same name. Broken: the UID not compared.
func TestWhatIsRecordedForARequest(t *testing.T) {
	g := NewWithT(t)
	before := HostedCluster{Name: "s1", UID: "a", ControlPlaneVersion: "v1.36", Group: "h2"}
	decide := func(uid, version string, before HostedCluster) (HostedCluster, localclusters.Reason) {
		record, err := decideRecord("s1", localclusters.Desired{UID: uid, ControlPlaneVersion: version}, &before, own)
		return record, localclusters.ReasonOf(err)
	}
	g.Expect(decideRecord("s1", localclusters.Desired{UID: "a", ControlPlaneVersion: "v1.36"}, nil, own)).To(Equal(HostedCluster{Name: "s1", UID: "a", ControlPlaneVersion: "v1.36"}))
	same, reason := decide("a", "v1.36", before)
	g.Expect(reason).To(BeEmpty())
	g.Expect(same).To(Equal(before))
	_, reason = decide("b", "v1.36", before)
	g.Expect(reason).To(Equal(localclusters.NameTaken))
	_, reason = decide("a", "v1.35", before)
	g.Expect(reason).To(Equal(localclusters.Downgrade), "it cannot go back")
	_, reason = decide("a", "", HostedCluster{Name: "s1", UID: "a", ControlPlaneVersion: "v1.35"})
	g.Expect(reason).To(Equal(localclusters.Changing), "no minor is skipped")
	newer, reason := decide("a", "", before)
	g.Expect(reason).To(BeEmpty())
	g.Expect(newer.ControlPlaneVersion).To(BeEmpty())
	larger, err := decideRecord("s1", localclusters.Desired{UID: "a", ControlPlaneVersion: "v1.36", Resources: localclusters.Resources{RequestsMemory: "1Gi"}}, &before, own)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(larger.Resources.Memory()).To(BeEquivalentTo(1 << 30))
	before.FormerGroup = "h1"
	_, reason = decide("a", "", before)
	g.Expect(reason).To(Equal(localclusters.Changing))
	before.Removing = true
	_, reason = decide("a", "v1.36", before)
	g.Expect(reason).To(Equal(localclusters.BeingRemoved))
}

func TestAClusterGetsTheFirstGroupOfItsMinorWithRoom(t *testing.T) {
	g := NewWithT(t)
	var records []HostedCluster
	minors := map[string]string{"h1": "", "h2": "1.36"}
	for i := range ClustersPerGroup {
		records = append(records, HostedCluster{Name: fmt.Sprintf("s%d", i), Group: "h1"})
	}
	records = append(records, HostedCluster{Name: "o1", Group: "h2"}, HostedCluster{Name: "o2", Group: "h2", FormerGroup: "h3"})
	g.Expect(groupFor(nil, "", nil, nil)).To(Equal("h1"))
	g.Expect(groupFor(records, "1.36", minors, nil)).To(Equal("h2"))
	g.Expect(groupFor(records, "", minors, nil)).To(Equal("h4"), "h1 is full, h2 emulates another, and what h3 emulates is not known")
	g.Expect(groupFor(records[1:], "", minors, nil)).To(Equal("h1"))
	g.Expect(groupFor(records[1:], "", minors, map[string]bool{"h1": true})).To(Equal("h4"), "h1 is being ended")
}

// Claim: The keeper replaces no credential that is valid. Broken: the older one written over what the agent had renewed.
func TestAValidCredentialStays(t *testing.T) {
	g := NewWithT(t)
	f := &Fleet{options: Options{Dir: t.TempDir()}}
	now := time.Now()
	desired := localclusters.Desired{Hub: localclusters.HubAccess{Server: "https://127.0.0.1:1"}}
	file := func(name string) string { return filepath.Join(f.CredentialDir(&Member{Name: "s1"}), name) }

	desired.Certificate, desired.Key = testenv.AgentCredential(t, "s1", now.Add(time.Hour))
	g.Expect(f.credentialExpiry("s1")).To(BeNil())
	g.Expect(f.storeAccess("s1", desired, now)).To(BeTrue())
	g.Expect(os.ReadFile(file("tls.key"))).To(Equal(desired.Key))
	info, err := os.Stat(file("tls.key"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))
	g.Expect(file("pending.key")).NotTo(BeAnExistingFile())
	g.Expect(f.storeAccess("s1", desired, now)).To(BeFalse(), "the same again")

	first := desired.Certificate
	desired.Certificate, desired.Key = testenv.AgentCredential(t, "s1", now.Add(2*time.Hour))
	g.Expect(f.storeAccess("s1", desired, now)).To(BeFalse())
	g.Expect(os.ReadFile(file("tls.crt"))).To(Equal(first))
	g.Expect(f.storeAccess("s1", desired, now.Add(90*time.Minute))).To(BeTrue(), "it has expired")
	g.Expect(os.ReadFile(file("tls.crt"))).To(Equal(desired.Certificate))
	g.Expect(*f.credentialExpiry("s1")).To(BeTemporally("~", now.Add(2*time.Hour), time.Second))

	desired.Certificate, desired.Key, desired.Hub.Server = nil, nil, "https://127.0.0.1:2"
	g.Expect(f.storeAccess("s1", desired, now)).To(BeTrue(), "another address of the hub")
}
