package main

import (
	"testing"

	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const certManagerAPI = "cert-manager.io/v1"

// issuer and certificate are what the charts use of cert-manager's kinds. Its own Go types would bring half of its module here.
type issuer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SelfSigned *struct{} `json:"selfSigned"`
		CA         *struct {
			SecretName string `json:"secretName"`
		} `json:"ca"`
	} `json:"spec"`
}

type certificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretName  string   `json:"secretName"`
		IsCA        bool     `json:"isCA"`
		CommonName  string   `json:"commonName"`
		Duration    string   `json:"duration"`
		RenewBefore string   `json:"renewBefore"`
		DNSNames    []string `json:"dnsNames"`
		IPAddresses []string `json:"ipAddresses"`
		Usages      []string `json:"usages"`
		Subject     struct {
			Organizations []string `json:"organizations"`
		} `json:"subject"`
		PrivateKey struct {
			Algorithm      string `json:"algorithm"`
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
		IssuerRef struct {
			Group string `json:"group"`
			Kind  string `json:"kind"`
			Name  string `json:"name"`
		} `json:"issuerRef"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object. Nothing changes a rendered object.
func (i *issuer) DeepCopyObject() runtime.Object { return i }

// DeepCopyObject implements runtime.Object.
func (c *certificate) DeepCopyObject() runtime.Object { return c }

func addCertificates(known *runtime.Scheme) {
	version := schema.GroupVersion{Group: "cert-manager.io", Version: "v1"}
	known.AddKnownTypeWithName(version.WithKind("Issuer"), &issuer{})
	known.AddKnownTypeWithName(version.WithKind("Certificate"), &certificate{})
}

// Claim: `tls.mode` decides the certificate. Broken: probes without HTTPS.
func TestHowHealthAndMetricsAreServed(t *testing.T) {
	for name, test := range map[string]struct {
		set, apis      string
		args           []string
		scheme         corev1.URIScheme
		issuer, secret string
	}{
		"cert-manager is there":    {apis: certManagerAPI, args: []string{"--tls-cert-file=/etc/hollowfleet/tls/tls.crt", "--tls-private-key-file=/etc/hollowfleet/tls/tls.key"}, scheme: corev1.URISchemeHTTPS, issuer: "Issuer "},
		"with an Issuer":           {set: "tls.issuer.name=fleet,tls.issuer.kind=ClusterIssuer,", apis: certManagerAPI, args: []string{"--tls-cert-file=/etc/hollowfleet/tls/tls.crt", "--tls-private-key-file=/etc/hollowfleet/tls/tls.key"}, scheme: corev1.URISchemeHTTPS, issuer: "ClusterIssuer fleet"},
		"it is not":                {args: []string{"--tls-self-signed=true"}, scheme: corev1.URISchemeHTTPS},
		"it is there, and ignored": {set: "tls.mode=selfSigned,", apis: certManagerAPI, args: []string{"--tls-self-signed=true"}, scheme: corev1.URISchemeHTTPS},
		"without TLS":              {set: "tls.mode=none,", apis: certManagerAPI, scheme: corev1.URISchemeHTTP},
	} {
		for _, o := range both {
			t.Run(o.name+" "+name, func(t *testing.T) {
				g := NewWithT(t)
				o.apis = test.apis
				objects := o.objects(t, test.set+"metrics.serviceMonitor.enabled=true")
				pod := find[*appsv1.Deployment](t, objects, "").Spec.Template.Spec
				var args []string
				for _, arg := range pod.Containers[0].Args {
					if len(arg) > 6 && arg[:6] == "--tls-" {
						args = append(args, arg)
					}
				}
				g.Expect(args).To(Equal(test.args))
				for _, probe := range []*corev1.Probe{pod.Containers[0].StartupProbe, pod.Containers[0].LivenessProbe, pod.Containers[0].ReadinessProbe} {
					g.Expect(probe.HTTPGet.Scheme).To(Equal(test.scheme))
				}
				endpoint := find[*monitoringv1.ServiceMonitor](t, objects, "").Spec.Endpoints[0]
				g.Expect(endpoint.Scheme != nil && *endpoint.Scheme == "https").To(Equal(test.scheme == corev1.URISchemeHTTPS))
				if test.issuer == "" {
					for _, object := range objects {
						g.Expect(object).NotTo(Or(BeAssignableToTypeOf(&issuer{}), BeAssignableToTypeOf(&certificate{})))
					}
					g.Expect(endpoint.TLSConfig != nil && *endpoint.TLSConfig.InsecureSkipVerify).To(Equal(test.scheme == corev1.URISchemeHTTPS))
					return
				}
				made := find[*certificate](t, objects, "")
				want := test.issuer
				if want == "Issuer " {
					want += find[*issuer](t, objects, "").Name
				}
				g.Expect(made.Spec.IssuerRef.Kind + " " + made.Spec.IssuerRef.Name).To(Equal(want))
				g.Expect(made.Spec.DNSNames).To(ConsistOf(*endpoint.TLSConfig.ServerName))
				g.Expect(made.Spec.SecretName).To(Equal(endpoint.TLSConfig.CA.Secret.Name))
				g.Expect(pod.Volumes).To(ContainElement(And(HaveField("Name", "tls"), HaveField("VolumeSource.Secret.SecretName", made.Spec.SecretName))))
				g.Expect(pod.Containers[0].VolumeMounts).To(ContainElement(And(HaveField("Name", "tls"), HaveField("MountPath", "/etc/hollowfleet/tls"))))
			})
		}
	}
}

// Claim: Traces go where values say. Broken: the policy does not let them out; the ratio is not that of the values.
func TestTracesAreSentWhereTheValuesSay(t *testing.T) {
	for _, o := range all {
		g := NewWithT(t)
		objects := o.objects(t, tracingSet)
		container := workloadOf(t, objects).pod.Spec.Containers[0]
		g.Expect(container.Args).To(ContainElements("--otlp-endpoint=http://collector.observability:4317", "--trace-sampling-ratio=0.1", "--otlp-metrics-interval=1m"), o.name)
		g.Expect(container.Env).To(ConsistOf(corev1.EnvVar{Name: "OTEL_SERVICE_NAMESPACE", Value: "machines"}), o.name)
		var ports []int32
		for _, rule := range find[*networkingv1.NetworkPolicy](t, objects, "").Spec.Egress {
			for _, port := range rule.Ports {
				ports = append(ports, port.Port.IntVal)
			}
		}
		g.Expect(ports).To(ContainElement(BeNumerically("==", 4317)), "the policy of %s lets them out", o.name)
		for _, arg := range workloadOf(t, o.objects(t, "")).pod.Spec.Containers[0].Args {
			g.Expect(arg).NotTo(Or(HavePrefix("--otlp"), HavePrefix("--trace")), "%s: off by default", o.name)
		}
	}
}
