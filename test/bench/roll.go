package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

const rollVersion = "v1.36.2"

// rollFigures is what the rolling update of all Machines to another kubelet version took.
type rollFigures struct {
	Seconds float64 `json:"seconds"`
	// Rolled is how many Machines were rolled in that time.
	Rolled int `json:"rolled"`
	// Surge is the maxSurge that was asked for.
	Surge string `json:"surge"`
	// JoinSeconds is the average time of a new Machine from creation to Ready, RemoveSeconds that of an old
	// one from the deletion to its end, as seen on the hub.
	JoinSeconds   float64 `json:"joinSeconds"`
	RemoveSeconds float64 `json:"removeSeconds"`
	// AnswerSeconds is the average wait of the hub's own: from a new Machine's readiness to the deletion of an old one for
	// it, and from the end of an old one to the creation of a new one in its place.
	AnswerSeconds answers `json:"answerSeconds"`
	// IdealSeconds is machines / surge x (join + remove): the time of a roll whose steps wait for each other.
	IdealSeconds float64 `json:"idealSeconds"`
	// MostMachines and FewestReady are the extremes of one cluster at any time that was seen.
	MostMachines int `json:"mostMachines"`
	FewestReady  int `json:"fewestReady"`
	// CPUSecondsPerMachine is what hub and agents used for the whole roll, divided by the Machines.
	CPUSecondsPerMachine map[string]float64 `json:"cpuSecondsPerMachine"`
	// WritesPerMachine counts hub writes of the whole roll, divided by the Machines.
	WritesPerMachine map[string]float64 `json:"hubWritesPerMachine"`
}

// answers are how long the hub took to answer, in seconds.
type answers struct {
	ReadyToDeletion float64 `json:"readyToDeletion"`
	GoneToCreation  float64 `json:"goneToCreation"`
}

// life is what was seen of one Machine; the zero time means not yet.
type life struct {
	cluster string
	// before tells that it was there before the roll.
	before bool
	// ready now, which it may be more than once.
	ready                          bool
	created, joined, deleted, gone time.Time
}

// roll follows all Machines through a rolling update. Each change is noted at the time when the watch tells it: the time
// stamps of the objects are those of whole seconds.
type roll struct {
	fleet *localfleet.Fleet
	opts  options

	mu    sync.Mutex
	lives map[types.UID]*life
	// exist and ready count the Machines of each cluster.
	exist, ready map[string]int
	most, least  int
	// rolled is how many Machines are Ready with the new version.
	rolled int
}

// surgeOf returns how many Machines more than it asks for a deployment may have in the roll.
func surgeOf(opts options) (int, error) {
	surge, err := intstr.GetScaledValueFromIntOrPercent(new(intstr.Parse(opts.surge)), opts.machines, true)
	if err != nil || surge < 1 {
		return 0, fmt.Errorf("--surge: want a number or a percentage above 0, such as 2 or 10%%, got %q", opts.surge)
	}
	return surge, nil
}

func (m *measurement) measureRoll(ctx context.Context) error {
	surge, err := surgeOf(m.opts)
	if err != nil {
		return err
	}
	r := &roll{
		fleet: m.fleet, opts: m.opts, least: m.opts.machines,
		lives: map[types.UID]*life{}, exist: map[string]int{}, ready: map[string]int{},
	}
	if err := r.listen(ctx, m.machines); err != nil {
		return err
	}
	hub := counter{config: m.fleet.HubConfig}
	before, err := hub.read(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(m.opts.progress, "rolling all Machines to kubelet %s\n", rollVersion)
	begin, used := time.Now(), readProcesses(m.fleet)
	if err := patchAll(ctx, m.fleet, fmt.Sprintf(`{"spec":{"template":{"spec":{"versions":{"kubelet":%q}}}}}`, rollVersion)); err != nil {
		return err
	}
	unfinished := r.follow(ctx, m.machines)
	m.Roll = &rollFigures{
		Seconds: time.Since(begin).Seconds(), Rolled: r.rolled, Surge: m.opts.surge,
		CPUSecondsPerMachine: controllersCPU(used, readProcesses(m.fleet), m.opts),
	}
	if unfinished != nil {
		r.sum(m.Roll, surge)
		return unfinished
	}
	err = m.countRoll(ctx, hub, before)
	r.sum(m.Roll, surge)
	m.Roll.IdealSeconds = float64(m.opts.machines) / float64(surge) * (m.Roll.JoinSeconds + m.Roll.RemoveSeconds)
	return err
}

// countRoll counts what was written, when all is written that the hub puts off.
func (m *measurement) countRoll(ctx context.Context, hub counter, before counts) error {
	if err := sleep(ctx, m.opts.settle); err != nil {
		return err
	}
	after, err := hub.read(ctx)
	if err != nil {
		return err
	}
	m.Roll.WritesPerMachine = after.minus(before).without("leases").dividedBy(float64(m.opts.clusters * m.opts.machines))
	return nil
}

// follow looks at all Machines until each one has the new version and is Ready.
func (r *roll) follow(ctx context.Context, hub client.Reader) error {
	shown := -1
	return waitFor(ctx, func(ctx context.Context) bool {
		machines := &v1alpha1.MachineList{}
		if err := hub.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
			return false
		}
		updated := 0
		for i := range machines.Items {
			versions := machines.Items[i].Status.Versions
			if isReady(&machines.Items[i]) && versions != nil && versions.Kubelet == rollVersion {
				updated++
			}
		}
		want := r.opts.clusters * r.opts.machines
		r.rolled = updated
		if updated != shown {
			fmt.Fprintf(r.opts.progress, "%d of %d Machines rolled\n", updated, want)
			shown = updated
		}
		return updated == want && len(machines.Items) == want
	})
}

// listen has every change of a Machine noted from now on.
func (r *roll) listen(ctx context.Context, machines cache.Cache) error {
	informer, err := machines.GetInformer(ctx, &v1alpha1.Machine{})
	if err != nil {
		return fmt.Errorf("watching Machines: %w", err)
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(machine any, initial bool) { r.see(machine, initial) },
		UpdateFunc: func(_, machine any) { r.see(machine, false) },
		DeleteFunc: r.lose,
	})
	if err != nil {
		return fmt.Errorf("watching Machines: %w", err)
	}
	return waitFor(ctx, func(context.Context) bool { return handle.HasSynced() })
}

// see notes what a Machine shows; before tells that the roll had not started.
func (r *roll) see(object any, before bool) {
	machine, ok := object.(*v1alpha1.Machine)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	one := r.lives[machine.UID]
	if one == nil {
		one = &life{cluster: machine.Namespace, before: before, created: now}
		r.lives[machine.UID] = one
		r.exist[machine.Namespace]++
	}
	if is := isReady(machine); is != one.ready {
		one.ready = is
		r.ready[machine.Namespace] += map[bool]int{true: 1, false: -1}[is]
		if is && one.joined.IsZero() {
			one.joined = now
		}
	}
	if machine.DeletionTimestamp != nil && one.deleted.IsZero() {
		one.deleted = now
	}
	if !before {
		r.bound(machine.Namespace)
	}
}

// lose notes that a Machine is gone.
func (r *roll) lose(object any) {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	machine, ok := object.(*v1alpha1.Machine)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.lives[machine.UID]
	if one == nil || !one.gone.IsZero() {
		return
	}
	one.gone = time.Now()
	r.exist[machine.Namespace]--
	if one.ready {
		r.ready[machine.Namespace]--
	}
	r.bound(machine.Namespace)
}

// bound takes a cluster's numbers into the extremes.
func (r *roll) bound(cluster string) {
	r.most, r.least = max(r.most, r.exist[cluster]), min(r.least, r.ready[cluster])
}

// sum fills in what was seen: averages of the Machines that were made, or removed, in the roll.
func (r *roll) sum(result *rollFigures, surge int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var joins, removals []float64
	for _, one := range r.lives {
		if !one.before && !one.joined.IsZero() {
			joins = append(joins, one.joined.Sub(one.created).Seconds())
		}
		if !one.deleted.IsZero() && !one.gone.IsZero() {
			removals = append(removals, one.gone.Sub(one.deleted).Seconds())
		}
	}
	result.MostMachines, result.FewestReady = r.most, r.least
	result.JoinSeconds, result.RemoveSeconds = average(joins), average(removals)
	result.AnswerSeconds = answered(r.lives, surge)
}

// answered pairs, in each cluster, causes and effects by their order. What a roll starts with, a whole surge of new
// Machines, answers nothing.
func answered(lives map[types.UID]*life, surge int) answers {
	made, joined, deleted, gone := map[string][]time.Time{}, map[string][]time.Time{}, map[string][]time.Time{}, map[string][]time.Time{}
	note := func(times map[string][]time.Time, cluster string, at time.Time) {
		if !at.IsZero() {
			times[cluster] = append(times[cluster], at)
		}
	}
	for _, one := range lives {
		if !one.before {
			note(made, one.cluster, one.created)
			note(joined, one.cluster, one.joined)
		}
		note(deleted, one.cluster, one.deleted)
		note(gone, one.cluster, one.gone)
	}
	var deletions, creations []float64
	for cluster := range made {
		deletions = append(deletions, waits(joined[cluster], deleted[cluster], 0)...)
		creations = append(creations, waits(gone[cluster], made[cluster], surge)...)
	}
	return answers{ReadyToDeletion: average(deletions), GoneToCreation: average(creations)}
}

// waits returns the seconds from the nth cause to the nth effect, without the effects that had no cause.
func waits(causes, effects []time.Time, uncaused int) []float64 {
	slices.SortFunc(causes, time.Time.Compare)
	slices.SortFunc(effects, time.Time.Compare)
	effects = effects[min(uncaused, len(effects)):]
	var seconds []float64
	for i := range min(len(causes), len(effects)) {
		seconds = append(seconds, effects[i].Sub(causes[i]).Seconds())
	}
	return seconds
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
