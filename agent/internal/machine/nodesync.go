package machine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/agent/internal/relist"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// nodes find the Nodes of Machines and keep them in line. What is not proven to be a Machine's is left alone.
type nodes struct {
	target Target
	// seen is what the API server itself has told of Nodes.
	seen relist.Tracker
}

// observeNode finds the Node of the Machine's name and whether it is the Machine's own. The API server is asked whenever
// the cache is not enough: it may be behind, it may hold labelled Nodes only, and before an instance is made the answer
// has to be of this moment.
func (n *nodes) observeNode(ctx context.Context, s *scope) error {
	found := nodeOf(s.Machine)
	err := n.target.Client.Get(ctx, client.ObjectKeyFromObject(found), found)
	if apierrors.IsNotFound(err) || err == nil && (s.InstanceKnown && s.Instance == nil || n.seen.Behind(found)) {
		found = nodeOf(s.Machine)
		err = n.readNode(ctx, found)
	}
	switch {
	case apierrors.IsNotFound(err):
		s.NodeKnown = true
		return nil
	case err != nil:
		return fmt.Errorf("getting node %s: %w", s.Machine.Name, err)
	}
	proven := node.IsOf(found, s.Machine, s.providerIDs)
	if !proven && (!s.InstanceKnown || s.Terminal != nil) {
		// No driver says which provider ID is the Machine's. What the agent has claimed is reported on, and left as it is.
		if node.Claimed(found, s.Machine) {
			s.Node, s.NodeKnown = found, true
		}
		if s.NodeKnown || !s.InstanceKnown {
			return nil
		}
	}
	s.NodeKnown = true
	if !proven {
		s.NodeConflict = node.ConflictMessage(found, s.providerIDs)
		s.recheckWithin(conflictRecheck)
		return nil
	}
	s.Node = found
	return compareNode(s, found)
}

// readNode gets a Node from the target's API server.
func (n *nodes) readNode(ctx context.Context, into *corev1.Node) error {
	err := n.target.Reader.Get(ctx, client.ObjectKeyFromObject(into), into)
	if err == nil {
		n.seen.Observed(into)
	}
	return err
}

func compareNode(s *scope, found *corev1.Node) error {
	s.desired = node.DesiredOf(s.Machine, s.Provider == v1alpha1.ProviderHollow || found.Labels[v1alpha1.HollowNodeLabel] != "").WithProviderTaints(s.taints, s.unwanted)
	if s.Provider == v1alpha1.ProviderKwok || s.Provider == "" && found.Labels[v1alpha1.HollowNodeLabel] == v1alpha1.KwokNodeLabelValue {
		s.desired.Labels[v1alpha1.HollowNodeLabel] = v1alpha1.KwokNodeLabelValue
	}
	changes, err := node.ChangesOf(found, s.desired)
	if err != nil {
		return err
	}
	s.changes = changes
	s.NodeDiffers = changes.Any()
	return nil
}

func (n *nodes) syncNode(ctx context.Context, s *scope) error {
	version, err := node.Sync(ctx, n.target.Client, s.Node, s.desired, s.changes)
	if err == nil {
		s.Node.ResourceVersion = version
		n.seen.Observed(s.Node)
	}
	return err
}

func (n *nodes) cordonNode(ctx context.Context, s *scope) error {
	err := node.Cordon(ctx, n.target.Client, s.Node, node.ForUpdate)
	s.Update.Cordoned = err == nil
	n.seen.Observed(s.Node)
	return err
}

func (n *nodes) uncordonNode(ctx context.Context, s *scope) error {
	err := node.Uncordon(ctx, n.target.Client, s.Node)
	s.Update.Cordoned = err != nil
	n.seen.Observed(s.Node)
	return err
}

// readOwnNode reads the Machine's Node from the API server; nil if there is none, or if it is not the Machine's. One that
// the agent has not written to yet gets the agent's annotations first: no Node is emptied or deleted without them.
func (n *nodes) readOwnNode(ctx context.Context, s *scope) (*corev1.Node, error) {
	found := nodeOf(s.Machine)
	err := n.target.Reader.Get(ctx, client.ObjectKeyFromObject(found), found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting node %s: %w", found.Name, err)
	}
	if !node.IsOf(found, s.Machine, s.providerIDs) {
		klog.FromContext(ctx).Info("Leaving a node that is not this machine's", "Node", klog.KObj(found), "providerID", found.Spec.ProviderID)
		return nil, nil
	}
	if err := node.Claim(ctx, n.target.Client, found, s.Machine); err != nil {
		return nil, fmt.Errorf("claiming the node before it is emptied: %w", err)
	}
	return found, nil
}

// drainNode does one round of a drain and judges it. A round that fails ends no drain, also not after its timeout: nothing
// is known of the pods then.
func (n *nodes) drainNode(ctx context.Context, s *scope) error {
	round, err := n.target.Drain.Round(ctx, s.Node)
	var frozen *freeze.Error
	switch {
	case errors.As(err, &frozen):
		return err
	case err != nil:
		s.drain = &drain.Report{
			Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining,
			Message: "the pods of the node cannot be listed; the agent tries again, and its log says why",
		}
		return err
	}
	report := drain.Evaluate(round, s.Elapsed.Drain, s.Limits.Drain)
	s.drain = &report
	if !report.Over {
		s.recheckWithin(report.Recheck)
		return nil
	}
	n.target.Drain.Forget(s.Node.Name)
	return nil
}

// removeNode deletes the Machine's Node, whose kubelet has ended by now. It reports true when there is none.
func (n *nodes) removeNode(ctx context.Context, s *scope) (bool, error) {
	found, err := n.readOwnNode(ctx, s)
	if err != nil || found == nil {
		return err == nil, err
	}
	s.Node, s.NodeKnown = found, true
	s.recheckAfter = nodeDeletionRetry
	if found.DeletionTimestamp.IsZero() {
		// What was proven holds for this very version of the Node.
		proven := client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion}
		if err := n.target.Client.Delete(ctx, found, proven); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("deleting node %s: %w", found.Name, err)
		}
	}
	err = n.target.Reader.Get(ctx, client.ObjectKeyFromObject(found), nodeOf(s.Machine))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("getting node %s: %w", found.Name, err)
	}
	return apierrors.IsNotFound(err), nil
}

// observeRest looks whether the Node of a Machine that the agent is done with is still there.
func (n *nodes) observeRest(ctx context.Context, s *scope) error {
	found := nodeOf(s.Machine)
	err := n.target.Reader.Get(ctx, client.ObjectKeyFromObject(found), found)
	s.NodeKnown = client.IgnoreNotFound(err) == nil
	if err == nil && node.IsOf(found, s.Machine, s.providerIDs) {
		s.Node = found
	}
	return client.IgnoreNotFound(err)
}
