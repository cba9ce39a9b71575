package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const (
	setName = "bench"
	// setVersion and upgradedVersion are what the set has first and then.
	setVersion, upgradedVersion = "v1.36", "v1.37"
	// probeEvery is how often each API server is asked, probePatience how long it may take to answer.
	probeEvery, probePatience = 100 * time.Millisecond, 2 * time.Second
)

// setFigures is what a SimulatedClusterSet took.
type setFigures struct {
	// UpSeconds is the time from the creation of the set to all Ready, UpgradeSeconds from the new version to all upgraded, RemovedSeconds from
	// 0 replicas to the last one gone.
	UpSeconds      float64 `json:"upSeconds"`
	UpgradeSeconds float64 `json:"upgradeSeconds,omitempty"`
	RemovedSeconds float64 `json:"removedSeconds,omitempty"`
	// OutageSeconds is for how long each API server did not answer during the upgrade, sorted, and OutageP50 and OutageP99 are of them.
	OutageSeconds []float64 `json:"outageSeconds,omitempty"`
	OutageP50     float64   `json:"outageP50Seconds,omitempty"`
	OutageP99     float64   `json:"outageP99Seconds,omitempty"`
	// AtOnce is how many API servers were away at the same time at most.
	AtOnce int `json:"atOnce,omitempty"`
	// AboveLimitSeconds is for how long more were away than the rollout allows, in questions that may take probePatience each.
	AboveLimitSeconds float64  `json:"aboveLimitSeconds,omitempty"`
	Outages           []outage `json:"outages,omitempty"`
	// MachinesCreated and MachinesDeleted are those of the upgrade.
	MachinesCreated int `json:"machinesCreated"`
	MachinesDeleted int `json:"machinesDeleted"`
}

// setBench measures one set.
type setBench struct {
	opts  scaleOptions
	dir   string
	hub   client.Client
	set   *v1alpha1.SimulatedClusterSet
	found setFigures
}

func measureSet(ctx context.Context, opts scaleOptions, fleet *upFleet) (*setFigures, error) {
	config, err := clientcmd.BuildConfigFromFlags("", fleet.report.Hub.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the hub's kubeconfig: %w", err)
	}
	config.QPS = -1
	b := &setBench{opts: opts, dir: fleet.report.Dir, set: newSet(opts)}
	if b.hub, err = client.New(config, client.Options{Scheme: scheme.New()}); err != nil {
		return nil, fmt.Errorf("making a client of the hub: %w", err)
	}
	for _, part := range []func(context.Context) error{b.create, b.addMachines, b.upgrade, b.remove} {
		if err := part(ctx); err != nil {
			return &b.found, err
		}
	}
	return &b.found, nil
}

func newSet(opts scaleOptions) *v1alpha1.SimulatedClusterSet {
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: setName}}
	set.Spec.Replicas = ptr.To(int32(opts.clusters))
	set.Spec.Template.Spec.Versions.ControlPlane = setVersion
	set.Spec.Rollout.RolloutStrategy = ocm.RolloutStrategy{
		Type: ocm.Progressive, Progressive: &ocm.RolloutProgressive{MaxConcurrency: intstr.FromInt32(int32(opts.atOnce))},
	}
	return set
}

// awaitSet waits until the set is as wanted.
func (b *setBench) awaitSet(ctx context.Context, what string, wanted func(*v1alpha1.SimulatedClusterSetStatus) bool) error {
	err := waitFor(ctx, func(ctx context.Context) bool {
		return b.hub.Get(ctx, client.ObjectKeyFromObject(b.set), b.set) == nil && b.set.Status.ObservedGeneration == b.set.Generation && wanted(&b.set.Status)
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %d of %d are Ready, %d have the version", what, err, b.set.Status.ReadyReplicas, b.opts.clusters, b.set.Status.Rollout.Clusters.Updated)
	}
	return nil
}

func (b *setBench) create(ctx context.Context) error {
	begin := time.Now()
	if err := b.hub.Create(ctx, b.set); err != nil {
		return fmt.Errorf("creating the set: %w", err)
	}
	err := b.awaitSet(ctx, "the set", func(s *v1alpha1.SimulatedClusterSetStatus) bool { return int(s.ReadyReplicas) == b.opts.clusters })
	if err == nil {
		b.found.UpSeconds = time.Since(begin).Seconds()
	}
	return err
}

func (b *setBench) clusterNames() (names []string) {
	for i := range b.opts.clusters {
		names = append(names, fmt.Sprintf("%s-%d", setName, i))
	}
	return names
}

// addMachines gives each cluster its Machines, which an upgrade has to leave alone.
func (b *setBench) addMachines(ctx context.Context) error {
	for _, name := range b.clusterNames() {
		for _, object := range localfleet.Workers(name, int32(b.opts.machines), setVersion+".0") {
			if err := b.hub.Create(ctx, object); err != nil {
				return fmt.Errorf("creating %T in %s: %w", object, name, err)
			}
		}
	}
	wanted := b.opts.clusters * b.opts.machines
	return waitFor(ctx, func(ctx context.Context) bool {
		list := &v1alpha1.MachineDeploymentList{}
		ready := 0
		if b.hub.List(ctx, list) != nil {
			return false
		}
		for i := range list.Items {
			ready += int(list.Items[i].Status.ReadyReplicas)
		}
		return ready == wanted
	})
}

// machines are the UIDs of all Machines.
func (b *setBench) machines(ctx context.Context) (map[types.UID]bool, error) {
	list := &v1alpha1.MachineList{}
	if err := b.hub.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	all := map[types.UID]bool{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			all[list.Items[i].UID] = true
		}
	}
	return all, nil
}

// upgrade gives the set the next minor, and asks each API server all the time whether it is there.
func (b *setBench) upgrade(ctx context.Context) error {
	before, err := b.machines(ctx)
	if err != nil {
		return err
	}
	probing, end := context.WithCancel(ctx)
	defer end()
	p := &prober{}
	var probes sync.WaitGroup
	for _, name := range b.clusterNames() {
		probes.Go(func() { p.probeServer(probing, name, filepath.Join(b.dir, "hosted", name)) })
	}
	begin := time.Now()
	if err := b.hub.Patch(ctx, b.set, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"versions":{"controlPlane":"`+upgradedVersion+`"}}}}}`))); err != nil {
		return fmt.Errorf("raising the version of the set: %w", err)
	}
	seen := maps.Clone(before)
	err = b.awaitSet(ctx, "the upgrade", func(s *v1alpha1.SimulatedClusterSetStatus) bool {
		now, err := b.machines(ctx)
		if err != nil {
			return false
		}
		maps.Copy(seen, now)
		return s.Rollout.Revision == upgradedVersion && int(s.Rollout.Clusters.Updated) == b.opts.clusters && int(s.ReadyReplicas) == b.opts.clusters
	})
	if err != nil {
		return err
	}
	b.found.UpgradeSeconds = time.Since(begin).Seconds()
	end()
	probes.Wait()
	after, err := b.machines(ctx)
	if err != nil {
		return err
	}
	b.found.MachinesCreated = len(seen) - len(before)
	for uid := range seen {
		if !after[uid] {
			b.found.MachinesDeleted++
		}
	}
	b.noteOutages(p)
	return nil
}

func (b *setBench) noteOutages(p *prober) {
	times := map[string]time.Duration{}
	for _, name := range b.clusterNames() {
		times[name] = 0
	}
	for _, o := range p.outages {
		times[o.Name] += o.To.Sub(o.From)
	}
	for _, outage := range times {
		b.found.OutageSeconds = append(b.found.OutageSeconds, outage.Seconds())
	}
	slices.Sort(b.found.OutageSeconds)
	b.found.OutageP50, b.found.OutageP99 = quantile(b.found.OutageSeconds, 50), quantile(b.found.OutageSeconds, 99)
	b.found.Outages = p.outages
	most, above := countOverlaps(p.outages, b.opts.atOnce)
	b.found.AtOnce, b.found.AboveLimitSeconds = most, above.Seconds()
}

// quantile is the smallest of sorted values that so many percent of them do not exceed.
func quantile(sorted []float64, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

func (b *setBench) remove(ctx context.Context) error {
	begin := time.Now()
	if err := b.hub.Patch(ctx, b.set, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))); err != nil {
		return fmt.Errorf("scaling the set down: %w", err)
	}
	err := b.awaitSet(ctx, "the removal", func(s *v1alpha1.SimulatedClusterSetStatus) bool { return s.Replicas == 0 })
	if err == nil {
		b.found.RemovedSeconds = time.Since(begin).Seconds()
	}
	return err
}

// prober asks API servers, each with new connections, whether they are ready. It knows nothing of the fleet but where they are.
type prober struct {
	mutex   sync.Mutex
	outages []outage
}

// outage is a time without an answer of an API server: from the first question without one to the question that is answered next.
type outage struct {
	Name string    `json:"name"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// probeServer asks one API server until ctx ends, which ends its outage too.
func (p *prober) probeServer(ctx context.Context, name, dir string) {
	var lost time.Time
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		asked := time.Now()
		err := askReady(ctx, dir)
		switch isOver := err == nil || ctx.Err() != nil; {
		case !isOver && lost.IsZero():
			lost = asked
		case isOver && !lost.IsZero():
			p.note(outage{name, lost, asked})
			lost = time.Time{}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *prober) note(o outage) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.outages = append(p.outages, o)
}

// countOverlaps counts how many outages there were at the same time at most, and for how long there were more than limit.
func countOverlaps(outages []outage, limit int) (most int, above time.Duration) {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, o := range outages {
		changes = append(changes, change{o.From, 1}, change{o.To, -1})
	}
	// An outage that ends when another begins does not overlap it.
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), a.by-b.by) })
	count := 0
	for i, c := range changes {
		if i > 0 && count > limit {
			above += c.at.Sub(changes[i-1].at)
		}
		count += c.by
		most = max(most, count)
	}
	return most, above
}

// askReady asks the API server of the cluster in dir. One that moves to another group may have another address.
func askReady(ctx context.Context, dir string) error {
	ready, err := process.ReadReady(dir)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", ready.AdminKubeconfig)
	if err != nil {
		return fmt.Errorf("reading a kubeconfig: %w", err)
	}
	transport, err := rest.TLSConfigFor(config)
	if err != nil {
		return fmt.Errorf("reading a kubeconfig: %w", err)
	}
	asking, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	request, err := http.NewRequestWithContext(asking, http.MethodGet, config.Host+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: transport, DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}

// setLines are those of the table about a set.
func setLines(opts scaleOptions) (lines []scaleLine) {
	for _, line := range []struct {
		title string
		value func(*setFigures) string
	}{
		{fmt.Sprintf("set of %d: from apply to all Ready", opts.clusters), func(s *setFigures) string { return seconds(s.UpSeconds) }},
		{fmt.Sprintf("set of %d: upgrade by a minor, %d at a time", opts.clusters, opts.atOnce), func(s *setFigures) string { return seconds(s.UpgradeSeconds) }},
		{"set: outage of each API server, p50 (p99)", func(s *setFigures) string {
			if len(s.OutageSeconds) == 0 {
				return "-"
			}
			return fmt.Sprintf("%.1f (%.1f) s", s.OutageP50, s.OutageP99)
		}},
		{"set: API servers away at the same time", func(s *setFigures) string {
			return fmt.Sprintf("%d (more than %d for %.1f s)", s.AtOnce, opts.atOnce, s.AboveLimitSeconds)
		}},
		{fmt.Sprintf("set: of %d Machines, made (removed) by the upgrade", opts.clusters*opts.machines), func(s *setFigures) string {
			return fmt.Sprintf("%d (%d)", s.MachinesCreated, s.MachinesDeleted)
		}},
		{fmt.Sprintf("set of %d: removed in", opts.clusters), func(s *setFigures) string { return seconds(s.RemovedSeconds) }},
	} {
		lines = append(lines, scaleLine{rowSets, line.title, func(f scaleFigures) string {
			if f.Set == nil {
				return "-"
			}
			return line.value(f.Set)
		}})
	}
	return lines
}
