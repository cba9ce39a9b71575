package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// revision is one template that a MachineDeployment has had, and the set that keeps it.
type revision struct {
	number int64
	set    *v1alpha1.MachineSet
}

// listRevisions are those that the deployment still has, the oldest first.
func (s *subject) listRevisions(ctx context.Context) ([]revision, error) {
	sets := &v1alpha1.MachineSetList{}
	if err := s.client.List(ctx, sets, client.InNamespace(s.deployment.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the MachineSets of %s: %w", s.deployment.Name, err)
	}
	var found []revision
	for i := range sets.Items {
		set := &sets.Items[i]
		if number := numberOf(set); number > 0 && metav1.IsControlledBy(set, s.deployment) {
			found = append(found, revision{number, set})
		}
	}
	slices.SortFunc(found, func(a, b revision) int { return cmp.Compare(a.number, b.number) })
	return found, nil
}

// currentRevision is the number of the revision that the deployment has now; 0 before the hub has given it one.
func (s *subject) currentRevision() int64 { return numberOf(s.deployment) }

// numberOf is the revision that an object carries; 0 if it carries none.
func numberOf(object metav1.Object) int64 {
	number, err := strconv.ParseInt(object.GetAnnotations()[v1alpha1.RevisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// listNumbers lists revisions for a message.
func listNumbers(revisions []revision) string {
	var list []string
	for _, revision := range revisions {
		list = append(list, fmt.Sprint(revision.number))
	}
	return strings.Join(list, ", ")
}

// userTemplate is the revision's as a user would write it: without the label that the hub adds, and with the hash of the kubelet
// configuration that it had, whatever its ConfigMap has now.
func (r revision) userTemplate() v1alpha1.MachineTemplate {
	template := r.set.Spec.Template.DeepCopy()
	delete(template.Metadata.Labels, v1alpha1.MachineTemplateHashLabel)
	if source := template.Spec.ConfigSource; source != nil && source.Resolved != nil {
		source.SHA256, source.Resolved = v1alpha1.ContentHash(source.Resolved.Content), nil
	}
	return *template
}

// completeRevisions offers the revisions of the MachineDeployment that is named before the flag. Registering fails only for
// a flag that does not exist.
func completeRevisions(hub *cmdutil.Hub, c *cobra.Command, flag string) {
	err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := cmdutil.Quick(c)
		defer cancel()
		s, err := findSubject(ctx, hub, all, hub.Client, c, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		switch {
		case s.fleet != nil:
			return s.completeTemplates(ctx), cobra.ShellCompDirectiveNoFileComp
		case s.set != nil && flag == "revision":
			return s.completeRollouts(), cobra.ShellCompDirectiveNoFileComp
		case s.set != nil:
			return nil, cobra.ShellCompDirectiveNoFileComp // It cannot be rolled back.
		}
		found, err := s.listRevisions(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var offered []cobra.Completion
		for _, revision := range found {
			offered = append(offered, cobra.CompletionWithDesc(fmt.Sprint(revision.number), revision.set.Spec.Template.Spec.Versions.Kubelet))
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err)
	}
}

// completeRollouts offers the rollouts of a set.
func (s *subject) completeRollouts() []cobra.Completion {
	var offered []cobra.Completion
	for _, r := range s.set.Status.Rollout.History {
		offered = append(offered, cobra.CompletionWithDesc(fmt.Sprint(r.Rollout), r.Revision))
	}
	return offered
}

// completeTemplates offers the revisions of a fleet; none if the hub cannot be asked.
func (s *subject) completeTemplates(ctx context.Context) []cobra.Completion {
	kept, _, err := s.listTemplates(ctx)
	if err != nil {
		return nil
	}
	var offered []cobra.Completion
	for _, t := range kept {
		if t.Template != nil {
			offered = append(offered, cobra.CompletionWithDesc(fmt.Sprint(t.Number), t.Template.Spec.Template.Spec.Versions.Kubelet))
		}
	}
	return offered
}
