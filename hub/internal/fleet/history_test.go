package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// templates are the kubelet versions of the templates that are kept, the oldest first.
func (f *env) templates() []string {
	f.T.Helper()
	kept, err := rollout.Templates(f.T.Context(), f.Client, f.refresh())
	f.Expect(err).NotTo(HaveOccurred())
	var versions []string
	for _, t := range kept {
		versions = append(versions, fmt.Sprintf("%d %s", t.Number, t.Template.Spec.Template.Spec.Versions.Kubelet))
	}
	return versions
}

func TestTemplatesAreKept(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.settle()
	f.Expect(f.templates()).To(Equal([]string{"1 v1.36.2"}))
	f.upgrade("v1.37.0")
	f.settle()
	f.Expect(f.templates()).To(Equal([]string{"1 v1.36.2", "2 v1.37.0"}))
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.AllowDowngrade = true
		fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.36.2"
	})
	f.restart()
	f.settle()
	f.Expect(f.templates()).To(Equal([]string{"2 v1.37.0", "3 v1.36.2"}), "what was gone back to is the newest")
	f.restart()
	f.Writes.Counts()
	f.settle()
	f.Expect(f.Writes.Counts()).NotTo(HaveKey(ContainSubstring("ControllerRevision")), "nothing has changed")
}

// Claim: The ten newest and used templates are kept. Broken: as above.
func TestNoMoreTemplatesAreKeptThanWanted(t *testing.T) {
	f := newEnv(t, 2, inSteps(1, 0))
	f.settle()
	f.freeze(1, true) // It stays with the first template.
	for minor := range mostTemplates + 3 {
		f.upgrade(fmt.Sprintf("v1.36.%d", minor+10))
		f.ExpectReconciled(f.fleet)
		f.says(false, 0)
		f.ExpectReconciled(f.fleet)
	}
	kept := f.templates()
	// Beside those of the limit there are the current one, and the one before, which the first cluster still had when the oldest was removed.
	f.Expect(kept).To(HaveLen(mostTemplates+3), "%v", kept)
	f.Expect(kept[0]).To(Equal("1 v1.36.2"), "the second cluster has it")
	f.Expect(kept[1]).To(HavePrefix("3 "), "%v", kept)
}

// A cluster gets no template that could not be gone back to.
// Claim: No cluster gets a template before it is kept. Broken: it is kept afterwards.
func TestNothingBeginsBeforeTheTemplateIsKept(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.faults.Create = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if _, is := object.(*appsv1.ControllerRevision); is {
			return errors.New("refused by the test")
		}
		return c.Create(ctx, object, options...)
	}
	f.restart()
	f.Expect(f.Reconcile(f.fleet)).Error().To(MatchError(ContainSubstring("refused by the test")))
	f.Expect(f.phases()).To(Equal("-"))
	f.faults.Create = nil
	f.restart()
	f.settle()
	f.Expect(f.templates()).To(HaveLen(1))
}

func TestTemplatesOfAFleetThatWasMadeAnewAreNotTaken(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.settle()
	revision := f.status().Revision
	kept := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.HubNamespace, Name: f.fleet.Name + "-" + revision}}
	f.ExpectExists(kept)
	kept.OwnerReferences[0].UID = "another"
	f.ExpectApplied(kept)
	f.Expect(f.templates()).To(BeEmpty())
}

// What rests on no template continues while one cannot be kept.
func TestATemplateThatCannotBeKeptHoldsNothingElseUp(t *testing.T) {
	f := newEnv(t, 2, inSteps(1, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.faults.Create = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if _, is := object.(*appsv1.ControllerRevision); is {
			return errors.New("refused by the test")
		}
		return c.Create(ctx, object, options...)
	}
	f.restart()
	f.edit(1, func(d *v1alpha1.MachineDeployment) { d.Spec.Template.Spec.Versions.Kubelet = "v1.35.0" })
	f.Expect(f.Reconcile(f.fleet)).Error().To(MatchError(ContainSubstring("refused by the test")))
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2"), "the fleet takes its field back, and starts nothing")
}
