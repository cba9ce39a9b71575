package hollownode

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// checkNode returns an error if a Node of this kubelet's name is not the one that it registers, and lets the process end with
// it: the Node was deleted, and another machine has registered under its name. The provider ID tells, because the API
// server lets no client change it, and a kubelet that finds a Node registered does not set it.
func (r *registration) checkNode(node *corev1.Node) error {
	if node.Spec.ProviderID == r.providerID {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.uid != node.UID {
			r.uid = node.UID
			r.found(node.UID)
		}
		return nil
	}
	err := fmt.Errorf("node %q is another machine's: its spec.providerID is %q, and this hollow-node registers %q: "+
		"delete that Node, or create the Machine with another name", node.Name, node.Spec.ProviderID, r.providerID)
	select {
	case r.lost <- err:
	default: // An earlier error ends the process already.
	}
	return err
}

// Get is called by the kubelet for its own Node only, as are List and Watch, with which it follows the Node.
func (n registeringNodes) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Node, error) {
	node, err := n.NodeInterface.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	if err := n.registration.checkNode(node); err != nil {
		return nil, err
	}
	return node, nil
}

// List fails for another machine's Node, so that the kubelet does not take that machine's pods for its own.
func (n registeringNodes) List(ctx context.Context, options metav1.ListOptions) (*corev1.NodeList, error) {
	list, err := n.NodeInterface.List(ctx, options)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if err := n.registration.checkNode(&list.Items[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Watch leaves another machine's Node out.
func (n registeringNodes) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events, err := n.NodeInterface.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		node, ok := event.Object.(*corev1.Node)
		if !ok || event.Type != watch.Added && event.Type != watch.Modified {
			return event, true
		}
		return event, n.registration.checkNode(node) == nil
	}), nil
}

// Patch is called by the kubelet for the status of its Node. It carries the UID of the Node that was found to be this
// kubelet's: the API server refuses it for another Node, also before the process has heard of that one.
func (n registeringNodes) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*corev1.Node, error) {
	if slices.Equal(subresources, []string{"status"}) {
		bound, err := n.registration.bindPatch(data)
		if err != nil {
			return nil, err
		}
		data = bound
	}
	return n.NodeInterface.Patch(ctx, name, kind, data, options, subresources...)
}

// bindPatch adds the UID of this kubelet's Node to a patch.
func (r *registration) bindPatch(patch []byte) ([]byte, error) {
	r.mu.Lock()
	uid := r.uid
	r.mu.Unlock()
	if uid == "" {
		return patch, nil
	}
	var fields, metadata map[string]json.RawMessage
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, fmt.Errorf("reading the patch of the node's status: %w", err)
	}
	if existing := fields["metadata"]; existing != nil {
		if err := json.Unmarshal(existing, &metadata); err != nil {
			return nil, fmt.Errorf("reading the metadata in the patch of the node's status: %w", err)
		}
	}
	if metadata == nil {
		metadata = map[string]json.RawMessage{}
	}
	metadata["uid"], _ = json.Marshal(uid) // A string always can be written.
	fields["metadata"], _ = json.Marshal(metadata)
	bound, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("writing the patch of the node's status: %w", err)
	}
	return bound, nil
}
