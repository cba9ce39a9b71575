package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// MissingKind is what to do about an API server that has only some of Hollowfleet's kinds.
const MissingKind = "the API server does not have this kind: its CustomResourceDefinition was removed, or is older: " +
	"to keep the hub, run \"hub install\" or helm upgrade"

// RemovedKind is what to do about a kind that is being deleted with all its objects.
const RemovedKind = "this kind is being deleted with all its objects. Finalizers that nobody removes keep it: " +
	"kubectl hollow cluster remove-finalizers NAME for each cluster; \"hub install\" brings it back after that"

// Explain makes an error of the hub's API server something that a user can act on. Where nothing runs any more of a fleet on this machine,
// that is the cause. The exit code stays.
func (h *Hub) Explain(err error) error {
	missing, found := missingKind(err)
	switch {
	case found && missing.Group == v1alpha1.GroupVersion.Group && h.hasKinds():
		return fmt.Errorf("%w: %s: %s", err, missing.Kind, MissingKind)
	case found && missing.Group != "" && missing.Group != v1alpha1.GroupVersion.Group:
		return err // It is another project's.
	case found:
		return fmt.Errorf("this API server is not a hub: it does not serve Hollowfleet's kinds. Name the hub's kubeconfig with KUBECONFIG or --kubeconfig,"+
			" or run \"hub install\" to make it a hub (%w)", err)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "custom resource definition is terminating"):
		return fmt.Errorf("%w: %s", err, RemovedKind)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "):
		return fmt.Errorf("%w. Ask an administrator of the hub for this right; kubectl auth can-i --list shows those that you have", err)
	}
	return h.explainLocalHub(err)
}

// explainLocalHub names the cause of an error of a hub on this machine that does not run any more.
func (h *Hub) explainLocalHub(err error) error {
	if code := Code(err); code != Failed && code != TimedOut {
		return err
	}
	if problem := h.DescribeLocalHub(); problem != "" && !strings.Contains(err.Error(), problem) {
		return fmt.Errorf("%s (%w)", problem, err)
	}
	return err
}

// missingKind is the kind that err says the API server does not have; found is false if it says something else.
func missingKind(err error) (missing schema.GroupKind, found bool) {
	var noKind *meta.NoKindMatchError
	var noResource *meta.NoResourceMatchError
	switch {
	case errors.As(err, &noKind):
		return noKind.GroupKind, true
	case errors.As(err, &noResource):
		return schema.GroupKind{Group: noResource.PartialResource.Group, Kind: noResource.PartialResource.Resource}, true
	}
	return schema.GroupKind{}, false
}

// hasKinds reports whether the API server has some of Hollowfleet's kinds.
func (h *Hub) hasKinds() bool {
	config, err := h.Config()
	if err != nil {
		return false
	}
	asking, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false
	}
	found, err := asking.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	return err == nil && len(found.APIResources) > 0
}

// ListKnown is a List for objects that a command can do without: it notes a kind that the API server does not have, and lists none.
func (h *Hub) ListKnown(ctx context.Context, c client.Reader, list client.ObjectList, options ...client.ListOption) error {
	err := c.List(ctx, list, options...)
	missing, found := missingKind(err)
	if !found || missing.Group != v1alpha1.GroupVersion.Group || !h.hasKinds() {
		return err
	}
	h.Note("Left out: %s: %s", missing.Kind, MissingKind)
	return nil
}

// DescribeUnread says why objects of a kind that a command can do without were not listed. partial is false if the command cannot do
// without: no kind of the API server is Hollowfleet's, or the API server has failed. forbidden: the user may not list them.
func (h *Hub) DescribeUnread(err error) (why string, partial, forbidden bool) {
	if apierrors.IsForbidden(err) {
		return "you may not list them", true, true
	}
	missing, found := missingKind(err)
	return MissingKind, found && missing.Group == v1alpha1.GroupVersion.Group && h.hasKinds(), false
}

// NewDefinitions returns an empty list of the definitions of kinds, which has their metadata alone.
func NewDefinitions() *metav1.PartialObjectMetadataList {
	definitions := &metav1.PartialObjectMetadataList{}
	definitions.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	return definitions
}

// RemovedKinds are the plural names of those of Hollowfleet's kinds that are being deleted, sorted: a hub that is being removed. A user who
// may not look has none.
func RemovedKinds(ctx context.Context, c client.Reader) ([]string, error) {
	definitions := NewDefinitions()
	switch err := c.List(ctx, definitions); {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for kinds that are being deleted: %w", err)
	}
	return RemovedIn(definitions), nil
}

// RemovedIn is RemovedKinds of definitions that were listed.
func RemovedIn(definitions *metav1.PartialObjectMetadataList) []string {
	var removed []string
	for i := range definitions.Items {
		name, own := strings.CutSuffix(definitions.Items[i].Name, "."+v1alpha1.GroupVersion.Group)
		if own && definitions.Items[i].DeletionTimestamp != nil {
			removed = append(removed, name)
		}
	}
	slices.Sort(removed)
	return removed
}
