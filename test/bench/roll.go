package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/localfleet"
)

const rollVersion = "v1.36.2"

// rollFigures is what the rolling update of all Machines to another kubelet version took.
type rollFigures struct {
	Seconds float64 `json:"seconds"`
	// Surge is the maxSurge that was asked for.
	Surge string `json:"surge"`
	// JoinSeconds is the average time of a new Machine from creation to Ready, RemoveSeconds that of an old
	// one from the deletion to its end, as seen on the hub.
	JoinSeconds   float64 `json:"joinSeconds"`
	RemoveSeconds float64 `json:"removeSeconds"`
	// IdealSeconds is machines / surge x (join + remove): the time of a roll whose steps wait for each other.
	IdealSeconds float64 `json:"idealSeconds"`
	// MostMachines and FewestReady are the extremes of one cluster at any time that was seen.
	MostMachines int `json:"mostMachines"`
	FewestReady  int `json:"fewestReady"`
	// WritesPerMachine counts hub writes of the whole roll, divided by the Machines.
	WritesPerMachine map[string]float64 `json:"hubWritesPerMachine"`
}

// life is what was seen of one Machine; the zero time means not yet.
type life struct {
	created, ready, deleted, gone time.Time
}

// roll follows all Machines through a rolling update.
type roll struct {
	fleet *localfleet.Fleet
	opts  options
	lives map[types.UID]*life
	most  int
	least int
}

// surgeOf returns how many Machines more than it asks for a deployment may have in the roll.
func surgeOf(opts options) (int, error) {
	surge, err := intstr.GetScaledValueFromIntOrPercent(new(intstr.Parse(opts.surge)), opts.machines, true)
	if err != nil || surge < 1 {
		return 0, fmt.Errorf("--surge: want a number or a percentage above 0, such as 2 or 10%%, got %q", opts.surge)
	}
	return surge, nil
}

func measureRoll(ctx context.Context, opts options, fleet *localfleet.Fleet, machines client.Reader) (*rollFigures, error) {
	surge, err := surgeOf(opts)
	if err != nil {
		return nil, err
	}
	r := &roll{fleet: fleet, opts: opts, lives: map[types.UID]*life{}, least: opts.machines}
	hub := counter{config: fleet.HubConfig}
	before, err := hub.read(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(opts.progress, "rolling all Machines to kubelet %s\n", rollVersion)
	begin := time.Now()
	if err := patchAll(ctx, fleet, fmt.Sprintf(`{"spec":{"template":{"spec":{"versions":{"kubelet":%q}}}}}`, rollVersion)); err != nil {
		return nil, err
	}
	if err := r.follow(ctx, machines); err != nil {
		return nil, err
	}
	result := &rollFigures{Seconds: time.Since(begin).Seconds(), Surge: opts.surge, MostMachines: r.most, FewestReady: r.least}
	if err := sleep(ctx, opts.settle); err != nil {
		return nil, err
	}
	after, err := hub.read(ctx)
	if err != nil {
		return nil, err
	}
	result.WritesPerMachine = after.minus(before).without("leases").dividedBy(float64(opts.clusters * opts.machines))
	result.JoinSeconds, result.RemoveSeconds = r.averages()
	result.IdealSeconds = float64(opts.machines) / float64(surge) * (result.JoinSeconds + result.RemoveSeconds)
	return result, nil
}

// follow looks at all Machines until each one has the new version and is Ready.
func (r *roll) follow(ctx context.Context, hub client.Reader) error {
	shown := -1
	return waitFor(ctx, func(ctx context.Context) bool {
		machines := &v1alpha1.MachineList{}
		if err := hub.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
			return false
		}
		r.note(machines.Items, time.Now())
		updated := 0
		for i := range machines.Items {
			versions := machines.Items[i].Status.Versions
			if isReady(&machines.Items[i]) && versions != nil && versions.Kubelet == rollVersion {
				updated++
			}
		}
		want := r.opts.clusters * r.opts.machines
		if updated != shown {
			fmt.Fprintf(r.opts.progress, "%d of %d Machines rolled\n", updated, want)
			shown = updated
		}
		return updated == want && len(machines.Items) == want
	})
}

// note takes down what machines, which are all that there are, show at now.
func (r *roll) note(machines []v1alpha1.Machine, now time.Time) {
	existing, ready := map[string]int{}, map[string]int{}
	seen := map[types.UID]bool{}
	for i := range machines {
		machine := &machines[i]
		seen[machine.UID] = true
		existing[machine.Namespace]++
		one := r.lives[machine.UID]
		if one == nil {
			one = &life{created: machine.CreationTimestamp.Time}
			r.lives[machine.UID] = one
		}
		if isReady(machine) {
			ready[machine.Namespace]++
			if one.ready.IsZero() {
				one.ready = now
			}
		}
		if machine.DeletionTimestamp != nil && one.deleted.IsZero() {
			one.deleted = machine.DeletionTimestamp.Time
		}
	}
	for uid, one := range r.lives {
		if !seen[uid] && one.gone.IsZero() {
			one.gone = now
		}
	}
	for _, member := range r.fleet.Members {
		r.most = max(r.most, existing[member.Name])
		r.least = min(r.least, ready[member.Name])
	}
}

// averages are of the Machines that were made, or removed, while r looked.
func (r *roll) averages() (join, remove float64) {
	var joins, removals []float64
	for _, one := range r.lives {
		if one.deleted.IsZero() && !one.ready.IsZero() {
			joins = append(joins, one.ready.Sub(one.created).Seconds())
		}
		if !one.deleted.IsZero() && !one.gone.IsZero() {
			removals = append(removals, one.gone.Sub(one.deleted).Seconds())
		}
	}
	return average(joins), average(removals)
}

func average(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	return sum / float64(len(values))
}

func patchAll(ctx context.Context, fleet *localfleet.Fleet, patch string) error {
	for _, member := range fleet.Members {
		deployment := &v1alpha1.MachineDeployment{}
		deployment.Namespace, deployment.Name = member.Name, deploymentName
		if err := fleet.HubClient.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			return fmt.Errorf("patching the MachineDeployment of %s: %w", member.Name, err)
		}
	}
	return nil
}
