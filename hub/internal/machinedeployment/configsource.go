package machinedeployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/configsource/content"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
)

// configSource is how the template got its KubeletConfiguration.
type configSource struct {
	// missing says why there is no content, and what to do; empty if there is, or if none is asked for.
	missing string
	// kept says why the content of the last revision is still that of the template; empty if it is what the ConfigMap has.
	kept string
}

// resolveTemplate makes s.template: the deployment's, with the content that its configSource means. What sha256 asks for may be in a set
// of the history, however the ConfigMap has changed since. While the ConfigMap has none, a template that is otherwise that of the last
// revision keeps the content of it: what has been deleted changes no Machine.
func (s *scope) resolveTemplate(found *corev1.ConfigMap, sets []v1alpha1.MachineSet) error {
	s.template = s.deployment.Spec.Template
	if s.template.Spec.ConfigSource == nil {
		return nil
	}
	source := *s.template.Spec.ConfigSource
	source.Resolved = nil
	s.template.Spec.ConfigSource = &source
	own := s.revisions(sets)
	for _, set := range own {
		taken := contentOf(set)
		if source.SHA256 != "" && taken != nil && v1alpha1.ContentHash(taken.Content) == source.SHA256 {
			source.Resolved = &v1alpha1.ResolvedConfigSource{Key: source.Key, Content: taken.Content}
			return nil
		}
	}
	read, problem := content.Read(s.deployment.Namespace, found, &source)
	if problem == "" {
		source.Resolved = &v1alpha1.ResolvedConfigSource{Key: source.Key, Content: read}
		return nil
	}
	s.config.missing = problem
	if len(own) == 0 || contentOf(own[0]) == nil || contentOf(own[0]).Key != source.Key || source.SHA256 != "" {
		return nil
	}
	source.Resolved = contentOf(own[0]).DeepCopy()
	same, err := plan.SameTemplate(own[0].Spec.Template, s.template)
	if err != nil {
		return fmt.Errorf("comparing machine set %s: %w", own[0].Name, err)
	}
	if same {
		s.config = configSource{kept: problem}
	} else {
		source.Resolved = nil
	}
	return nil
}

// revisions are the sets of the deployment, the latest revision first.
func (s *scope) revisions(sets []v1alpha1.MachineSet) []*v1alpha1.MachineSet {
	var own []*v1alpha1.MachineSet
	for i := range sets {
		if set := &sets[i]; metav1.IsControlledBy(set, s.deployment) && set.NotDecoded() == "" && set.DeletionTimestamp == nil {
			own = append(own, set)
		}
	}
	slices.SortStableFunc(own, func(a, b *v1alpha1.MachineSet) int { return cmp.Compare(revisionOf(b), revisionOf(a)) })
	return own
}

// contentOf is what the Machines of a set have; nil if their template names none.
func contentOf(set *v1alpha1.MachineSet) *v1alpha1.ResolvedConfigSource {
	if source := set.Spec.Template.Spec.ConfigSource; source != nil {
		return source.Resolved
	}
	return nil
}

// describeRefusedConfig says why no Machine gets the configuration of the current template; empty if there is nothing to say.
func (s *scope) describeRefusedConfig() string {
	if s.config.missing == "" {
		return ""
	}
	return "spec.template.spec.configSource: " + s.config.missing
}

// describeKeptConfig says that the configuration of the last revision stays; empty if there is nothing to say.
func (s *scope) describeKeptConfig() string {
	if s.config.kept == "" {
		return ""
	}
	return "machines keep the kubelet configuration of the last revision: spec.template.spec.configSource: " + s.config.kept
}

// describeRefusing says which Machine of the current template keeps another kubelet configuration, and why; empty if none does.
func (s *scope) describeRefusing() string {
	refusing := s.machines[s.current.UID].refusing
	if len(refusing) == 0 {
		return ""
	}
	first := slices.MinFunc(refusing, func(a, b machines.Failure) int { return cmp.Compare(a.Machine, b.Machine) })
	return fmt.Sprintf("; %d keep the kubelet configuration that they have, %s because of %s", len(refusing), first.Machine, first.Message)
}

// ofConfigMap are the deployments of its namespace whose template names it.
func (c *Controller) ofConfigMap(ctx context.Context, object client.Object) []reconcile.Request {
	if object.GetName() != v1alpha1.KubeletConfigMap {
		return nil
	}
	return c.deploymentsIn(ctx, object.GetNamespace(), func(deployment *v1alpha1.MachineDeployment) bool {
		return deployment.Spec.Template.Spec.ConfigSource != nil
	})
}
