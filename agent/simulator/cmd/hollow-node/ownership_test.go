package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// takeName deletes the Node of a hollow-node and lets another machine register under its name.
func (p *process) takeName(t *testing.T) *corev1.Node {
	t.Helper()
	nodes := p.client.CoreV1().Nodes()
	var taken *corev1.Node
	eventually(t, "another machine has the name", time.Minute, func(ctx context.Context) error {
		if err := nodes.Delete(ctx, p.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
		other.Spec.ProviderID = "aws:///eu-1a/i-0abc"
		other.Status.NodeInfo.KubeletVersion = "v1.30.0"
		var err error
		taken, err = nodes.Create(ctx, other, metav1.CreateOptions{})
		return err
	})
	return taken
}

// expectEnd waits until the process has ended because of the other machine.
func (p *process) expectEnd(t *testing.T) {
	t.Helper()
	err := p.awaitEnd(t, 2*time.Minute) // It must not continue beside the other machine.
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
		t.Errorf("ended with %v, want exit code %d", err, exitFailure)
	}
	log, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if want := fmt.Sprintf("node %q is another machine's: its spec.providerID is \"aws:///eu-1a/i-0abc\"", p.name); err != nil || !strings.Contains(string(log), want) {
		t.Errorf("the log does not say %q: %v", want, err)
	}
}

// Edge case: A hollow-node wrote another's Node. Also: agent/simulator/internal/hollownode TestAPatchOfTheStatusNamesTheNodeThatIsThisKubelets.
func TestAHollowNodeEndsWhenAnotherMachineRegistersUnderItsName(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("taken"), goodToken)
	p.join(t)
	taken := p.takeName(t)
	p.expectEnd(t)
	p.start(t) // As its pod does, again and again.
	p.expectEnd(t)
	node, err := p.node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if node.UID != taken.UID || node.Status.NodeInfo.KubeletVersion != "v1.30.0" || len(node.Status.Capacity) > 0 || len(node.Status.Addresses) > 0 {
		t.Errorf("the other machine's Node was written to: %+v", node.Status)
	}

	if err := p.client.CoreV1().Nodes().Delete(t.Context(), p.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.start(t)
	p.readyNode(t)
}
