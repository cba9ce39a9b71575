package lifecycle

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// loner makes a Machine that no MachineSet would replace, and waits until it is Ready.
func loner(ctx context.Context, member *localfleet.Member, name string) *v1alpha1.Machine {
	GinkgoHelper()
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: name}}
	machine.Spec.ClusterName = member.Name
	machine.Spec.ProviderConfig.ValueRef = &v1alpha1.MachineClassReference{Name: "orphans"}
	Expect(fleet.HubClient.Create(ctx, machine)).To(Succeed())
	expectReady(ctx, machine)
	return machine
}

func expectReady(ctx context.Context, machine *v1alpha1.Machine) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
		g.Expect(fleettest.MachineReady(machine)).To(BeTrue())
	}).Should(Succeed(), "Machine %s gets Ready", machine.Name)
}

// lose takes a Machine off the hub as a hub does that was restored from an old backup: without a deletion.
func lose(ctx context.Context, machine *v1alpha1.Machine) {
	GinkgoHelper()
	bare := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	Expect(fleet.HubClient.Patch(ctx, machine.DeepCopy(), bare)).To(Succeed())
	Expect(fleet.HubClient.Delete(ctx, machine.DeepCopy())).To(Succeed())
}

// requestsOf returns the certificate requests that hollow-nodes made to join as node.
func requestsOf(ctx context.Context, g Gomega, member *localfleet.Member, node string) []certificatesv1.CertificateSigningRequest {
	all := &certificatesv1.CertificateSigningRequestList{}
	g.Expect(member.Client.List(ctx, all)).To(Succeed())
	var own []certificatesv1.CertificateSigningRequest
	for _, one := range all.Items {
		block, _ := pem.Decode(one.Spec.Request)
		g.Expect(block).NotTo(BeNil())
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		g.Expect(err).NotTo(HaveOccurred())
		if parsed.Subject.CommonName == "system:node:"+node && one.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName {
			own = append(own, one)
		}
	}
	return own
}

// ask asks to join as node, with the name of a user and no group that would get its request approved.
func ask(ctx context.Context, member *localfleet.Member, user, node string) *certificatesv1.CertificateSigningRequest {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
	}, key)
	Expect(err).NotTo(HaveOccurred())
	config, err := member.Cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	asker, err := client.New(config, client.Options{Scheme: scheme.New()})
	Expect(err).NotTo(HaveOccurred())
	request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "orphan-" + node}}
	request.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	request.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
	request.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	Expect(asker.Create(ctx, request)).To(Succeed())
	return request
}

// possessions are the UIDs of what belongs to a Machine in its workload cluster, by kind.
func possessions(ctx context.Context, g Gomega, member *localfleet.Member, name string) map[string][]types.UID {
	node := &corev1.Node{}
	g.Expect(member.Client.Get(ctx, client.ObjectKey{Name: name}, node)).To(Succeed())
	found := map[string][]types.UID{"pod": {fleettest.PodOf(ctx, g, member, name).UID}, "node": {node.UID}}
	for _, request := range requestsOf(ctx, g, member, name) {
		found["request"] = append(found["request"], request.UID)
	}
	return found
}

func orphans(ctx context.Context, g Gomega, member *localfleet.Member) *v1alpha1.Orphans {
	cluster := &v1alpha1.Cluster{}
	g.Expect(fleet.HubClient.Get(ctx, client.ObjectKey{Name: member.Name}, cluster)).To(Succeed())
	return cluster.Status.Orphans
}

// told returns the notes of the events about orphans of a cluster, one for each time that it was told.
func told(ctx context.Context, g Gomega, member *localfleet.Member) []string {
	all := &eventsv1.EventList{}
	g.Expect(fleet.HubClient.List(ctx, all)).To(Succeed())
	var notes []string
	for _, one := range all.Items {
		if one.Regarding.Kind != "Cluster" || one.Regarding.Name != member.Name || one.Reason != "OrphansFound" {
			continue
		}
		times := 1
		if one.Series != nil {
			times = int(one.Series.Count)
		}
		for range times {
			notes = append(notes, one.Note)
		}
	}
	return notes
}

var _ = Describe("What has no Machine", func() {
	It("should be reported and told once, never removed, and taken back by its Machine", fleettest.Long, func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "orphans", 1) // Its MachineClass serves the others.
		fleet.ExpectReady(ctx, member, "orphans", 1)
		back, gone := loner(ctx, member, "orphan-back"), loner(ctx, member, "orphan-gone")
		g := NewWithT(GinkgoT())
		backHas, goneHas := possessions(ctx, g, member, back.Name), possessions(ctx, g, member, gone.Name)
		approved := requestsOf(ctx, g, member, gone.Name)
		Expect(approved).NotTo(BeEmpty(), "a hollow-node has joined by a request")
		pending := ask(ctx, member, approved[0].Spec.Username, "orphan-never")

		By("taking both Machines off the hub")
		lose(ctx, back)
		lose(ctx, gone)
		all := &v1alpha1.Orphans{Instances: 2, Nodes: 2, CertificateRequests: 3, Names: []string{
			"instance/orphan-back", "instance/orphan-gone", "node/orphan-back", "node/orphan-gone",
			"certificate request/orphan-back", "certificate request/orphan-gone", "certificate request/orphan-never",
		}}
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(orphans(ctx, g, member)).To(Equal(all))
			g.Expect(told(ctx, g, member)).To(ContainElement(And(ContainSubstring("instance/orphan-gone"), ContainSubstring("certificate request/orphan-never"))))
		}).Should(Succeed(), "they are found, after two looks at most a minute apart")
		notes := told(ctx, g, member)

		By("putting one Machine back, as it was")
		restored := &v1alpha1.Machine{Spec: back.Spec}
		restored.Namespace, restored.Name, restored.Finalizers = back.Namespace, back.Name, back.Finalizers
		Expect(fleet.HubClient.Create(ctx, restored)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, restored))).To(Succeed())
		}, NodeTimeout(fleettest.Patience))
		expectReady(ctx, restored)
		Expect(restored.Status.NodeRef.UID).To(Equal(backHas["node"][0]))
		left := &v1alpha1.Orphans{Instances: 1, Nodes: 1, CertificateRequests: 2, Names: []string{
			"instance/orphan-gone", "node/orphan-gone", "certificate request/orphan-gone", "certificate request/orphan-never",
		}}
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(orphans(ctx, g, member)).To(Equal(left))
		}).Should(Succeed(), "what has its Machine again is none")
		Expect(possessions(ctx, g, member, back.Name)).To(Equal(backHas), "the Machine has taken its own back")
		Expect(possessions(ctx, g, member, gone.Name)).To(Equal(goneHas), "nothing is removed for a Machine that is missing")
		Expect(member.Client.Get(ctx, client.ObjectKeyFromObject(pending), pending)).To(Succeed())
		Expect(pending.Status.Conditions).To(BeEmpty(), "a request without a Machine is neither approved nor denied")

		By("removing the rest by hand")
		Expect(member.Client.Delete(ctx, fleettest.PodOf(ctx, g, member, gone.Name))).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			pods := &corev1.PodList{}
			g.Expect(member.Client.List(ctx, pods, client.MatchingLabels{v1alpha1.MachineNameLabel: gone.Name})).To(Succeed())
			g.Expect(pods.Items).To(BeEmpty())
		}).Should(Succeed(), "the pod ends, and no other is made")
		Expect(member.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: gone.Name}})).To(Succeed())
		for _, request := range append(approved, *pending) {
			Expect(member.Client.Delete(ctx, &request)).To(Succeed())
		}
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(orphans(ctx, g, member)).To(BeNil())
		}).Should(Succeed(), "there is nothing to report any more")
		Expect(told(ctx, g, member)).To(Equal(notes), "less is no news")
		for i, note := range notes {
			Expect(notes[:i]).NotTo(ContainElement(note), "told once")
		}
	}, SpecTimeout(8*fleettest.Patience))
})
