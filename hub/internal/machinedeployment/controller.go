// Package machinedeployment spreads the Machines of each MachineDeployment over MachineSets, one per template.
package machinedeployment

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/pace"
	"github.com/hollowfleet/hollowfleet/hub/internal/witness"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinedeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinedeployments/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinedeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinesets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Deps is what the controller needs. All of it is required.
type Deps struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server: before anything is changed, the decision is taken again on what it says.
	Live     client.Reader
	Recorder events.EventRecorder
	// Agents tells which agents this process has heard.
	Agents *witness.Agents
	Clock  clock.PassiveClock
}

// Controller is the logic of one MachineDeployment: observe, decide, act, report.
type Controller struct {
	Deps
	pacer pace.Pacer
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Client == nil || deps.Live == nil || deps.Recorder == nil || deps.Agents == nil || deps.Clock == nil {
		return nil, errors.New("making the MachineDeployment controller: a dependency is missing")
	}
	return &Controller{Deps: deps}, nil
}

// Status implements reconciler.Logic.
func (c *Controller) Status(deployment *v1alpha1.MachineDeployment) any { return &deployment.Status }

// Reconcile implements reconciler.Logic.
func (c *Controller) Reconcile(ctx context.Context, deployment *v1alpha1.MachineDeployment) (reconciler.Next, error) {
	before := deployment.Status.DeepCopy()
	now := c.Clock.Now()
	s, err := c.observe(ctx, c.Client, deployment, now)
	if err != nil {
		return reconciler.Next{}, err
	}
	var actErr error
	if !decide(s).empty() {
		actErr = c.act(ctx, deployment)
	}
	report(s, actErr, now)
	next := reconciler.Next{After: s.counts.NextAvailable}
	if !equality.Semantic.DeepEqual(before, &deployment.Status) {
		wait := c.pacer.Wait(deployment.UID, urgent(before, deployment), now)
		next.DeferStatus = wait > 0
		next = next.Sooner(wait)
	}
	return next, actErr
}
