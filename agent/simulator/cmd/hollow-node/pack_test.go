package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// packProcess is a pack with its directory.
type packProcess struct {
	dir     string
	command *exec.Cmd
}

// startPack runs a pack until the test ends, at the latest.
func startPack(t *testing.T) *packProcess {
	t.Helper()
	p := &packProcess{dir: t.TempDir()}
	log, err := os.Create(filepath.Join(p.dir, "pack.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.command = exec.Command(binary(t, "hollow-node"), "pack")
	p.command.Dir, p.command.Stdout, p.command.Stderr = p.dir, log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(p.dir, "pack.log"))
			t.Logf("log of the pack:\n%s", text)
		}
	})
	eventually(t, "the pack listens", time.Minute, func(context.Context) error { return pack.Reach(p.dir) })
	return p
}

// startIn starts the hollow-node in a pack.
func (p *process) startIn(t *testing.T, in *packProcess) *pack.Node {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	node, err := pack.Dial(in.dir, pack.Start{Args: p.arguments()}, log)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func expectExit(t *testing.T, node *pack.Node, code int, gone error) {
	t.Helper()
	select {
	case <-node.Done():
	case <-time.After(time.Minute):
		t.Fatal("the node does not end")
	}
	if got, err := node.Exit(); got != code || !errors.Is(err, gone) {
		t.Errorf("the node ended with %d, %v, want %d, %v", got, err, code, gone)
	}
}

// Claim: Kubelets that share a process have versions and identities of their own; an ended one writes nothing. Broken: requests of a node that has ended are sent; the version of the process is reported; metrics of a second kubelet stay.
// Edge case: A second kubelet in a process panics over its metrics.
func TestNodesShareAProcess(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	in := startPack(t)
	var nodes []*process
	var packed []*pack.Node
	versions := []string{"v1.35.4", "", "v1.36.2"}
	for i, version := range versions {
		configuration := configurationOf(fmt.Sprintf("packed-%d", i))
		configuration.KubeletVersion = version
		p := newProcess(t, c, configuration, goodToken)
		nodes, packed = append(nodes, p), append(packed, p.startIn(t, in))
	}
	for i, p := range nodes {
		p.approve(t)
		node := p.readyNode(t)
		if want := versions[i]; want != "" && node.Status.NodeInfo.KubeletVersion != want {
			t.Errorf("%s reports %s, want %s", p.name, node.Status.NodeInfo.KubeletVersion, want)
		}
		p.create(t, p.pod("on-"+p.name), isReady)
	}
	expectOtherGatesAreRefused(t, c, in)

	for _, p := range nodes {
		eventually(t, p.name+" has a lease", time.Minute, func(ctx context.Context) error {
			_, err := p.leaseAge(ctx)
			return err
		})
	}

	packed[0].Signal(syscall.SIGKILL)
	expectExit(t, packed[0], pack.ExitKilled, nil)
	ended := time.Now()
	// A kubelet renews its lease and sends its status every ten seconds, and registers a Node again that is missing.
	throughout(t, "the node that has ended renews no lease", 15*time.Second, func(ctx context.Context) error {
		age, err := nodes[0].leaseAge(ctx)
		if err == nil && age < time.Since(ended)-time.Second {
			err = fmt.Errorf("it was renewed %s ago", age)
		}
		return err
	})
	if err := c.client.CoreV1().Nodes().Delete(t.Context(), nodes[0].name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	throughout(t, "the node that has ended registers no Node", 15*time.Second, func(ctx context.Context) error {
		if _, err := nodes[0].node(ctx); !apierrors.IsNotFound(err) {
			return fmt.Errorf("its Node: want NotFound, got %w", err)
		}
		return nil
	})
	for _, p := range nodes[1:] {
		eventually(t, p.name+" renews its lease", time.Minute, func(ctx context.Context) error { return p.leaseRenewedAfter(ctx, ended) })
	}
	packed[0] = nodes[0].startIn(t, in)
	nodes[0].readyNode(t)

	packed[1].Signal(syscall.SIGTERM)
	expectExit(t, packed[1], 0, nil)
	if err := in.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, node := range []*pack.Node{packed[0], packed[2]} {
		expectExit(t, node, pack.ExitKilled, pack.ErrGone)
	}
}

// Claim: Nodes with every feature of a kubelet share a process as well. Broken: metrics of a second kubelet's certificates stay.
// Edge case: Kubelets that watch PodCertificateRequests ended their pack one after the other, and half of them never became Ready.
func TestRealisticNodesShareAProcess(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	in := startPack(t)
	var packed []*pack.Node
	for i := range 3 {
		configuration := configurationOf(fmt.Sprintf("realistic-%d", i))
		fidelity := contract.Realistic()
		configuration.Fidelity = &fidelity
		p := newProcess(t, c, configuration, goodToken)
		packed = append(packed, p.startIn(t, in))
		p.approve(t)
		p.readyNode(t)
	}
	for _, node := range packed {
		node.Signal(syscall.SIGTERM)
		expectExit(t, node, 0, nil)
	}
}

// expectOtherGatesAreRefused fails if a pack takes a node that needs other feature gates than those that it has.
func expectOtherGatesAreRefused(t *testing.T, c *cluster, in *packProcess) {
	t.Helper()
	configuration := configurationOf("packed-otherwise")
	fidelity := configuration.EffectiveFidelity()
	fidelity.Kubelet.PodCertificateRequests = !fidelity.Kubelet.PodCertificateRequests
	configuration.Fidelity = &fidelity
	p := newProcess(t, c, configuration, goodToken)
	if _, err := pack.Dial(in.dir, pack.Start{Args: p.arguments()}, io.Discard); !errors.Is(err, pack.ErrRefused) {
		t.Errorf("a node with other feature gates: %v, want ErrRefused", err)
	}
}

// Claim: A disruption of one node of a pack touches that node alone. Broken: a Kill ends the process; the node is taken by a pack again; a frozen Lease is everyone's.
func TestADisruptionTouchesOneNodeOfAPack(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	in := startPack(t)
	var nodes []*process
	var packed []*pack.Node
	for i := range 2 {
		p := newProcess(t, c, configurationOf(fmt.Sprintf("disrupted-%d", i)), goodToken)
		nodes, packed = append(nodes, p), append(packed, p.startIn(t, in))
	}
	killed, frozen := nodes[0], nodes[1]
	for _, p := range nodes {
		p.approve(t)
		p.readyNode(t)
		eventually(t, p.name+" has a lease", time.Minute, func(ctx context.Context) error {
			_, err := p.leaseAge(ctx)
			return err
		})
		// What the process counts is of all its nodes, so none of them shows it.
		for path, code := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 404, "/debug/pprof/": 404} {
			if err := p.expectProbe(path, code); err != nil {
				t.Error(err)
			}
		}
	}
	first := killed.readyNode(t)
	frozen.disrupt(t, lasting(5*time.Minute, plan.Fault{Type: plan.FreezeHeartbeat}))
	kill := lasting(5*time.Minute, plan.Fault{Type: plan.Kill})
	kill.HealthyFor = seconds(3)
	killed.disrupt(t, kill)
	expectExit(t, packed[0], pack.ExitKilled, nil)
	if code, _ := killed.probe("/healthz"); code != 0 {
		t.Errorf("the health of a node that was killed: %d", code)
	}
	if err := frozen.expectProbe("/healthz", 200); err != nil {
		t.Error(err)
	}
	if _, err := pack.Dial(in.dir, pack.Start{Args: killed.arguments()}, io.Discard); !errors.Is(err, pack.ErrAlone) {
		t.Errorf("a node that is killed again and again: %v, want ErrAlone", err)
	}
	killed.start(t) // As a podhost does then.
	eventually(t, "the Node is ready again", time.Minute, killed.anotherBoot(first))
	began := time.Now()
	eventually(t, "the frozen lease is old", time.Minute, frozen.leaseFrozen(true))
	if err := killed.leaseRenewedAfter(t.Context(), began); err != nil {
		t.Errorf("the Lease of the other node of the pack: %v", err)
	}

	frozen.disrupt(t)
	eventually(t, "the lease is renewed again", time.Minute, frozen.leaseFrozen(false))
	expectMoveIsNotSeen(t, frozen, packed[1])
}

// expectMoveIsNotSeen moves a node to another pack, as a podhost does, and fails if its Node is not Ready meanwhile.
func expectMoveIsNotSeen(t *testing.T, p *process, node *pack.Node) {
	t.Helper()
	before := p.readyNode(t)
	changes, err := p.client.CoreV1().Nodes().Watch(t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: p.name, ResourceVersion: before.ResourceVersion}))
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	node.Signal(syscall.SIGTERM)
	expectExit(t, node, 0, nil)
	p.startIn(t, startPack(t))
	deadline := time.After(time.Minute)
	for {
		select {
		case change := <-changes.ResultChan():
			after, ok := change.Object.(*corev1.Node)
			if !ok {
				t.Fatalf("the Node: %s %T", change.Type, change.Object)
			}
			for _, one := range after.Status.Conditions {
				if one.Type == corev1.NodeReady && one.Status != corev1.ConditionTrue {
					t.Errorf("the Node is not Ready while it moves: %+v", one)
				}
			}
			if after.Status.NodeInfo.BootID != before.Status.NodeInfo.BootID {
				return
			}
		case <-deadline:
			t.Fatal("the node does not report from its other pack")
		}
	}
}
