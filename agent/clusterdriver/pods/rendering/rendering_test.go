package rendering_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	settings = rendering.Settings{
		Host: "host", AgentNamespace: "hollowfleet", AgentAccount: "hollowfleet-agent",
		SimclusterImage: "r.example.com/hollowfleet/simcluster:v1", AgentImage: "r.example.com/hollowfleet/agent:v1", HollowNodeImage: "r.example.com/hollowfleet/hollow-node:v1",
		HollowNodeMinorImages: map[string]string{"1.36": "r.example.com/hollowfleet/hollow-node-v1.36:v1", "1.35": "r.example.com/hollowfleet/hollow-node-v1.35:v1"},
		StorageSize:           resource.MustParse("2Gi"), StorageClass: "fast", Quota: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("52")},
		FreezeAfter: 30 * time.Second, CertificateLifetime: 168 * time.Hour, Manifests: map[string]string{"10-agent.yaml": "kind: List\n"},
	}
	cluster = rendering.Cluster{
		Name: "c7", UID: "9a0bd3f0-0000-4000-8000-000000000007", Version: "v1.36", EmulatedVersion: "1.36", Certificates: rendering.SelfSigned,
		HubServer: "https://hub.example.com:8443", HubKubeconfig: []byte("kind: Config\n"),
	}
)

func render(t *testing.T, of rendering.Cluster) []client.Object {
	t.Helper()
	objects, err := settings.Objects(of)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return append([]client.Object{settings.Namespace(of), settings.HostBinding(of)}, objects...)
}

// What a simulated cluster is made of, as a person would read it. go test -update writes the files.
func TestRenderedObjects(t *testing.T) {
	for name, certificates := range map[string]rendering.PKI{"selfsigned": rendering.SelfSigned, "certmanager": rendering.CertManager} {
		t.Run(name, func(t *testing.T) {
			g, of := NewWithT(t), cluster
			of.Certificates = certificates
			var got bytes.Buffer
			for _, object := range render(t, of) {
				content, err := yaml.Marshal(object)
				g.Expect(err).NotTo(HaveOccurred())
				got.WriteString("---\n")
				got.Write(content)
			}
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				g.Expect(os.MkdirAll("testdata", 0o755)).To(Succeed())
				g.Expect(os.WriteFile(file, got.Bytes(), 0o644)).To(Succeed())
			}
			want, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.String()).To(Equal(string(want)), "go test -update writes %s", file)
		})
	}
}

// Claim: Every object of a simulated cluster's pod says whose it is. Broken: an object without the label; the pod template without it.
func TestEveryObjectSaysWhoseItIs(t *testing.T) {
	g, of := NewWithT(t), cluster
	of.Certificates = rendering.CertManager
	for _, object := range render(t, of) {
		what := object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetName()
		g.Expect(object.GetLabels()).To(HaveKeyWithValue(rendering.UIDLabel, of.UID), what)
		g.Expect(object.GetAnnotations()).To(HaveKeyWithValue(rendering.NameAnnotation, of.Name), what)
		if object.GetNamespace() == "" {
			g.Expect(object).To(BeAssignableToTypeOf(&corev1.Namespace{}), what)
			continue
		}
		g.Expect(object.GetNamespace()).To(Equal("simulated-c7"), what)
	}
}

func find[T client.Object](objects []client.Object) (found T) {
	for _, object := range objects {
		if is, ok := object.(T); ok {
			return is
		}
	}
	return found
}

// Claim: The pod of a simulated cluster needs no more than Pod Security "restricted". Broken: a privilege escalation allowed; no seccomp profile.
func TestThePodIsRestricted(t *testing.T) {
	g := NewWithT(t)
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	objects := render(t, cluster)
	template := find[*appsv1.StatefulSet](objects).Spec.Template
	for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &template.ObjectMeta, &template.Spec) {
		g.Expect(result.Allowed).To(BeTrue(), "%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
	}
	g.Expect(find[*corev1.Namespace](objects).Labels).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "restricted"))
	g.Expect(template.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()), "the token is for the agent alone")
	for _, mount := range template.Spec.InitContainers[0].VolumeMounts {
		g.Expect(mount.Name).NotTo(Equal("host-token"))
	}
}

func TestEveryMountHasAVolume(t *testing.T) {
	g := NewWithT(t)
	set := find[*appsv1.StatefulSet](render(t, cluster))
	there := map[string]bool{set.Spec.VolumeClaimTemplates[0].Name: true}
	for _, volume := range set.Spec.Template.Spec.Volumes {
		there[volume.Name] = true
	}
	used := map[string]bool{}
	for _, container := range append(set.Spec.Template.Spec.InitContainers, set.Spec.Template.Spec.Containers...) {
		for _, mount := range container.VolumeMounts {
			g.Expect(there).To(HaveKey(mount.Name), container.Name)
			used[mount.Name] = true
		}
	}
	g.Expect(used).To(HaveLen(len(there)))
}

// Another version does not replace the pod of a control plane.
func TestAnotherVersionLeavesThePod(t *testing.T) {
	g, later := NewWithT(t), cluster
	later.Version, later.EmulatedVersion = "v1.37", "1.37"
	before, after := render(t, cluster), render(t, later)
	g.Expect(find[*appsv1.StatefulSet](after).Spec).To(Equal(find[*appsv1.StatefulSet](before).Spec))
	var changed []string
	for i := range before {
		if fmt.Sprint(before[i]) != fmt.Sprint(after[i]) {
			changed = append(changed, before[i].GetName())
		}
	}
	g.Expect(changed).To(ConsistOf(rendering.VersionMap, rendering.Name), "the ConfigMap, and the annotation of the StatefulSet")
}

// A StatefulSet's claims cannot be changed: an upgrade of the agent with another size must not be refused for all that there are.
func TestClaimsStay(t *testing.T) {
	g, of := NewWithT(t), cluster
	of.Claims = []corev1.PersistentVolumeClaim{{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "before"}}}
	g.Expect(find[*appsv1.StatefulSet](render(t, of)).Spec.VolumeClaimTemplates).To(Equal(of.Claims))
}

// The agents reach their hub, at whatever port it is.
func TestThePolicyLetsAgentsReachTheHub(t *testing.T) {
	for server, want := range map[string][]int32{
		"https://hub": {443, 6443}, "https://hub:6443": {443, 6443}, "https://hub:8443/path": {443, 6443, 8443},
	} {
		g, of := NewWithT(t), cluster
		of.HubServer = server
		var open []int32
		for _, port := range find[*networkingv1.NetworkPolicy](render(t, of)).Spec.Egress[0].Ports {
			open = append(open, port.Port.IntVal)
		}
		g.Expect(open).To(Equal(want), server)
	}
	of := cluster
	of.HubServer = "https://hub:port"
	_, err := settings.Objects(of)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("hub's URL")))
}

// Both kinds of PKI are in the same Secrets, so the pod is the same.
func TestBothKindsOfPKIAreInTheSameSecrets(t *testing.T) {
	g, of := NewWithT(t), cluster
	want := find[*appsv1.StatefulSet](render(t, of))
	of.Certificates = rendering.CertManager
	objects := render(t, of)
	g.Expect(find[*appsv1.StatefulSet](objects)).To(Equal(want))
	made := map[string]bool{}
	for _, object := range objects {
		if certificate, is := object.(*certmanagerv1.Certificate); is {
			made[certificate.Spec.SecretName] = true
		}
	}
	for _, each := range rendering.Certificates(of.Name) {
		g.Expect(made).To(HaveKey(rendering.SecretOf(each.Name)))
	}
	g.Expect(made).To(HaveKey(rendering.SecretOf(rendering.Authority)))
	for _, volume := range want.Spec.Template.Spec.Volumes {
		if volume.Name == "pki" {
			for _, source := range volume.Projected.Sources {
				g.Expect(made).To(HaveKey(source.Secret.Name))
			}
		}
	}
}

func parse(t *testing.T, pair rendering.Pair) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(pair.Certificate)
	parsed, err := x509.ParseCertificate(block.Bytes)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return parsed
}

func TestCertificatesAreRenewedInTime(t *testing.T) {
	g, now := NewWithT(t), time.Now()
	authority, err := rendering.NewAuthority("c7", now)
	g.Expect(err).NotTo(HaveOccurred())
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority.Certificate)
	for _, wanted := range rendering.Certificates("c7") {
		g.Expect(authority.Needs(rendering.Pair{}, wanted, now)).To(BeTrue(), wanted.Name)
		issued, err := authority.Issue(wanted, now)
		g.Expect(err).NotTo(HaveOccurred())
		leaf := parse(t, issued)
		for usage, want := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageServerAuth: wanted.Server, x509.ExtKeyUsageClientAuth: wanted.Client} {
			_, err := leaf.Verify(x509.VerifyOptions{Roots: trusted, KeyUsages: []x509.ExtKeyUsage{usage}})
			g.Expect(err == nil).To(Equal(want), "%s for usage %v: %v", wanted.Name, usage, err)
		}
		g.Expect(leaf.Subject.CommonName).To(Equal(wanted.User))
		g.Expect(authority.Needs(issued, wanted, now)).To(BeFalse(), wanted.Name)
		g.Expect(authority.Needs(issued, wanted, leaf.NotAfter.Add(-leaf.NotAfter.Sub(now)/4))).To(BeTrue(), "%s near its end", wanted.Name)
		other := wanted
		other.User = "another"
		g.Expect(authority.Needs(issued, other, now)).To(BeTrue())
	}
	stranger, err := rendering.NewAuthority("c8", now)
	g.Expect(err).NotTo(HaveOccurred())
	issued, err := stranger.Issue(rendering.Certificates("c7")[0], now)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(authority.Needs(issued, rendering.Certificates("c7")[0], now)).To(BeTrue(), "of another authority")
}
