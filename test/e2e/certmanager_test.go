package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// managed is the release of the simulated cluster whose certificates cert-manager makes.
	managed = "c8"
	// metricsPort is where hub and agents serve their metrics.
	metricsPort = 8080
)

// managedCertificates are those of the release that programs serve or connect with.
var managedCertificates = []string{
	managed + "-kube-apiserver", managed + "-kube-apiserver-kubelet-client", managed + "-kube-controller-manager",
	managed + "-kube-scheduler", managed + "-admin", managed + "-agent",
}

// servesWithCertManager runs where make e2e has been told where cert-manager's source is.
func servesWithCertManager() {
	It("should serve with cert-manager's certificates once it is there, and follow them without a restart", func(ctx SpecContext) {
		needCertManager()
		for _, in := range []*kindCluster{hub, c1} {
			installCertManager(ctx, in)
		}
		before := world(ctx)
		operations(ctx, "## Upgrade", "--reuse-values", "--reuse-values --wait")
		working(ctx, "c1")
		for _, each := range []struct {
			in              *kindCluster
			namespace, name string
			pods            int
		}{{hub, hubNamespace, "hollowfleet-hub", 2}, {c1, agentNamespace, "hollowfleet-agent", 1}} {
			By("asking " + each.name + " for its certificate, before and after a renewal")
			issued(ctx, each.in, each.namespace, each.name)
			pods := podsOf(ctx, each.in, each.namespace, each.name)
			Expect(pods).To(HaveLen(each.pods))
			address := map[string]string{}
			for _, pod := range pods {
				address[pod.Name] = forward(ctx, each.in, each.namespace, "pod/"+pod.Name, metricsPort)
			}
			secret := each.name + "-tls"
			for name := range address {
				Eventually(shows(ctx, address[name], each.in, each.namespace, secret)).Should(Succeed(), name)
			}
			renew(ctx, each.in, each.namespace, secret, each.name)
			started := time.Now()
			for name := range address {
				Eventually(shows(ctx, address[name], each.in, each.namespace, secret)).Should(Succeed(), "%s follows its certificate", name)
			}
			figure("cert-manager: from the renewed Secret until "+each.name+" serves with it", seconds(started))
			Expect(starts(podsOf(ctx, each.in, each.namespace, each.name))).To(Equal(starts(pods)), "nothing was started again")
		}
		working(ctx, "c1")
		Expect(world(ctx)).To(Equal(before))
	})

	It("should hold a simulated cluster whose authority and certificates are cert-manager's, and renew them all while it runs", func(ctx SpecContext) {
		needCertManager()
		restricted(ctx, c1, managed)
		makeVolume(ctx, managed, managed, "data-"+managed+"-0")
		started := time.Now()
		readme(ctx, simulatedCluster, "KIND=c1", "KIND="+c1.name, "https://HUB:6443", "https://"+hub.nodeName()+":6443", simulated, managed)
		Eventually(condition(ctx, managed, v1alpha1.ReadyCondition)).Should(HavePrefix("True"))
		figure("a simulated cluster with cert-manager's certificates, from helm install to Ready", seconds(started))
		issued(ctx, c1, managed, append([]string{managed + "-ca"}, managedCertificates...)...)
		inside := lookInto(ctx, managed)
		readme(ctx, firstMachines, "c1", managed)
		Eventually(readyKubelets(ctx, inside)).Should(ConsistOf(older, older))

		pods, processes := podsOf(ctx, c1, managed, "hollowfleet-simcluster"), controlPlane(ctx)
		Expect(pods).To(HaveLen(1))
		server, metrics := forward(ctx, c1, managed, "service/"+managed, 6443), forward(ctx, c1, managed, "pod/"+pods[0].Name, metricsPort)
		Eventually(shows(ctx, server, c1, managed, managed+"-kube-apiserver")).Should(Succeed())
		Eventually(shows(ctx, metrics, c1, managed, managed+"-agent")).Should(Succeed())

		By("renewing the authority, and then what it has signed")
		renew(ctx, c1, managed, managed+"-ca", managed+"-ca")
		for _, name := range managedCertificates {
			renew(ctx, c1, managed, name, name)
		}
		started = time.Now()
		Eventually(shows(ctx, server, c1, managed, managed+"-kube-apiserver")).Should(Succeed(), "the API server follows its certificate")
		Eventually(shows(ctx, metrics, c1, managed, managed+"-agent")).Should(Succeed(), "the agent follows its certificate")
		figure("cert-manager: from the renewed Secrets until API server and agent serve with them", seconds(started))

		By("making one more machine, whose certificate the renewed authority signs")
		run(ctx, "kubectl --namespace "+managed+" scale machinedeployment workers --replicas=3\n")
		Eventually(readyKubelets(ctx, lookInto(ctx, managed))).Should(ConsistOf(older, older, older))
		working(ctx, managed)
		Expect(controlPlane(ctx)).To(Equal(processes), "no component was started again")
		Expect(starts(podsOf(ctx, c1, managed, "hollowfleet-simcluster"))).To(Equal(starts(pods)), "nor a container of the pod")
		removeInOrder(ctx, managed)
	})
}

// certManager is a directory with cert-manager's chart and images. Its name is the version.
func certManager() string { return os.Getenv("HOLLOWFLEET_CERT_MANAGER") }

func needCertManager() {
	if certManager() == "" {
		Skip("make e2e CERT_MANAGER_SOURCE=… runs this: a clone of cert-manager's repository, or its URL")
	}
}

// realNodes keeps a program that has to work away from hollow nodes, which only say that they run it.
const realNodes = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` +
	`{"matchExpressions":[{"key":"hollowfleet.io/hollow","operator":"DoesNotExist"}]}]}}}`

func installCertManager(ctx context.Context, in *kindCluster) {
	GinkgoHelper()
	started := time.Now()
	Expect(in.load(filepath.Join(certManager(), "images.tar"))).To(Succeed())
	script := "helm install cert-manager " + filepath.Join(certManager(), "chart") + " --namespace cert-manager --create-namespace --wait --timeout 5m" +
		" --set crds.enabled=true --set startupapicheck.enabled=false"
	for program, values := range map[string]string{"controller": "", "webhook": "webhook.", "cainjector": "cainjector."} {
		script += fmt.Sprintf(" --set %[1]simage.repository=cert-manager-%[2]s --set %[1]simage.tag=%[3]s --set-json '%[1]saffinity=%[4]s'",
			values, program, filepath.Base(certManager()), realNodes)
	}
	shellIn(ctx, in.kubeconfig, script+"\n")
	figure("cert-manager "+filepath.Base(certManager())+" in "+in.name+", from the load of its images until it is available", seconds(started))
}

var certificateKind = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}

func certificate(ctx context.Context, in *kindCluster, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(certificateKind)
	return object, in.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
}

// statusOf is the status of a condition of a Certificate.
func statusOf(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		if condition, is := each.(map[string]any); is && condition["type"] == kind {
			return fmt.Sprint(condition["status"])
		}
	}
	return ""
}

// issued waits until cert-manager has issued Certificates.
func issued(ctx context.Context, in *kindCluster, namespace string, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Eventually(func() (string, error) {
			object, err := certificate(ctx, in, namespace, name)
			return statusOf(object, "Ready"), err
		}).Should(Equal("True"), "Certificate %s/%s is not issued", namespace, name)
	}
}

// renew has cert-manager renew a Certificate now, as cmctl renew does, and waits until its Secret has another one.
func renew(ctx context.Context, in *kindCluster, namespace, secret, name string) {
	GinkgoHelper()
	before := secretOf(ctx, in, namespace, secret)
	Eventually(func() error {
		object, err := certificate(ctx, in, namespace, name)
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		if err != nil {
			return err
		}
		conditions = append(conditions, map[string]any{
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "The certificate is renewed by hand.",
			"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339), "observedGeneration": object.GetGeneration(),
		})
		if err := unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions"); err != nil {
			return err
		}
		return in.client.Status().Update(ctx, object)
	}).Should(Succeed())
	Eventually(func() []byte { return secretOf(ctx, in, namespace, secret).Data[corev1.TLSCertKey] }).
		ShouldNot(Equal(before.Data[corev1.TLSCertKey]), "Certificate %s/%s is not renewed", namespace, name)
}

func secretOf(ctx context.Context, in *kindCluster, namespace, name string) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(in.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)).To(Succeed())
	return secret
}

// shows wants a server to show the certificate of a Secret, and a client that trusts the Secret's ca.crt to accept it for the name of its
// Service.
func shows(ctx context.Context, address string, in *kindCluster, namespace, name string) func() error {
	return func() error {
		secret := &corev1.Secret{}
		if err := in.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
			return err
		}
		block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
		roots := x509.NewCertPool()
		if block == nil || !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
			return fmt.Errorf("secret %s has no certificate, or no authority", name)
		}
		want, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		// The last name is that of the Service.
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: want.DNSNames[len(want.DNSNames)-1], MinVersion: tls.VersionTLS12}}
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer connection.Close()
		shown := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
		if !bytes.Equal(shown.Raw, want.Raw) {
			return fmt.Errorf("it shows the certificate with serial number %x, and the Secret has %x", shown.SerialNumber, want.SerialNumber)
		}
		return nil
	}
}

// podsOf are the pods of an application that are not ending.
func podsOf(ctx context.Context, in *kindCluster, namespace, application string) []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(in.client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": application})).To(Succeed())
	var pods []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp.IsZero() {
			pods = append(pods, pod)
		}
	}
	return pods
}

// starts has the container processes of pods: another pod, and another start of a container, are others.
func starts(pods []corev1.Pod) map[string]string {
	all := map[string]string{}
	for _, pod := range pods {
		for _, container := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			all[string(pod.UID)+"/"+container.Name] = container.ContainerID
		}
	}
	return all
}

// controlPlane has the process of each component of the simulated cluster.
func controlPlane(ctx context.Context) map[string]int {
	GinkgoHelper()
	printed := run(ctx, "kubectl --kubeconfig c1.kubeconfig --namespace "+managed+" exec "+managed+"-0 --container simcluster -- "+
		"/simcluster status --data-dir /var/lib/simcluster/cluster --output json\n")
	var status struct {
		Components map[string]struct {
			PID     int
			Healthy bool
		}
	}
	Expect(json.Unmarshal([]byte(printed), &status)).To(Succeed(), printed)
	pids := map[string]int{}
	for name, component := range status.Components {
		Expect(component.Healthy).To(BeTrue(), name)
		pids[name] = component.PID
	}
	Expect(pids).To(HaveLen(4))
	return pids
}
