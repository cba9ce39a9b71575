package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

func newQuantity(value int64) *resource.Quantity {
	return resource.NewQuantity(value, resource.DecimalSI)
}

// Claim: Clean exit on SIGTERM. Broken: SIGTERM not handled.
func TestARestartedNodeKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("restarted"), goodToken)
	first := p.join(t)
	if code, took := p.terminate(t); code != 0 || took > 10*time.Second {
		t.Errorf("SIGTERM: exit code %d after %s", code, took)
	}
	if _, err := p.node(context.Background()); err != nil {
		t.Errorf("the Node did not stay: %v", err)
	}
	p.bootstrapKubeconfig(t, p.bootstrapPath(), "abcdef.ffffffffffffffff") // must not be needed
	p.start(t)
	eventually(t, "the restarted kubelet reports", time.Minute, func(ctx context.Context) error {
		node, err := p.node(ctx)
		if err != nil {
			return err
		}
		if node.Status.NodeInfo.BootID == first.Status.NodeInfo.BootID {
			return errors.New("the boot ID is still the old one")
		}
		if node.UID != first.UID || node.Status.NodeInfo.SystemUUID != first.Status.NodeInfo.SystemUUID {
			return fmt.Errorf("UID %s, system UUID %s", node.UID, node.Status.NodeInfo.SystemUUID)
		}
		return nil
	})
	p.readyNode(t)
	if own, err := p.requests(context.Background()); err != nil || len(own) != 1 {
		t.Errorf("want no other request than the first, got %d, %v", len(own), err)
	}
	if left, err := os.ReadDir(p.tempDir()); err != nil || len(left) != 0 {
		t.Errorf("files outside of the state directory: %v, %v", left, err)
	}
}

func TestADeletedNodeComesBack(t *testing.T) {
	t.Parallel()
	configuration := configurationOf("deleted")
	configuration.Labels = map[string]string{"example.com/pool": "blue"}
	configuration.Taints = []corev1.Taint{{Key: "example.com/only", Effect: corev1.TaintEffectNoSchedule}}
	p := newProcess(t, realCluster(t), configuration, goodToken)
	first := p.join(t)
	if err := p.client.CoreV1().Nodes().Delete(context.Background(), p.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Node is there again", time.Minute, func(ctx context.Context) error {
		node, err := p.node(ctx)
		if err == nil && node.UID == first.UID {
			return errors.New("the Node is still the old one")
		}
		return err
	})
	node := p.readyNode(t)
	if node.Labels["example.com/pool"] != "blue" || node.Spec.ProviderID != configuration.ProviderID || !hasTaint(node, configuration.Taints[0]) {
		t.Errorf("the Node came back with labels %v, provider ID %q, taints %v", node.Labels, node.Spec.ProviderID, node.Spec.Taints)
	}
	eventually(t, "the lease is renewed", time.Minute, func(ctx context.Context) error {
		return p.leaseRenewedAfter(ctx, node.CreationTimestamp.Time)
	})
}

func (p *process) leaseRenewedAfter(ctx context.Context, moment time.Time) error {
	lease, err := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, p.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if lease.Spec.RenewTime == nil || !lease.Spec.RenewTime.After(moment) {
		return fmt.Errorf("renewed at %v, want after %v", lease.Spec.RenewTime, moment)
	}
	return nil
}

// A control plane of its own: after an absence each controller takes up its work when its own back-off ends, up to half a
// minute later, and other tests would wait for that.
// Claim: Faults start and end without the API server. Broken: the end of a window is not noticed.
func TestANodeOutlivesTheAPIServersAbsence(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	t.Cleanup(c.stop)
	p := newProcess(t, c, configurationOf("patient"), goodToken)
	p.join(t)
	p.component(t, "stop", "kube-apiserver")
	stopped := time.Now()
	disruption := lasting(25*time.Second, plan.Fault{Type: plan.NotReady})
	disruption.HealthyFor = seconds(5)
	p.disrupt(t, disruption)
	eventually(t, "a fault starts without the API server", time.Until(disruption.End.Time), func(context.Context) error {
		return p.expectFaults(plan.NotReady)
	})
	throughout(t, "the API server is away", time.Until(stopped.Add(30*time.Second)), func(context.Context) error {
		if err := p.expectProbe("/healthz", 200); err != nil {
			return err
		}
		return p.expectProbe("/readyz", 200)
	})
	eventually(t, "the fault ends without the API server", time.Minute, func(context.Context) error { return p.expectFaults() })
	p.component(t, "start", "kube-apiserver")
	back := time.Now()
	eventually(t, "the lease is renewed after the API server's return", time.Minute, func(ctx context.Context) error {
		return p.leaseRenewedAfter(ctx, back)
	})
	// The kubelet watches its Node again when its own back-off ends, which is a minute at most, and reports what it finds.
	eventually(t, "the Node is ready", 2*time.Minute, p.condition(corev1.NodeReady, corev1.ConditionTrue, ""))
}

// Claim: Start-up delay. Broken: no delay.
func TestStartupDelay(t *testing.T) {
	t.Parallel()
	configuration := configurationOf("delayed")
	configuration.StartupDelay = metav1.Duration{Duration: 8 * time.Second}
	p := newProcess(t, realCluster(t), configuration, goodToken)
	p.start(t)
	eventually(t, "health is served before the delay is over", 6*time.Second, func(context.Context) error {
		return p.expectProbe("/healthz", 200)
	})
	if own, err := p.requests(context.Background()); err != nil || len(own) != 0 {
		t.Errorf("during the delay: %d requests, %v", len(own), err)
	}
	p.approve(t)
	p.readyNode(t)
}

func TestExitCodes(t *testing.T) {
	kubeconfig := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
	good, err := contract.Marshal(configurationOf("n"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", bindAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, taken, _ := net.SplitHostPort(listener.Addr().String())
	dir, bad := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		filepath.Join(dir, contract.ConfigFileName):              string(good),
		filepath.Join(dir, contract.BootstrapKubeconfigFileName): kubeconfig,
		filepath.Join(bad, contract.ConfigFileName):              `{"maxPods": 0}`,
		filepath.Join(bad, contract.BootstrapKubeconfigFileName): kubeconfig,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state := t.TempDir()
	for name, test := range map[string]struct {
		arguments []string
		code      int
		says      string
	}{
		"help":              {[]string{"--help"}, 0, "Examples:"},
		"version":           {[]string{"version"}, 0, "v1.37."},
		"unknown flag":      {[]string{"--nonsense"}, 2, "--nonsense"},
		"unknown command":   {[]string{"nonsense"}, 2, "nonsense"},
		"no directories":    {nil, 2, "configuration directory"},
		"bad configuration": {[]string{"--config-dir", bad, "--state-dir", state}, 2, "nodeName: required"},
		"port in use":       {[]string{"--config-dir", dir, "--state-dir", state, "--bind-address", bindAddress, "--health-port", taken}, 1, taken},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := exec.Command(binary(t, "hollow-node"), test.arguments...).CombinedOutput()
			code := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if code != test.code || !strings.Contains(string(output), test.says) {
				t.Errorf("want exit code %d and %q, got %d: %s", test.code, test.says, code, output)
			}
		})
	}
}
