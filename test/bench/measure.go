package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const (
	deploymentName = "bench"
	className      = "default"
	poll           = 100 * time.Millisecond
)

// figures is what one run of bench measured.
type figures struct {
	Clusters int `json:"clusters"`
	Machines int `json:"machinesPerCluster"`
	// ExistSeconds is the time from scaling all deployments until all Machine objects exist on the hub, and
	// ReadySeconds the time to the last Machine's readiness there; 0 if it did not come to that.
	ExistSeconds float64 `json:"existSeconds"`
	ReadySeconds float64 `json:"readySeconds"`
	// MachinesReady is how many were Ready in the end, in all clusters.
	MachinesReady int `json:"machinesReady"`
	// WritesPerMachine counts hub writes from the scale until all are Ready, divided by the Machines.
	WritesPerMachine map[string]float64 `json:"hubWritesPerMachine"`
	// CPUSecondsPerMachine is what hub and agents used from the scale until all were Ready, divided by the Machines.
	CPUSecondsPerMachine map[string]float64 `json:"cpuSecondsPerMachine,omitempty"`
	// SamplingRatio is the part of the traces that was sent; 0 without tracing.
	SamplingRatio float64 `json:"traceSamplingRatio"`
	// Roll is the rolling update; nil if it was left out.
	Roll *rollFigures `json:"roll,omitempty"`
	// RestSeconds is how long the measurement at rest took.
	RestSeconds float64 `json:"restSeconds"`
	// HubWritesPerMinute and TargetWritesPerMinute count writes at rest, the latter for one workload cluster.
	HubWritesPerMinute    map[string]float64 `json:"hubWritesPerMinute"`
	TargetWritesPerMinute map[string]float64 `json:"targetWritesPerMinute"`
	// Processes at the end of the rest.
	Processes []processFigures `json:"processes"`
	// NotReached names the parts that were not measured, or not to their end.
	NotReached []string `json:"notReached,omitempty"`
}

// measurement is one run of bench: a fleet, and what has been measured of it.
type measurement struct {
	*figures
	opts     options
	fleet    *localfleet.Fleet
	machines cache.Cache
	// before is what the hub's API server had counted before the scale.
	before counts
}

// measure returns what it measured, also with an error: what was not reached then is named.
func measure(ctx context.Context, opts options, fleet *localfleet.Fleet) (*figures, error) {
	m := &measurement{figures: &figures{Clusters: opts.clusters, Machines: opts.machines, SamplingRatio: opts.samplingRatio}, opts: opts, fleet: fleet}
	parts := []struct {
		name    string
		measure func(context.Context) error
	}{
		{"the way from scale to Ready", m.measureScale}, {"hub writes per Machine", m.measureWrites}, {"rest", m.measureRest},
		{"the rolling update", m.measureRoll},
	}
	if !opts.roll {
		parts = parts[:3]
	}
	for i, part := range parts {
		if err := part.measure(ctx); err != nil {
			for _, missing := range parts[i:] {
				m.NotReached = append(m.NotReached, missing.name)
			}
			return m.figures, fmt.Errorf("measuring %s: %w", part.name, err)
		}
	}
	return m.figures, nil
}

func (m *measurement) measureScale(ctx context.Context) error {
	for _, member := range m.fleet.Members {
		if err := createEmpty(ctx, m.fleet.HubClient, member.Name, m.opts); err != nil {
			return err
		}
	}
	var err error
	if m.machines, err = watchMachines(ctx, m.fleet); err != nil {
		return err
	}
	if m.before, err = (counter{config: m.fleet.HubConfig}).read(ctx); err != nil {
		return err
	}
	begin, used := time.Now(), readProcesses(m.fleet)
	if err := patchAll(ctx, m.fleet, fmt.Sprintf(`{"spec":{"replicas":%d}}`, m.opts.machines)); err != nil {
		return err
	}
	if err := m.waitReady(ctx, m.opts, m.machines, begin); err != nil {
		return err
	}
	m.CPUSecondsPerMachine = controllersCPU(used, readProcesses(m.fleet), m.opts)
	return nil
}

func (m *measurement) measureWrites(ctx context.Context) error {
	if err := sleep(ctx, m.opts.settle); err != nil {
		return err
	}
	after, err := counter{config: m.fleet.HubConfig}.read(ctx)
	if err != nil {
		return err
	}
	// Leases are the price of a cluster and a minute, not of a Machine: they are in the figures at rest.
	m.WritesPerMachine = after.minus(m.before).without("leases").dividedBy(float64(m.opts.clusters * m.opts.machines))
	return nil
}

func (m *measurement) measureRest(ctx context.Context) error {
	targetConfig, err := m.fleet.Members[0].Cluster.RESTConfig()
	if err != nil {
		return err
	}
	hub, target := counter{config: m.fleet.HubConfig}, counter{config: targetConfig}
	fmt.Fprintf(m.opts.progress, "measuring at rest for %s\n", m.opts.rest)
	begin := time.Now()
	hubBefore, err := hub.read(ctx)
	if err != nil {
		return err
	}
	targetBefore, err := target.read(ctx)
	if err != nil {
		return err
	}
	processesBefore := readProcesses(m.fleet)
	if err := sleep(ctx, m.opts.rest); err != nil {
		return err
	}
	hubAfter, err := hub.read(ctx)
	if err != nil {
		return err
	}
	targetAfter, err := target.read(ctx)
	if err != nil {
		return err
	}
	m.RestSeconds = time.Since(begin).Seconds()
	minutes := m.RestSeconds / 60
	m.HubWritesPerMinute = hubAfter.minus(hubBefore).dividedBy(minutes)
	m.TargetWritesPerMinute = targetAfter.minus(targetBefore).dividedBy(minutes)
	m.Processes = summarize(processesBefore, readProcesses(m.fleet), minutes)
	return nil
}

func createEmpty(ctx context.Context, hub client.Client, cluster string, opts options) error {
	if err := waitFor(ctx, func(ctx context.Context) bool {
		found := &v1alpha1.Cluster{}
		return hub.Get(ctx, client.ObjectKey{Name: cluster}, found) == nil &&
			meta.IsStatusConditionTrue(found.Status.Conditions, v1alpha1.ReadyCondition)
	}); err != nil {
		return fmt.Errorf("waiting for Cluster %s to be Ready: %w", cluster, err)
	}
	config, err := opts.nodeConfig()
	if err != nil {
		return err
	}
	for _, object := range []client.Object{
		&v1alpha1.MachineClass{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: className},
			Spec: v1alpha1.MachineClassSpec{
				Provider: cmp.Or(opts.provider, v1alpha1.ProviderHollow),
				// The host of a simulated cluster has the processors of this machine, and a hollow node needs little.
				ProviderConfig: &runtime.RawExtension{Raw: config},
			},
		},
		deploymentOf(cluster, opts.surge),
	} {
		if err := hub.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T in %s: %w", object, cluster, err)
		}
	}
	return nil
}

// nodeConfig is that of the class, in JSON: of another provider, the least that it takes.
func (o options) nodeConfig() ([]byte, error) {
	if o.provider == v1alpha1.ProviderKwok {
		return json.Marshal(map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KwokNodeConfigKind})
	}
	class := &v1alpha1.MachineClass{}
	o.programs.Heartbeats.Configure(class)
	config := map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.HollowNodeConfigKind}
	if class.Spec.ProviderConfig != nil {
		if err := json.Unmarshal(class.Spec.ProviderConfig.Raw, &config); err != nil {
			return nil, fmt.Errorf("reading the configuration of slow heartbeats: %w", err)
		}
	}
	config["profile"], config["podResources"] = o.profile, map[string]string{"cpu": "2m", "memory": "16Mi"}
	if o.serves {
		kubelet, _ := config["kubelet"].(map[string]any)
		if kubelet == nil {
			kubelet = map[string]any{}
		}
		kubelet["enableServer"] = true
		config["kubelet"] = kubelet
	}
	return json.Marshal(config)
}

func deploymentOf(cluster, surge string) *v1alpha1.MachineDeployment {
	labels := map[string]string{"pool": deploymentName}
	return &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: deploymentName},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: cluster, Replicas: ptr.To[int32](0),
			Strategy: v1alpha1.MachineDeploymentStrategy{
				Type:          v1alpha1.RollingUpdate,
				RollingUpdate: &v1alpha1.RollingUpdateBounds{MaxSurge: ptr.To(intstr.Parse(surge))},
			},
			Selector: v1alpha1.MachineSelector{MatchLabels: labels},
			Template: v1alpha1.MachineTemplate{
				Metadata: v1alpha1.TemplateMetadata{Labels: labels},
				Spec: v1alpha1.MachineTemplateBody{
					ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: className}},
				},
			},
		},
	}
}

// watchMachines returns a cache of the hub's Machines as one watch tells of them: the API server that is measured has
// no lists to make for the measurement.
func watchMachines(ctx context.Context, fleet *localfleet.Fleet) (cache.Cache, error) {
	machines, err := cache.New(fleet.HubConfig, cache.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("watching Machines: %w", err)
	}
	if _, err := machines.GetInformer(ctx, &v1alpha1.Machine{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watching Machines: %w", err)
	}
	go func() { _ = machines.Start(ctx) }() // It ends with ctx, without an error.
	if !machines.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("watching Machines: %w", context.Cause(ctx))
	}
	return machines, nil
}

// waitReady waits until all Machines are Ready, and notes when they all existed and when they were Ready.
func (f *figures) waitReady(ctx context.Context, opts options, hub client.Reader, begin time.Time) error {
	want, shown := opts.clusters*opts.machines, -1
	return waitFor(ctx, func(ctx context.Context) bool {
		ready := 0
		machines := &v1alpha1.MachineList{}
		if err := hub.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
			return false
		}
		for i := range machines.Items {
			if isReady(&machines.Items[i]) {
				ready++
			}
		}
		if f.ExistSeconds == 0 && len(machines.Items) == want {
			f.ExistSeconds = time.Since(begin).Seconds()
		}
		if f.MachinesReady = ready; ready == want {
			f.ReadySeconds = time.Since(begin).Seconds()
		}
		if ready != shown {
			fmt.Fprintf(opts.progress, "%d of %d Machines Ready\n", ready, want)
			shown = ready
		}
		return ready == want
	})
}

func isReady(machine *v1alpha1.Machine) bool {
	return meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition)
}

func waitFor(ctx context.Context, done func(context.Context) bool) error {
	for !done(ctx) {
		if err := sleep(ctx, poll); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
