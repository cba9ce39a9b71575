package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// commonName returns the user that a request asks a certificate for.
func commonName(request certificatesv1.CertificateSigningRequest) string {
	block, _ := pem.Decode(request.Spec.Request)
	if block == nil {
		return ""
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	return parsed.Subject.CommonName
}

func TestANodeWaitsForItsApproval(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("late"), goodToken)
	p.start(t)
	eventually(t, "the request is there", time.Minute, func(ctx context.Context) error {
		own, err := p.requests(ctx)
		if err != nil {
			return err
		}
		if len(own) != 1 {
			return fmt.Errorf("want 1 request, got %d", len(own))
		}
		if got := own[0].Spec; got.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || got.Username != "system:bootstrap:abcdef" {
			return fmt.Errorf("signer %s, user %s", got.SignerName, got.Username)
		}
		return nil
	})
	throughout(t, "waiting for the approval", 5*time.Second, func(context.Context) error {
		if err := p.expectProbe("/healthz", 200); err != nil {
			return err
		}
		return p.expectProbe("/readyz", 503)
	})
	p.approve(t)
	p.readyNode(t)
	if err := p.expectProbe("/readyz", 200); err != nil {
		t.Error(err)
	}
}

func TestANodeTakesARenewedBootstrapToken(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("renewed"), "abcdef.ffffffffffffffff")
	p.start(t)
	throughout(t, "with a token that is not valid", 3*time.Second, func(ctx context.Context) error {
		if own, err := p.requests(ctx); err != nil || len(own) != 0 {
			return fmt.Errorf("%d requests, error %s", len(own), fmt.Sprint(err))
		}
		if code, text := p.probe("/healthz"); code != 200 && code != 0 {
			return fmt.Errorf("healthz: %d %s", code, text)
		}
		return nil
	})
	p.bootstrapKubeconfig(t, p.bootstrapPath(), goodToken)
	p.approve(t)
	p.readyNode(t)
}

// Claim: One certificate request per node. Broken: each attempt makes a request of its own.
func TestANodeAsksAgainWhenItsDeniedRequestIsGone(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("denied"), goodToken)
	p.start(t)
	p.decide(t, certificatesv1.CertificateDenied)
	throughout(t, "denied", 3*time.Second, func(ctx context.Context) error {
		if own, err := p.requests(ctx); err != nil || len(own) != 1 {
			return fmt.Errorf("want the one denied request, got %d, error %s", len(own), fmt.Sprint(err))
		}
		return p.expectProbe("/healthz", 200)
	})
	own, err := p.requests(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.client.CertificatesV1().CertificateSigningRequests().Delete(context.Background(), own[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.approve(t)
	p.readyNode(t)
}

// Claim: Reports the Machine's kubelet version. Broken: reports the built-in version.
// Claim: Capacity and extended resources. Broken: no capacity.
// Claim: Max pods. Broken: always 110.
// Claim: OS image. Broken: always the default.
func TestTheNodeIsAsConfigured(t *testing.T) {
	t.Parallel()
	configuration := configurationOf("configured")
	configuration.KubeletVersion = "v1.29.4"
	configuration.ContainerRuntimeName, configuration.ContainerRuntimeVersion = "containerd", "1.7.20"
	configuration.OSImage = "Example OS 7"
	configuration.Labels = map[string]string{"example.com/pool": "blue", "node.kubernetes.io/instance-type": "m5"}
	configuration.Taints = []corev1.Taint{{Key: "example.com/only", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	p := newProcess(t, realCluster(t), configuration, goodToken)
	node := p.join(t)

	for what, got := range map[string][2]string{
		"provider ID":      {node.Spec.ProviderID, configuration.ProviderID},
		"kubelet version":  {node.Status.NodeInfo.KubeletVersion, "v1.29.4"},
		"runtime version":  {node.Status.NodeInfo.ContainerRuntimeVersion, "containerd://1.7.20"},
		"OS image":         {node.Status.NodeInfo.OSImage, "Example OS 7"},
		"hollow label":     {node.Labels["hollowfleet.io/hollow"], "true"},
		"version source":   {node.Labels["hollowfleet.io/kubelet-version-source"], "Reported"},
		"own label":        {node.Labels["example.com/pool"], "blue"},
		"instance type":    {node.Labels["node.kubernetes.io/instance-type"], "m5"},
		"hostname label":   {node.Labels[corev1.LabelHostname], p.name},
		"internal address": {addressOf(node, corev1.NodeInternalIP), nodeAddress},
		"hostname":         {addressOf(node, corev1.NodeHostName), p.name},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: want %q, got %q", what, got[1], got[0])
		}
	}
	if !hasTaint(node, configuration.Taints[0]) {
		t.Errorf("taints: want %v among %v", configuration.Taints[0], node.Spec.Taints)
	}
	want := configuration.Capacity.DeepCopy()
	want[corev1.ResourcePods] = *newQuantity(42)
	for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		for name, quantity := range want {
			if got := list[name]; got.Cmp(quantity) != 0 {
				t.Errorf("%s: want %s, got %s", name, quantity.String(), got.String())
			}
		}
		if len(list) != len(want) {
			t.Errorf("want no resources but %v, got %v", want, list)
		}
	}
	if info := node.Status.NodeInfo; info.MachineID == "" || info.SystemUUID == "" || info.BootID == "" || info.KernelVersion == "" {
		t.Errorf("node info is not complete: %+v", info)
	}
}

func addressOf(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, address := range node.Status.Addresses {
		if address.Type == kind {
			return address.Address
		}
	}
	return ""
}

func hasTaint(node *corev1.Node, want corev1.Taint) bool {
	for _, taint := range node.Spec.Taints {
		if taint.MatchTaint(&want) && taint.Value == want.Value {
			return true
		}
	}
	return false
}

// Claim: A hollow node has its own `system:node` identity. Broken: another name is asked for. Also: TestTheNodeIsAsConfigured.
func TestTheIdentityIsRestricted(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	p := newProcess(t, c, configurationOf("restricted"), goodToken)
	p.join(t)
	other := newProcess(t, c, configurationOf("other"), goodToken)
	other.join(t)
	pair := filepath.Join(p.stateDir(), "pki", "kubelet-client-current.pem")
	if info, err := os.Stat(pair); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the private key can be read by others: %v, %v", info.Mode(), err)
	}
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: c.server, TLSClientConfig: rest.TLSClientConfig{
		CAFile: c.caFile, CertFile: pair, KeyFile: pair,
	}})
	label := func(node, key string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"x"}}}`, key)
		_, err := client.CoreV1().Nodes().Patch(context.Background(), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	if err := label("restricted", "example.com/allowed"); err != nil {
		t.Errorf("an allowed label: %v", err)
	}
	for _, forbidden := range [][2]string{
		{"restricted", "node-restriction.kubernetes.io/x"}, {"restricted", "node-role.kubernetes.io/control-plane"}, {"other", "example.com/allowed"},
	} {
		if err := label(forbidden[0], forbidden[1]); !apierrors.IsForbidden(err) {
			t.Errorf("label %s on node %s: want it forbidden, got %v", forbidden[1], forbidden[0], err)
		}
	}
	if _, err := client.CoreV1().Secrets("kube-system").List(context.Background(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets: want it forbidden, got %v", err)
	}
}
