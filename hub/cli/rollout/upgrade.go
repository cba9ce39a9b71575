package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// upgradeOptions are the flags of "upgrade".
type upgradeOptions struct {
	cmdutil.Change
	kubelet string
	force   bool
}

// refused are the reasons for which the hub starts nothing until the spec is changed.
var refused = []string{v1alpha1.ReasonInvalidFleet, v1alpha1.ReasonKubeletDowngrade, v1alpha1.ReasonNoClusterSelected, v1alpha1.ReasonRolloutTooLarge}

// NewUpgrade returns "upgrade".
func NewUpgrade(hub *cmdutil.Hub) *cobra.Command {
	o := &upgradeOptions{}
	c := newCommand(hub, &cobra.Command{
		Use: "upgrade", Short: "Roll a kubelet version out over the clusters of a MachineFleet, or in one MachineDeployment",
		Long: `Roll a kubelet version out. A MachineFleet is upgraded cluster by cluster, in the waves of spec.rolloutStrategy.

Before the command writes anything, it checks whether the fleet could start. It refuses, with exit code 4, a version that is older
than the fleet's (unless spec.allowDowngrade is set), an invalid spec, and a version with which no cluster can start; --force writes
the last of these anyway. If some clusters do not support the version, are frozen or are not Ready, they are named, and the others
are upgraded.

--dry-run prints the waves with their clusters, in order, and what would keep each cluster from being upgraded.
Interrupting --wait does not stop the upgrade.`,
		Example: `  # Show what would happen
  kubectl hollow upgrade fleet/workers --kubelet v1.37.1 --dry-run

  # Upgrade, and follow it to its end
  kubectl hollow upgrade fleet/workers --kubelet v1.37.1 --wait

  # One MachineDeployment
  kubectl hollow upgrade machinedeployment/workers -n c1 --kubelet v1.37.1 --wait`,
	}, both, func() (client.WithWatch, error) { return o.DryRun.Client(hub) }, func(ctx context.Context, s *subject) error {
		return s.report(ctx, hub, o.Telling(hub), o.Output, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
			return s.upgradeObject(ctx, o)
		})
	})
	c.Flags().StringVar(&o.kubelet, "kubelet", "", "the kubelet version, such as v1.37.1 (required)")
	o.Change = cmdutil.NewChange(c)
	cmdutil.AddWait(c, &o.Wait, false, "the rollout is complete or has failed", 0, "for as long as the rollout makes progress")
	c.Flags().BoolVar(&o.force, "force", false, "write the version even if no cluster can start with it for now")
	return c
}

func (s *subject) upgradeObject(ctx context.Context, o *upgradeOptions) ([]cmdutil.Fact, error) {
	if err := o.checkFlags(); err != nil {
		return nil, err
	}
	field := s.kubeletVersion()
	before := *field
	o.spellAs(before)
	facts := []cmdutil.Fact{{Name: "Kubelet before", Value: before}}
	apply := func() { *field = o.kubelet }
	if s.fleet != nil {
		wanted, err := o.wantedFleet(ctx, s.client, s.fleet)
		if err != nil {
			return nil, err
		}
		if err := s.previewUpgrade(ctx, wanted, o); err != nil {
			return nil, err
		}
		apply = func() { s.fleet.Spec = wanted.Spec }
	} else if err := s.checkSkew(ctx, o); err != nil {
		return nil, err
	}
	if before == o.kubelet {
		s.printf("has kubelet %s already", o.kubelet)
	} else {
		if err := s.changeObject(ctx, apply); err != nil {
			return nil, err
		}
		s.printf("upgraded from kubelet %s to %s", cmp.Or(before, "(none)"), o.kubelet)
	}
	switch {
	case o.DryRun.Active():
		return facts, nil
	case o.Wait.Enabled:
		return facts, s.followRollout(ctx, o.Wait.Timeout)
	}
	s.hub.Note("To follow it: kubectl hollow rollout status %s", s.commandArguments())
	return facts, nil
}

// spellAs writes the version as the API takes it: with or without "v". What means the same as before stays as it is.
func (o *upgradeOptions) spellAs(before string) {
	number := strings.TrimPrefix(o.kubelet, "v")
	if o.kubelet = "v" + number; strings.TrimPrefix(before, "v") == number {
		o.kubelet = before
	}
}

func (o *upgradeOptions) checkFlags() error {
	if o.kubelet == "" {
		return cmdutil.Usage("--kubelet is required: the version to roll out, such as v1.37.1")
	}
	if _, err := version.ParseSemantic(o.kubelet); err != nil {
		return cmdutil.Usage("--kubelet: %q is not a version: want one such as v1.37.1", o.kubelet)
	}
	if o.Wait.Timeout > 0 && !o.Wait.Enabled {
		return cmdutil.Usage("--timeout needs --wait")
	}
	return nil
}

// kubeletVersion is the version in the object's template.
func (s *subject) kubeletVersion() *string {
	if s.fleet != nil {
		return &s.fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet
	}
	return &s.deployment.Spec.Template.Spec.Versions.Kubelet
}

// wantedFleet is a fleet as it is to be.
func (o *upgradeOptions) wantedFleet(ctx context.Context, hub client.Reader, of *v1alpha1.MachineFleet) (*v1alpha1.MachineFleet, error) {
	wanted := rollout.WithSpec(of)
	kubelet := &wanted.Spec.Template.Spec.Template.Spec.Versions.Kubelet
	another := *kubelet != o.kubelet
	*kubelet = o.kubelet
	revision, err := rollout.FindRevision(ctx, hub, wanted)
	if err != nil {
		return nil, err
	}
	if another && wanted.Spec.AbortedRevision == revision {
		wanted.Spec.AbortedRevision = "" // A user who asks for the revision wants it rolled out.
	}
	return wanted, nil
}

// previewUpgrade refuses an upgrade that the hub would not start, and tells what stands in its way.
func (s *subject) previewUpgrade(ctx context.Context, wanted *v1alpha1.MachineFleet, o *upgradeOptions) error {
	p, err := rollout.NewPreview(ctx, s.client, wanted, time.Now())
	if err != nil {
		return fmt.Errorf("looking at the clusters of %s: %w", s.fullName(), err)
	}
	if p.Problem != nil && slices.Contains(refused, p.Problem.Reason) {
		return cmdutil.Refusal("%s cannot be upgraded: %s", s.fullName(), p.Problem.Message)
	}
	if o.DryRun.Active() {
		if err := printWaves(s.hub, p); err != nil {
			return err
		}
	}
	if p.Problem != nil {
		s.hub.Note("Nothing starts for now: %s", p.Problem.Message)
	}
	for _, m := range p.Members {
		switch {
		case o.DryRun.Active(): // The table says so.
		case len(m.Blocked) > 0:
			s.hub.Note("%s cannot be upgraded: %s", m.Cluster.Name, strings.Join(m.Problems(), "; "))
		case m.Held != "":
			s.hub.Note("%s waits: %s", m.Cluster.Name, m.Held)
		}
	}
	if err := refuseFutile(s.fullName(), p, o.force); err != nil {
		return err
	}
	for _, m := range p.Members {
		if version := wanted.Spec.Template.Spec.Template.Spec.Versions.Kubelet; strings.TrimPrefix(m.Kubelet, "v") != strings.TrimPrefix(version, "v") {
			s.hub.Note("%s gets kubelet %s instead of %s: spec.overrides[%s].template sets it", m.Cluster.Name, cmp.Or(m.Kubelet, "-"), version, m.Override)
		}
	}
	s.noteSelectors(p)
	return nil
}

// noteSelectors names what chooses no cluster, and clusters that no window chooses.
func (s *subject) noteSelectors(p *rollout.Preview) {
	if len(p.Windowless) > 0 {
		s.hub.Note("Not selected by any of spec.maintenanceWindows, so upgraded at any time: %s", reconciler.ListFew(p.Windowless))
	}
	for _, field := range p.Unused {
		s.hub.Note("%s matches no cluster of the fleet", field)
	}
}
