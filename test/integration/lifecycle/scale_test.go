package lifecycle

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A MachineDeployment", func() {
	It("should scale up and down in each cluster on its own", func(ctx SpecContext) {
		first := fleet.NewDeployment(ctx, fleet.Members[0], "scaled", 2)
		fleet.NewDeployment(ctx, fleet.Members[1], "scaled", 1)
		fleet.ExpectReady(ctx, fleet.Members[0], "scaled", 2)
		fleet.ExpectReady(ctx, fleet.Members[1], "scaled", 1)
		fleet.Scale(ctx, first, 4)
		before := fleet.ExpectReady(ctx, fleet.Members[0], "scaled", 4)
		fleet.Scale(ctx, first, 1)
		left := fleet.ExpectReady(ctx, fleet.Members[0], "scaled", 1)[0]
		for _, machine := range before {
			if machine.Name != left.Name {
				Eventually(ctx, func(g Gomega, ctx context.Context) {
					leftovers(ctx, g, fleet.Members[0].Client, machine.Name)
				}).Should(Succeed())
			}
		}
		fleet.ExpectReady(ctx, fleet.Members[1], "scaled", 1)
	}, SpecTimeout(4*fleettest.Patience))

	It("should neither lose nor duplicate a Machine when the hub is killed while it scales", func(ctx SpecContext) {
		member := fleet.Members[0]
		deployment := fleet.NewDeployment(ctx, member, "hubkill", 1)
		fleet.ExpectReady(ctx, member, "hubkill", 1)
		fleet.Scale(ctx, deployment, 5)
		Expect(fleet.HubProcess.Signal(syscall.SIGKILL)).To(Succeed())
		Eventually(fleet.HubProcess.Done()).Should(BeClosed())
		Expect(fleet.StartHubProcess(ctx)).To(Succeed())
		seen := map[string]bool{}
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			machines := fleet.MachinesOf(ctx, g, member, "hubkill")
			for _, machine := range machines {
				seen[machine.Name] = true
			}
			g.Expect(machines).To(HaveLen(5))
		}).Should(Succeed())
		fleet.ExpectReady(ctx, member, "hubkill", 5)
		Expect(seen).To(HaveLen(5), "no Machine was made and thrown away")
	}, SpecTimeout(4*fleettest.Patience))

	It("should leave no Node behind when the agent is killed in the middle of deletions", fleettest.Long, func(ctx SpecContext) {
		member := fleet.Members[1]
		deployment := fleet.NewDeployment(ctx, member, "agentkill", 4)
		machines := fleet.ExpectReady(ctx, member, "agentkill", 4)
		fleet.Scale(ctx, deployment, 0)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(len(fleettest.NodesOf(ctx, g, member, "agentkill")) + len(fleet.MachinesOf(ctx, g, member, "agentkill"))).To(BeNumerically("<", 8))
		}).Should(Succeed(), "the deletions have started")
		Expect(member.Agent.Signal(syscall.SIGKILL)).To(Succeed())
		Eventually(member.Agent.Done()).Should(BeClosed())
		Expect(fleet.StartAgent(ctx, member)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.MachinesOf(ctx, g, member, "agentkill")).To(BeEmpty())
			for _, machine := range machines {
				leftovers(ctx, g, member.Client, machine.Name)
			}
		}).Should(Succeed())
	}, SpecTimeout(4*fleettest.Patience))

	// Claim: Readiness is lost and regained. Broken: Ready stays True once it was.
	It("should lose and regain a Machine's readiness when its hollow node is killed", fleettest.Long, func(ctx SpecContext) {
		member := fleet.Members[1]
		fleet.NewDeployment(ctx, member, "killed", 1)
		machine := fleet.ExpectReady(ctx, member, "killed", 1)[0]
		watching, err := client.NewWithWatch(fleet.HubConfig, client.Options{Scheme: fleet.HubClient.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		history, err := watching.Watch(ctx, &v1alpha1.MachineList{}, client.InNamespace(member.Name), client.MatchingLabels{fleettest.PoolLabel: "killed"})
		Expect(err).NotTo(HaveOccurred())
		defer history.Stop()
		pid, err := localfleet.HollowNodeProcess(fleettest.PodOf(ctx, NewWithT(GinkgoT()), member, machine.Name).Name)
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		ready := true
		readiness := func() (bool, error) {
			select {
			case event := <-history.ResultChan():
				changed, ok := event.Object.(*v1alpha1.Machine)
				if !ok {
					return false, apierrors.FromObject(event.Object)
				}
				ready = fleettest.MachineReady(changed)
			default: // Nothing has changed.
			}
			return ready, nil
		}
		Eventually(readiness).Should(BeFalse())
		Eventually(readiness).Should(BeTrue())
		Expect(fleet.ExpectReady(ctx, member, "killed", 1)[0].UID).To(Equal(machine.UID))
	}, SpecTimeout(3*fleettest.Patience))
})

var _ = Describe("An agent", func() {
	It("should reach nothing of another cluster with its credentials", func(ctx SpecContext) {
		fleet.NewDeployment(ctx, fleet.Members[1], "secluded", 1)
		machine := fleet.ExpectReady(ctx, fleet.Members[1], "secluded", 1)[0]
		// What the agent of c1 itself holds, and nothing that a user made for it.
		config := rest.AnonymousClientConfig(fleet.HubConfig)
		var err error
		own := fleet.CredentialDir(fleet.Members[0])
		config.CertData, err = os.ReadFile(filepath.Join(own, "tls.crt"))
		Expect(err).NotTo(HaveOccurred())
		config.KeyData, err = os.ReadFile(filepath.Join(own, "tls.key"))
		Expect(err).NotTo(HaveOccurred())
		c1, err := client.New(config, client.Options{Scheme: fleet.HubClient.Scheme()})
		Expect(err).NotTo(HaveOccurred())

		Expect(c1.List(ctx, &v1alpha1.MachineList{}, client.InNamespace("c1"))).To(Succeed())
		for what, err := range map[string]error{
			"list Machines of c2":            c1.List(ctx, &v1alpha1.MachineList{}, client.InNamespace("c2")),
			"list all Machines":              c1.List(ctx, &v1alpha1.MachineList{}),
			"patch a Machine of c2":          c1.Patch(ctx, machine.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))),
			"patch a Machine's status of c2": c1.Status().Patch(ctx, machine.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Failed"}}`))),
			"delete a Machine of c2":         c1.Delete(ctx, machine.DeepCopy()),
			"read Cluster c2":                c1.Get(ctx, client.ObjectKey{Name: "c2"}, &v1alpha1.Cluster{}),
			"list Secrets of c2":             c1.List(ctx, &corev1.SecretList{}, client.InNamespace("c2")),
			"create a Machine of its own": c1.Create(ctx, &v1alpha1.Machine{
				ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "mine"}, Spec: machine.Spec,
			}),
		} {
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", what, err)
		}
	}, SpecTimeout(2*fleettest.Patience))
})

func commonName(request []byte) string {
	block, _ := pem.Decode(request)
	if block == nil {
		return ""
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	return parsed.Subject.CommonName
}
