package fleet

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// Whatever a user does while a plan is carried out is obeyed by the next write.
// Claim: Pause, freeze, abort and window ends count from the next write. Broken: nothing is read before a write; batches have no end. Also: TestTheNextWriteLooksAtItsCluster, TestALongPlanIsDecidedAgain.
func TestTheNextWriteObeys(t *testing.T) {
	for name, stop := range map[string]func(*env){
		"a pause": func(f *env) { f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Paused = true }) },
		"a freeze": func(f *env) {
			f.update(func(fleet *v1alpha1.MachineFleet) {
				metav1.SetMetaDataAnnotation(&fleet.ObjectMeta, v1alpha1.FreezeAnnotation, "x")
			})
		},
		"an abort": func(f *env) {
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AbortedRevision, _ = rollout.TextRevision(fleet) })
		},
		"an approval that is needed": func(f *env) {
			f.update(func(fleet *v1alpha1.MachineFleet) {
				fleet.Spec.Groups = []v1alpha1.MachineFleetGroup{{Name: "all", Approval: v1alpha1.GroupApprovalRequired, ClusterSelector: &metav1.LabelSelector{}}}
			})
		},
		"a window that ends": func(f *env) { f.Clock.SetTime(f.Clock.Now().Add(2 * time.Hour)) },
		"its deletion":       func(f *env) { f.ExpectDeleted(f.refresh()) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 5, func(fleet *v1alpha1.MachineFleet) {
				fleet.Finalizers = []string{"example.com/test"}
				fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{{Name: "night", Schedule: "0 0 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
			})
			for range 3 {
				f.ExpectReconciled(f.fleet)
			}
			f.says(false, 0, 1, 2, 3, 4)
			f.ExpectReconciled(f.fleet)
			f.upgrade("v1.37.0")
			begun := 0
			f.faults.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				err := c.Patch(ctx, object, patch, options...)
				if _, is := object.(*v1alpha1.MachineDeployment); is && err == nil {
					if begun++; begun == 2 {
						stop(f)
					}
				}
				return err
			}
			f.restart()
			for range 5 {
				_, _ = f.Reconcile(f.fleet) // The status is written to another version than was read.
			}
			f.Expect(begun).To(Equal(2))
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Finalizers = nil })
		})
	}
}

// A cluster that is frozen, denied or relabelled between two writes is left alone by the second.
func TestTheNextWriteLooksAtItsCluster(t *testing.T) {
	for name, change := range map[string]func(*env){
		"frozen": func(f *env) { f.freeze(1, true) },
		"denied": func(f *env) {
			f.cluster(1).Spec.Acceptance = v1alpha1.AcceptanceDenied
			f.ExpectApplied(f.clusters[1])
		},
		"relabelled": func(f *env) { f.label(1, testLabel, "") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 3, nil)
			f.settle()
			f.upgrade("v1.37.0")
			begun := 0
			f.faults.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if _, is := object.(*v1alpha1.MachineDeployment); is {
					if begun++; begun == 1 {
						change(f)
					}
				}
				return c.Patch(ctx, object, patch, options...)
			}
			f.restart()
			for range 4 {
				f.ExpectReconciled(f.fleet)
			}
			f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Succeeded v1.36.2, Progressing v1.37.0"))
		})
	}
}

// A long plan is carried out in batches, and the status is written in between.
func TestALongPlanIsDecidedAgain(t *testing.T) {
	f := newEnv(t, 4, nil)
	f.faults.Create = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		f.Clock.SetTime(f.Clock.Now().Add(3 * time.Second)) // A slow API server.
		return c.Create(ctx, object, options...)
	}
	f.restart()
	for i := range 5 { // The template is kept first, and takes as long.
		result := f.ExpectReconciled(f.fleet)
		f.Expect(f.refresh().Status.Clusters.Progressing).To(BeNumerically(">=", min(max(i-1, 0), 1)), "the status is written meanwhile")
		if i < 4 {
			f.Expect(result.RequeueAfter).To(Equal(restAfter))
		}
	}
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, Progressing v1.36.2, Progressing v1.36.2, Progressing v1.36.2"))
}

// A template that cannot be kept yet makes no new number each time that it is tried.
func TestTheNumberOfARolloutStaysWhileItsFirstWriteIsRefused(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.faults.Create = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if _, is := object.(*v1alpha1.MachineDeployment); is {
			return fmt.Errorf("refused by the test")
		}
		return c.Create(ctx, object, options...)
	}
	f.restart()
	for range 3 {
		_, _ = f.Reconcile(f.fleet)
		f.Clock.Step(rollout.LastRetry)
	}
	f.Expect(f.templates()).To(Equal([]string{"1 v1.36.2"}))
}
