package main

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// flagOf is the value of a flag, empty without it.
func flagOf(container corev1.Container, name string) string {
	for _, arg := range container.Args {
		if value, found := strings.CutPrefix(arg, "--"+name+"="); found {
			return value
		}
	}
	return ""
}

// The API server's certificate is for the name at which hollow nodes reach it, in each mode of tls.mode.
// Claim: A simulated cluster's certificates fit together. Broken: no name of the Service; the authority's key rotated; leaves of another Issuer; a group that has no rights; a certificate that is not mounted; no `--serving-name`; a kubeconfig elsewhere; a sidecar that is none.
func TestCertificatesOfASimulatedCluster(t *testing.T) {
	for name, test := range map[string]struct {
		set, apis string
		managed   bool
	}{
		"cert-manager is there":    {apis: certManagerAPI, managed: true},
		"it is not":                {},
		"it is there, and ignored": {set: "tls.mode=selfSigned", apis: certManagerAPI},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := simclusterChart
			o.apis = test.apis
			objects := o.objects(t, test.set)
			pod := find[*appsv1.StatefulSet](t, objects, "r").Spec.Template
			agent, simcluster := pod.Spec.Containers[0], pod.Spec.InitContainers[0]
			g.Expect(*simcluster.RestartPolicy).To(Equal(corev1.ContainerRestartPolicyAlways), "it runs beside the agent")
			server, err := url.Parse(flagOf(agent, "target-server-url"))
			g.Expect(err).NotTo(HaveOccurred())
			service := find[*corev1.Service](t, objects, "r")
			g.Expect(server.Host).To(Equal(service.Name + "." + o.namespace + ".svc:6443"))
			if test.managed {
				checkManaged(t, objects, pod, server.Hostname())
				return
			}
			g.Expect(flagOf(agent, "tls-self-signed")).To(Equal("true"))
			g.Expect(flagOf(simcluster, "pki-dir")).To(BeEmpty())
			g.Expect(simcluster.Args).To(ContainElement("--serving-name=" + server.Hostname()))
			g.Expect(pod.Spec.InitContainers).To(HaveLen(1))
			// The group is that of config/rbac/agent-workload.
			file := flagOf(agent, "target-kubeconfig")
			g.Expect(flagOf(simcluster, "client-kubeconfig")).To(Equal("user=hollowfleet-agent,group=hollowfleet:agents,file=" + file))
			mounted := HaveField("MountPath", filepath.Dir(file))
			g.Expect(simcluster.VolumeMounts).To(ContainElement(And(HaveField("Name", "target"), mounted, HaveField("ReadOnly", false))))
			g.Expect(agent.VolumeMounts).To(ContainElement(And(HaveField("Name", "target"), mounted)), "at the same path: the kubeconfig names files beside it")
			for _, object := range objects {
				g.Expect(object).NotTo(Or(BeAssignableToTypeOf(&issuer{}), BeAssignableToTypeOf(&certificate{})))
			}
		})
	}
}

// checkManaged follows each certificate from its Issuer to where a program reads it.
func checkManaged(t *testing.T, objects []client.Object, pod corev1.PodTemplateSpec, server string) {
	t.Helper()
	g := NewWithT(t)
	agent, simcluster := pod.Spec.Containers[0], pod.Spec.InitContainers[0]
	g.Expect(pod.Spec.InitContainers).To(HaveLen(1))
	authority := find[*certificate](t, objects, "r-ca")
	g.Expect(authority.Spec.IsCA).To(BeTrue())
	g.Expect(authority.Spec.PrivateKey.RotationPolicy).To(Equal("Never"), "what the key has signed stays good")
	g.Expect(find[*issuer](t, objects, authority.Spec.IssuerRef.Name).Spec.SelfSigned).NotTo(BeNil())
	var mounted []string
	for _, volume := range pod.Spec.Volumes {
		if volume.Name != "pki" {
			continue
		}
		for _, source := range volume.Projected.Sources {
			mounted = append(mounted, source.Secret.Name)
			for _, item := range source.Secret.Items {
				g.Expect(item.Path).To(Equal(strings.TrimPrefix(source.Secret.Name, "r-") + "/" + item.Key))
			}
		}
	}
	g.Expect(flagOf(simcluster, "pki-dir")).To(Equal("/etc/simcluster/pki"))
	g.Expect(simcluster.VolumeMounts).To(ContainElement(And(HaveField("Name", "pki"), HaveField("MountPath", "/etc/simcluster/pki"))))
	var made []string
	for _, object := range objects {
		each, is := object.(*certificate)
		if !is || each.Spec.IsCA {
			continue
		}
		made = append(made, each.Spec.SecretName)
		g.Expect(find[*issuer](t, objects, each.Spec.IssuerRef.Name).Spec.CA.SecretName).To(Equal(authority.Spec.SecretName), each.Name)
		g.Expect(each.Spec.PrivateKey.Algorithm).To(Equal("ECDSA"), each.Name)
		g.Expect(slices.Contains(each.Spec.Usages, "server auth")).To(Equal(len(each.Spec.DNSNames) > 0), "%s has names if it serves", each.Name)
	}
	g.Expect(append(made, authority.Spec.SecretName)).To(ConsistOf(append(mounted, "r-agent")))
	g.Expect(find[*certificate](t, objects, "r-kube-apiserver").Spec.DNSNames).To(ContainElements(server, "localhost"))
	g.Expect(find[*certificate](t, objects, "r-kube-apiserver").Spec.IPAddresses).To(ContainElement("127.0.0.1"))
	g.Expect(find[*certificate](t, objects, "r-agent").Spec.Subject.Organizations).To(ConsistOf("hollowfleet:agents"))
	g.Expect(find[*certificate](t, objects, "r-admin").Spec.Subject.Organizations).To(ConsistOf("system:masters"))

	content := find[*corev1.ConfigMap](t, objects, "r-kubeconfigs").Data[filepath.Base(flagOf(agent, "target-kubeconfig"))]
	config, err := clientcmd.Load([]byte(content))
	g.Expect(err).NotTo(HaveOccurred())
	for _, user := range config.AuthInfos {
		g.Expect(user.ClientCertificate).To(Equal(flagOf(agent, "tls-cert-file")))
		g.Expect(user.ClientKey).To(Equal(flagOf(agent, "tls-private-key-file")))
	}
}

// The agent has in the host cluster what it needs for hollow-node pods, and nothing beyond the namespace; in the simulated cluster what
// config says.
// Claim: A simulated cluster's agent has rights in its namespace only. Broken: a manifest left out; a right too few.
func TestRightsOfASimulatedClustersAgent(t *testing.T) {
	g := NewWithT(t)
	objects := simclusterChart.objects(t, "")
	var want *rbacv1.Role
	for _, object := range configured(t, "rbac/agent-workload/*.yaml") {
		if role, is := object.(*rbacv1.Role); is {
			want = role
		}
	}
	g.Expect(find[*rbacv1.Role](t, objects, "r").Rules).To(Equal(want.Rules), stale)
	for _, object := range objects {
		g.Expect(object).NotTo(Or(BeAssignableToTypeOf(&rbacv1.ClusterRole{}), BeAssignableToTypeOf(&rbacv1.ClusterRoleBinding{})))
		if object.GetNamespace() != "" {
			g.Expect(object.GetNamespace()).To(Equal(simclusterChart.namespace), key(object))
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "config/rbac/agent-workload/*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	manifests := find[*corev1.ConfigMap](t, objects, "r-manifests").Data
	g.Expect(manifests).To(HaveLen(len(files) + 1))
	loadTests, err := os.ReadFile(filepath.Join(root, "config/rbac/agent-load-tests/role.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.TrimSpace(manifests["load-tests.yaml"])).To(Equal(strings.TrimSpace(string(loadTests))), stale)
	without := find[*corev1.ConfigMap](t, simclusterChart.objects(t, "loadTests.enabled=false"), "r-manifests").Data
	g.Expect(without).To(And(HaveLen(len(files)), Not(HaveKey("load-tests.yaml"))))
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.TrimSpace(manifests[filepath.Base(file)])).To(Equal(strings.TrimSpace(string(content))), stale)
	}
}

// The data outlive the pod unless the values say otherwise.
func TestStorageOfASimulatedCluster(t *testing.T) {
	g := NewWithT(t)
	g.Expect(workloadOf(t, simclusterChart.objects(t, "")).claims).To(ConsistOf("data"))
	set := simclusterChart.objects(t, "storage.size=5Gi,storage.className=fast")
	claim := find[*appsv1.StatefulSet](t, set, "").Spec.VolumeClaimTemplates[0].Spec
	g.Expect(claim.Resources.Requests.Storage().String()).To(Equal("5Gi"))
	g.Expect(claim.StorageClassName).To(HaveValue(Equal("fast")))
	without := workloadOf(t, simclusterChart.objects(t, "storage.persistent=false,storage.fsync=false"))
	g.Expect(without.claims).To(BeEmpty())
	g.Expect(flagOf(without.pod.Spec.InitContainers[0], "fsync")).To(Equal("false"))
}

// installed plays the API server that a release was installed in.
type installed struct{ client dynamic.Interface }

// GetClientFor implements engine.ClientProvider.
func (i installed) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	return i.client.Resource(version.WithResource(strings.ToLower(kind) + "s")), true, err
}

// A cluster continues with the authority that it has started with, also when cert-manager has come since.
func TestAnUpgradeKeepsTheAuthority(t *testing.T) {
	g := NewWithT(t)
	o := simclusterChart
	before := find[*appsv1.StatefulSet](t, o.objects(t, ""), "r")
	before.APIVersion, before.Kind = "apps/v1", "StatefulSet"
	o.apis = certManagerAPI
	loaded := o.load(t)
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.APIVersions = append(capabilities.APIVersions, certManagerAPI)
	values, err := chartutil.ToRenderValues(loaded, o.values(t, ""), chartutil.ReleaseOptions{Name: "r", Namespace: o.namespace, IsUpgrade: true, Revision: 2}, capabilities)
	g.Expect(err).NotTo(HaveOccurred())
	files, err := engine.RenderWithClientProvider(loaded, values, installed{fake.NewSimpleDynamicClient(scheme.Scheme, before)})
	g.Expect(err).NotTo(HaveOccurred())
	objects, err := decode(files["hollowfleet-simcluster/templates/statefulset.yaml"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(objects[0].GetAnnotations()).To(Equal(before.Annotations))
	g.Expect(files["hollowfleet-simcluster/templates/certificates.yaml"]).NotTo(ContainSubstring("kind: Certificate"))
	g.Expect(find[*appsv1.StatefulSet](t, o.objects(t, ""), "r").Annotations).NotTo(Equal(before.Annotations), "a new one would have another")
}
