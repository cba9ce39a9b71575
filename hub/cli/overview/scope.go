package overview

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// Scope is what of a fleet is looked at: all of it, or one namespace with the Cluster of its name.
type Scope struct {
	// Namespace is empty for the whole fleet.
	Namespace string
}

// Options choose the objects of a kind that are in the scope. inside is false for a kind of the whole fleet, of which none is in a namespace.
func (s Scope) Options(kind health.ListedKind) (options []client.ListOption, inside bool) {
	switch {
	case s.Namespace == "":
		return nil, true
	case kind.Namespaced:
		return []client.ListOption{client.InNamespace(s.Namespace)}, true
	case kind.Kind == health.Cluster: // A role with this resourceName allows it.
		return []client.ListOption{client.MatchingFields{metav1.ObjectNameField: s.Namespace}}, true
	}
	return nil, false
}

// kinds are those of which some objects are in the scope.
func (s Scope) kinds() []health.ListedKind {
	return slices.DeleteFunc(slices.Clone(health.Kinds), func(kind health.ListedKind) bool {
		_, inside := s.Options(kind)
		return !inside
	})
}

// Describe says what the scope leaves out; empty for nothing.
func (s Scope) Describe() string {
	if s.Namespace == "" {
		return ""
	}
	var outside []string
	for _, kind := range health.Kinds {
		if _, inside := s.Options(kind); !inside {
			outside = append(outside, plural.Of(kind.Kind))
		}
	}
	return fmt.Sprintf("only namespace %s is shown. Not seen: all other namespaces and Clusters, and %s", s.Namespace, strings.Join(outside, ", "))
}

// subject is what a verdict is about.
func (s Scope) subject() string {
	if s.Namespace == "" {
		return "the fleet"
	}
	return "namespace " + s.Namespace
}

// FindScope is the namespace of --namespace, or the whole fleet. A user who may list Machines in the namespace of their kubeconfig's context
// alone gets that.
func FindScope(ctx context.Context, hub *cmdutil.Hub, c client.Client) (Scope, error) {
	if chosen := hub.ChosenNamespace(); chosen != "" {
		return Scope{chosen}, nil
	}
	namespace, err := hub.Namespace()
	if err != nil || namespace == metav1.NamespaceDefault {
		return Scope{}, err
	}
	if allowed, err := mayListMachines(ctx, c, metav1.NamespaceAll); allowed || err != nil {
		return Scope{}, err
	}
	if allowed, err := mayListMachines(ctx, c, namespace); !allowed || err != nil {
		return Scope{}, err
	}
	return Scope{namespace}, nil
}

func mayListMachines(ctx context.Context, c client.Client, namespace string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "machines", Namespace: namespace},
	}}
	if err := c.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking the hub which namespaces you may read: %w", err)
	}
	return review.Status.Allowed, nil
}
