package ocm

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"text/template"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// defaultSet is the ManagedClusterSet into which Open Cluster Management's webhook puts what is in none.
const defaultSet = "default"

// startWebhooks runs registration's webhook server, with its own configurations and default settings, until the container
// ends. It answers probes on port 8000 of this machine, which no flag changes; hack/ocm.sh has linked its metrics off.
func startWebhooks(ctx context.Context) {
	GinkgoHelper()
	listener, err := net.Listen("tcp", ":8000")
	Expect(err).NotTo(HaveOccurred(), "registration's webhook server needs port 8000: end what listens there, which ss -ltnp shows")
	Expect(listener.Close()).To(Succeed())
	dir := GinkgoT().TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
	port := freePort()
	server := start(process.Spec{
		Name: "registration's webhook server", Path: filepath.Join(os.Getenv(programs), "registration"),
		Args: []string{"webhook-server", "--port", fmt.Sprint(port), "--certdir", dir},
		Env:  []string{"KUBECONFIG=" + environment.Cluster.AdminKubeconfig()},
	})
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	address := fmt.Sprintf("127.0.0.1:%d", port)
	dialer := &net.Dialer{}
	Expect(server.Wait(limited, quiet/10, func(ctx context.Context) (bool, error) {
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return false, err
		}
		return true, connection.Close()
	})).To(Succeed())
	for _, configuration := range webhookConfigurations("https://"+address, certificate) {
		Expect(api.Create(ctx, configuration)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(api.Delete(ctx, configuration))).To(Succeed())
		}, NodeTimeout(timeout))
	}
}

// freePort draws a port below those that connections to others take.
func freePort() int {
	GinkgoHelper()
	for {
		port := 20000 + rand.IntN(12000)
		if listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			Expect(listener.Close()).To(Succeed())
			return port
		}
	}
}

// webhookConfigurations are Open Cluster Management's own, for a server outside the API server's cluster.
func webhookConfigurations(server string, authority []byte) []client.Object {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(os.Getenv(programs), "webhooks", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).To(HaveLen(3))
	var found []client.Object
	for _, file := range files {
		parsed, err := template.ParseFiles(file)
		Expect(err).NotTo(HaveOccurred())
		text := &bytes.Buffer{}
		Expect(parsed.Execute(text, map[string]any{
			"ClusterManagerNamespace": "default", "Labels": map[string]string{}, "RegistrationWebhook": map[string]any{"Port": 443},
			"RegistrationAPIServiceCABundle": base64.StdEncoding.EncodeToString(authority),
		})).To(Succeed())
		kind := &metav1.TypeMeta{}
		Expect(yaml.Unmarshal(text.Bytes(), kind)).To(Succeed())
		if kind.Kind == "MutatingWebhookConfiguration" {
			configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
			Expect(yaml.UnmarshalStrict(text.Bytes(), configuration)).To(Succeed())
			for i := range configuration.Webhooks {
				direct(&configuration.Webhooks[i].ClientConfig, server)
			}
			found = append(found, configuration)
			continue
		}
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(yaml.UnmarshalStrict(text.Bytes(), configuration)).To(Succeed())
		for i := range configuration.Webhooks {
			direct(&configuration.Webhooks[i].ClientConfig, server)
		}
		found = append(found, configuration)
	}
	return found
}

// direct names a webhook's server by its URL rather than by a Service.
func direct(config *admissionregistrationv1.WebhookClientConfig, server string) {
	config.URL, config.Service = new(server+*config.Service.Path), nil
}

func inSet(set string) types.GomegaMatcher {
	return HaveField("Labels", HaveKeyWithValue(clusterv1beta2.ClusterSetLabel, set))
}

// label sets a label of a Cluster.
func label(ctx context.Context, cluster, key, value string) {
	GinkgoHelper()
	object := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	content, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{key: value}}})
	Expect(err).NotTo(HaveOccurred())
	Expect(api.Patch(ctx, object, client.RawPatch("application/merge-patch+json", content))).To(Succeed())
}

// mirrorThroughWebhooks has the webhooks admit a new mirror, and changes of one that they have not seen before.
func mirrorThroughWebhooks(ctx context.Context, before string) {
	GinkgoHelper()
	name := newName()
	join(ctx, name)
	Eventually(available(ctx, name)).Should(Equal(metav1.ConditionTrue))
	Expect(managed(ctx, name)).To(inSet(defaultSet))
	label(ctx, name, "env", "changed")
	Eventually(func() map[string]string { return managed(ctx, name).Labels }).Should(HaveKeyWithValue("env", "changed"))
	report(ctx, name, func(status *v1alpha1.ClusterStatus) { reachable(status, metav1.ConditionFalse) })
	Eventually(taintKeys(ctx, name)).Should(ConsistOf(clusterv1.ManagedClusterTaintUnavailable))
	expectNoFight(ctx, name)

	Expect(managed(ctx, before).Labels).NotTo(HaveKey(clusterv1beta2.ClusterSetLabel), "it was made without the webhooks")
	label(ctx, before, "env", "changed")
	Eventually(func() *clusterv1.ManagedCluster { return managed(ctx, before) }).Should(
		And(inSet(defaultSet), HaveField("Labels", HaveKeyWithValue("env", "changed"))))
	Expect(clusterOf(ctx, name)()).NotTo(HaveField("Status.Conditions", ContainElement(HaveField("Type", v1alpha1.ClusterMirroredCondition))))
}

// refuseWithoutRight takes the right to join the set from the hub for a while.
func refuseWithoutRight(ctx context.Context, before string) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{}
	Expect(api.Get(ctx, client.ObjectKey{Name: "hollowfleet-hub"}, role)).To(Succeed())
	var kept []rbacv1.PolicyRule
	for _, rule := range role.Rules {
		if rule.Resources[0] != "managedclustersets/join" {
			kept = append(kept, rule)
		}
	}
	Expect(kept).To(HaveLen(len(role.Rules) - 1))
	role.Rules = kept
	Expect(api.Update(ctx, role)).To(Succeed())
	Eventually(mayJoin(ctx)).Should(BeFalse())

	created := newName()
	join(ctx, created)
	label(ctx, before, "env", "refused")
	for _, name := range []string{created, before} {
		Eventually(clusterOf(ctx, name)).Should(HaveField("Status.Conditions", ContainElement(And(
			HaveField("Type", v1alpha1.ClusterMirroredCondition), HaveField("Status", metav1.ConditionFalse),
			HaveField("Reason", v1alpha1.ReasonMirrorRefused),
			HaveField("Message", And(ContainSubstring("managedclustersets/join"), ContainSubstring(hubUser), ContainSubstring("hub install")))))))
		Eventually(reasons(ctx, name)).Should(ContainElement(v1alpha1.ReasonMirrorRefused))
	}
	Expect(managed(ctx, created)).To(BeNil())
	Expect(managed(ctx, before).Labels).NotTo(HaveKeyWithValue("env", "refused"))

	By("doing what the message says")
	Expect(hub.Install(ctx, environment.Config)).To(Succeed())
	Eventually(mayJoin(ctx)).Should(BeTrue())
	Eventually(func() *clusterv1.ManagedCluster { return managed(ctx, created) }).Should(inSet(defaultSet))
	Eventually(func() *clusterv1.ManagedCluster { return managed(ctx, before) }).Should(
		And(inSet(defaultSet), HaveField("Labels", HaveKeyWithValue("env", "refused"))))
	for _, name := range []string{created, before} {
		Eventually(clusterOf(ctx, name)).ShouldNot(HaveField("Status.Conditions", ContainElement(HaveField("Type", v1alpha1.ClusterMirroredCondition))))
	}
	Expect(seen.takeRefused()).To(HaveEach(ContainSubstring("/managedclusters")), "nothing else is refused")
}

// mayJoin asks whether the hub may put ManagedClusters into the default set.
func mayJoin(ctx context.Context) func() (bool, error) {
	return func() (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: hubUser, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: clusterv1.GroupName, Resource: "managedclustersets", Subresource: "join", Name: defaultSet, Verb: "create",
			},
		}}
		err := api.Create(ctx, review)
		return review.Status.Allowed, err
	}
}
