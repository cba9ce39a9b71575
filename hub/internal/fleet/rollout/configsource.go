package rollout

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/configsource/content"
)

// configProblems is the problem of a kubelet configuration whose content neither the cluster's ConfigMap nor a revision of its
// MachineDeployment has.
func (s *Scope) configProblems(ctx context.Context, reader client.Reader, m *Member) ([]Problem, error) {
	source := m.template.Spec.Template.Spec.ConfigSource
	if source == nil {
		return nil, nil
	}
	found, err := content.Find(ctx, reader, m.Cluster.Name)
	var problem string
	switch {
	case apierrors.IsForbidden(err): // A user who asks what a change would do may not read it.
		problem = err.Error()
	case err != nil:
		return nil, err
	default:
		_, problem = content.Read(m.Cluster.Name, found, source)
	}
	if problem == "" {
		return nil, nil
	}
	if kept, err := hasContent(ctx, reader, m, source.SHA256); kept || err != nil {
		return nil, err
	}
	return []Problem{{v1alpha1.ReasonConfigSourceUnavailable, fmt.Sprintf("%s.spec.template.spec.configSource: %s", m.template.field, problem)}}, nil
}

// hasContent reports whether a revision of the cluster's MachineDeployment has a content.
func hasContent(ctx context.Context, reader client.Reader, m *Member, hash string) (bool, error) {
	if m.Deployment == nil || hash == "" {
		return false, nil
	}
	sets := &v1alpha1.MachineSetList{}
	err := reader.List(ctx, sets, client.InNamespace(m.Deployment.Namespace), client.MatchingLabels{v1alpha1.MachineDeploymentNameLabel: m.Deployment.Name})
	if err != nil {
		return false, fmt.Errorf("listing the machine sets of %s/%s: %w", m.Deployment.Namespace, m.Deployment.Name, err)
	}
	for i := range sets.Items {
		source := sets.Items[i].Spec.Template.Spec.ConfigSource
		if metav1.IsControlledBy(&sets.Items[i], m.Deployment) && source != nil && source.Resolved != nil && v1alpha1.ContentHash(source.Resolved.Content) == hash {
			return true, nil
		}
	}
	return false, nil
}
