// Package clusterdrivertest is the suite that every clusterdriver.Driver has to pass.
package clusterdrivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// Subject is the driver under test, and what the suite has to know of it.
type Subject struct {
	// Driver of a host with no simulated clusters but those of other tests.
	Driver clusterdriver.Driver
	// Version, Other and Later are versions that it can run, of three minors in their order. Unsupported is none of them.
	Version, Other, Later, Unsupported string
	// Hub is a hub as the clusters' agents are to find it. Default: one that does not answer.
	Hub clusterdriver.HubAccess
	// Huge is more memory than the driver has for a control plane; empty if that is not tried. Unenforced are the fields of spec.resources
	// that it does not enforce.
	Huge       string
	Unenforced []string
	// Timeout bounds what a driver does behind a call.
	Timeout time.Duration

	t *testing.T
}

// Run runs the suite. subject is called once for each of its tests.
func Run(t *testing.T, subject func(t *testing.T) Subject) {
	t.Helper()
	for name, test := range map[string]func(g *WithT, s Subject, desired clusterdriver.Desired){
		"should list a cluster as soon as it was asked for, and only once": createsOnce,
		"should run what was asked for, and prove it":                      runs,
		"should upgrade component by component and keep the credential":    upgradesComponents,
		"should take a new credential":                                     takesCredential,
		"should refuse a version that it cannot run, and make nothing":     refusesVersion,
		"should give a control plane its resources, or say which not":      givesResources,
		"should refuse more memory than the host has, and make nothing":    refusesMemory,
		"should refuse a new cluster without a credential":                 refusesWithoutCredential,
		"should leave a cluster with another UID alone":                    leavesOthersAlone,
		"should remove, and then know nothing of it":                       removes,
		"should take a removal of nothing for done":                        removesNothing,
		"should give a name free again":                                    createsAgain,
		"should return when its context has ended":                         endsWithContext,
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), subject(t)
			s.t = t
			if s.Hub.Server == "" {
				s.Hub.Server = "https://127.0.0.1:1"
			}
			desired := clusterdriver.Desired{Name: newName(), UID: newUID(), ControlPlaneVersion: s.Version, Hub: s.Hub}
			desired.Credential = Credential(t, desired.Name, time.Now().Add(time.Hour))
			t.Cleanup(func() {
				_, _ = s.Driver.Remove(context.Background(), desired.Name, desired.UID)
			})
			test(g, s, desired)
		})
	}
}

// given counts what was given out, so that tests of one driver do not meet.
var given atomic.Int64

func newName() string { return fmt.Sprintf("conformance-%d", given.Add(1)) }
func newUID() string  { return fmt.Sprintf("9a0bd3f0-0000-4000-8000-%012d", given.Add(1)) }

// Credential makes a certificate for the agent of a cluster, signed by nobody that a hub trusts, and its key.
func Credential(t *testing.T, cluster string, until time.Time) *clusterdriver.Credential {
	t.Helper()
	certificate, key := testenv.AgentCredential(t, cluster, until)
	return &clusterdriver.Credential{Certificate: certificate, Key: key}
}

// find returns the clusters of that name.
func (s Subject) find(g Gomega, name string) (found []clusterdriver.Observed) {
	inventory, err := s.Driver.List(context.Background())
	g.Expect(err).NotTo(HaveOccurred())
	for _, one := range inventory.Clusters {
		if one.Name == name {
			found = append(found, one)
		}
	}
	return found
}

// expectRunning waits until a cluster runs in a version, with all of its components.
func (s Subject) expectRunning(g *WithT, desired clusterdriver.Desired, version string) {
	g.THelper()
	g.Eventually(func(g Gomega) {
		g.Expect(s.find(g, desired.Name)).To(ConsistOf(And(
			HaveField("UID", desired.UID), HaveField("Phase", clusterdriver.Running), HaveField("Version", HavePrefix(version)),
			HaveField("ControllerManager", HavePrefix(version)), HaveField("Scheduler", HavePrefix(version)),
			HaveField("Checked", BeTemporally("~", time.Now(), time.Minute)),
		)))
	}).WithTimeout(s.Timeout).Should(Succeed())
}

func expectRefused(g *WithT, err error, refusal clusterdriver.Refusal) *clusterdriver.RefusedError {
	g.THelper()
	var refused *clusterdriver.RefusedError
	g.Expect(errors.As(err, &refused)).To(BeTrue(), "want *RefusedError, got %v", err)
	g.Expect(refused.Refusal).To(Equal(refusal))
	g.Expect(refused.Problem).NotTo(BeEmpty())
	return refused
}

func createsOnce(g *WithT, s Subject, desired clusterdriver.Desired) {
	for range 3 {
		g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
		g.Expect(s.find(g, desired.Name)).To(ConsistOf(HaveField("UID", desired.UID)))
	}
}

func runs(g *WithT, s Subject, desired clusterdriver.Desired) {
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
	s.expectRunning(g, desired, s.Version)
	found := s.find(g, desired.Name)[0]
	g.Expect(found.CredentialExpires).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute))
}

func upgradesComponents(g *WithT, s Subject, desired clusterdriver.Desired) {
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
	s.expectRunning(g, desired, s.Version)
	desired.Credential, desired.ControlPlaneVersion = nil, s.Later
	refused := expectRefused(g, s.Driver.Ensure(context.Background(), desired), clusterdriver.Changing)
	g.Expect(refused.Problem).To(ContainSubstring("skips no minor"))
	g.Expect(refused.Versions).To(BeEmpty())
	s.expectRunning(g, desired, s.Version)

	desired.ControlPlaneVersion = s.Other
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
	g.Eventually(func(g Gomega) {
		found := s.find(g, desired.Name)
		g.Expect(found).To(HaveLen(1))
		if problem := newerThanServer(found[0]); problem != "" {
			StopTrying(problem).Now()
		}
		g.Expect(found[0]).To(And(HaveField("Phase", clusterdriver.Running), HaveField("Version", HavePrefix(s.Other)),
			HaveField("ControllerManager", HavePrefix(s.Other)), HaveField("Scheduler", HavePrefix(s.Other))))
	}).WithTimeout(s.Timeout).WithPolling(100 * time.Millisecond).Should(Succeed())
	g.Expect(s.find(g, desired.Name)[0].CredentialExpires).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute))

	desired.ControlPlaneVersion = s.Version
	refused = expectRefused(g, s.Driver.Ensure(context.Background(), desired), clusterdriver.Downgrade)
	g.Expect(refused.Problem).To(ContainSubstring("cannot go back"))
	s.expectRunning(g, desired, s.Other)
}

// newerThanServer says which component of a cluster is of a later minor than its API server.
func newerThanServer(found clusterdriver.Observed) string {
	server, err := version.ParseGeneric(found.Version)
	if err != nil {
		return "" // It does not answer.
	}
	for _, component := range []string{found.ControllerManager, found.Scheduler} {
		if runs, err := version.ParseGeneric(component); err == nil && runs.Minor() > server.Minor() {
			return fmt.Sprintf("a component runs %s, and the API server %s", component, found.Version)
		}
	}
	return ""
}

func takesCredential(g *WithT, s Subject, desired clusterdriver.Desired) {
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
	desired.Credential = Credential(s.t, desired.Name, time.Now().Add(3*time.Hour))
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(s.find(g, desired.Name)).To(ConsistOf(HaveField("CredentialExpires", BeTemporally("~", time.Now().Add(3*time.Hour), time.Minute))))
	}).WithTimeout(s.Timeout).Should(Succeed())
}

func refusesVersion(g *WithT, s Subject, desired clusterdriver.Desired) {
	desired.ControlPlaneVersion = s.Unsupported
	refused := expectRefused(g, s.Driver.Ensure(context.Background(), desired), clusterdriver.VersionNotSupported)
	g.Expect(refused.Versions).To(ContainElements(s.Version, s.Other, s.Later))
	g.Expect(s.find(g, desired.Name)).To(BeEmpty(), "something was made of a version that cannot be run")
	inventory, err := s.Driver.List(context.Background())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.Versions).To(Or(BeEmpty(), ContainElements(s.Version, s.Other)))
}

func givesResources(g *WithT, s Subject, desired clusterdriver.Desired) {
	desired.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("330Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi")},
	}
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
	s.expectRunning(g, desired, s.Version)
	message := s.find(g, desired.Name)[0].Message
	for _, field := range []string{"requests.cpu", "requests.memory", "limits.cpu", "limits.memory"} {
		g.Expect(strings.Contains(message, "spec.resources."+field)).To(Equal(slices.Contains(s.Unenforced, field)), "%s in %q", field, message)
	}
	desired.Credential = nil
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed(), "the same again")
}

func refusesMemory(g *WithT, s Subject, desired clusterdriver.Desired) {
	if s.Huge == "" {
		s.t.Skip("it has no bound")
	}
	desired.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(s.Huge)}
	refused := expectRefused(g, s.Driver.Ensure(context.Background(), desired), clusterdriver.NoRoom)
	g.Expect(refused.Problem).To(ContainSubstring("memory"))
	g.Expect(s.find(g, desired.Name)).To(BeEmpty())
}

func refusesWithoutCredential(g *WithT, s Subject, desired clusterdriver.Desired) {
	desired.Credential = nil
	_ = expectRefused(g, s.Driver.Ensure(context.Background(), desired), clusterdriver.Invalid)
	g.Expect(s.find(g, desired.Name)).To(BeEmpty())
}

func leavesOthersAlone(g *WithT, s Subject, desired clusterdriver.Desired) {
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
	other := desired
	other.UID = newUID()
	_ = expectRefused(g, s.Driver.Ensure(context.Background(), other), clusterdriver.NameTaken)
	gone, err := s.Driver.Remove(context.Background(), other.Name, other.UID)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gone).To(BeTrue(), "nothing is there of the other one")
	g.Expect(s.find(g, desired.Name)).To(ConsistOf(And(HaveField("UID", desired.UID), HaveField("Phase", Not(Equal(clusterdriver.Removing))))))
}

// expectRemoved removes a cluster and waits until it is gone.
func (s Subject) expectRemoved(g *WithT, desired clusterdriver.Desired) {
	g.THelper()
	g.Eventually(func() (bool, error) { return s.Driver.Remove(context.Background(), desired.Name, desired.UID) }).WithTimeout(s.Timeout).Should(BeTrue())
	g.Expect(s.find(g, desired.Name)).To(BeEmpty())
}

func removes(g *WithT, s Subject, desired clusterdriver.Desired) {
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
	s.expectRunning(g, desired, s.Version)
	s.expectRemoved(g, desired)
	s.expectRemoved(g, desired)
}

func removesNothing(g *WithT, s Subject, desired clusterdriver.Desired) {
	g.Expect(s.Driver.Remove(context.Background(), desired.Name, desired.UID)).To(BeTrue())
}

func createsAgain(g *WithT, s Subject, desired clusterdriver.Desired) {
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
	s.expectRemoved(g, desired)
	desired.UID = newUID()
	g.Expect(s.Driver.Ensure(context.Background(), desired)).To(Succeed())
	g.Expect(s.find(g, desired.Name)).To(ConsistOf(HaveField("UID", desired.UID)))
	s.expectRemoved(g, desired)
}

func endsWithContext(g *WithT, s Subject, desired clusterdriver.Desired) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g.Expect(s.Driver.Ensure(ctx, desired)).NotTo(Succeed())
	_, err := s.Driver.Remove(ctx, desired.Name, desired.UID)
	g.Expect(err).To(HaveOccurred())
	_, err = s.Driver.List(ctx)
	g.Expect(err).To(HaveOccurred())
	g.Expect(s.find(g, desired.Name)).To(BeEmpty())
}
