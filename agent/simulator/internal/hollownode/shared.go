package hollownode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics/legacyregistry"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/footprint"
)

// ErrOtherProcess is returned by Run for a node that needs a process of its own, because what it needs of its process differs
// from what an earlier node of it needed.
var ErrOtherProcess = errors.New("the node needs another process")

// ErrOwnProcess is returned by Run for a node that may not share its process.
var ErrOwnProcess = errors.New("the node needs a process of its own")

// checkPlace returns an error that wraps ErrOwnProcess if a node of a pack needs a process of its own: one that profiles shows all that its
// process does, and one that is killed again and again would leave a remainder in its pack each time.
func (o Options) checkPlace(now time.Time) error {
	if o.SharedDir == "" {
		return nil
	}
	if o.Profiling {
		return fmt.Errorf("%w: it serves profiles of its process", ErrOwnProcess)
	}
	data, err := os.ReadFile(o.DisruptionsFile)
	if err != nil || len(data) > plan.MaxBytes {
		return nil //nolint:nilerr // The node that carries the plan out reports what is wrong with it.
	}
	disruptions, err := plan.Decode(data)
	if err != nil {
		return nil //nolint:nilerr // As above.
	}
	for _, e := range disruptions.Entries {
		if fault := e.Fault.Type; (fault == plan.Kill || fault == plan.Reboot || fault == plan.Shutdown) && now.Before(e.End.Time) {
			return fmt.Errorf("%w: disruption %s kills it", ErrOwnProcess, e.Run)
		}
	}
	return nil
}

// process is what all nodes of a process share: Kubernetes keeps it in variables of packages.
type process struct {
	// building is held while a kubelet is built, and until it has started, and whenever wait.NeverStop is that of one node.
	building   sync.Mutex
	forgetOnce sync.Once
	registered chan struct{}

	mu sync.Mutex
	// gates are those of the first node.
	gates      *featureGates
	processors sampledWait
	standstill *standstill
	// started is when the last kubelet did.
	started time.Time
}

// shared is the process that this code runs in.
var shared = &process{registered: make(chan struct{}), processors: sampledWait{wait: processorWait{tasks: os.DirFS("/proc/self/task")}}}

// featureGates are the feature gates that a configuration can set.
type featureGates struct{ podCertificateRequests bool }

// setGates sets the gates of the process for its first node, and refuses a later one that needs others.
func (p *process) setGates(c contract.Configuration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := featureGates{podCertificateRequests: c.EffectiveFidelity().Kubelet.PodCertificateRequests}
	switch {
	case p.gates == nil:
		// The gates refuse to compute defaults once one is off that they lock.
		kubeletDefaults()
		if err := setFeatureGates(wanted); err != nil {
			return fmt.Errorf("setting feature gates: %w", err)
		}
		p.gates = &wanted
	case *p.gates != wanted:
		return fmt.Errorf("%w: fidelity.kubelet.podCertificateRequests is %t, and %t for the nodes that it has",
			ErrOtherProcess, wanted.podCertificateRequests, p.gates.podCertificateRequests)
	}
	return nil
}

// kubeletDefaults are the kubelet's own, which can be computed only before feature gates are set.
var kubeletDefaults = sync.OnceValue(func() *kubeletconfigv1beta1.KubeletConfiguration {
	var defaults kubeletconfigv1beta1.KubeletConfiguration
	// An empty set, unlike none, means no eviction thresholds: nothing of the machine is ever used up.
	defaults.EvictionHard = map[string]string{}
	v1beta1.SetDefaults_KubeletConfiguration(&defaults)
	return &defaults
})

// lendStop lets what asks for wait.NeverStop get the end of one node, until giveBack is called. Kubelets start loops with that variable
// of a package which then end with their node. Whoever asks for it while it is lent to another node would end with that one.
func (p *process) lendStop(l *life) (giveBack func()) {
	p.building.Lock()
	never := wait.NeverStop
	wait.NeverStop = l.ended
	return sync.OnceFunc(func() {
		wait.NeverStop = never
		p.building.Unlock()
	})
}

// buildAlone calls construct, which builds a kubelet.
func (p *process) buildAlone(l *life, construct func() error) error {
	defer p.lendStop(l)()
	p.forgetOnce.Do(func() { prometheus.DefaultRegisterer = forgetful{prometheus.DefaultRegisterer, p.registered} })
	return construct()
}

// startAlone runs a kubelet, and returns when it has registered its collectors of metrics, of which there may be one of each in a process,
// and has started all its loops.
func (p *process) startAlone(ctx context.Context, l *life, run func()) {
	defer p.lendStop(l)()
	go run()
	for range collectorsOfRun {
		<-p.registered
	}
	for _, started := range []<-chan struct{}{l.loops, l.reports} {
		select {
		case <-started:
		case <-l.ended:
		case <-ctx.Done():
		}
	}
}

// collectorsOfRun are the collectors that a kubelet registers when it runs, by type, with what leads from them to the kubelet, and
// collectorsOfBuild those that one registers when it is built, if its feature gates ask for them.
var (
	collectorsOfRun = map[string]private{
		"*collectors.volumeStatsCollector": volumeCollector,
		"*collectors.logMetricsCollector":  logCollector,
	}
	collectorsOfBuild = map[string]private{"*collectors.podCertificateCollector": certificateCollector}
)

// forgetful is the registry into which a kubelet puts its collectors after it has put them into that of Kubernetes, where those of a
// second kubelet would be a panic. It takes them out of there, and keeps none: a hollow node serves no metrics.
type forgetful struct {
	prometheus.Registerer
	registered chan<- struct{}
}

// MustRegister forgets the collectors of kubelets, and registers all others.
func (f forgetful) MustRegister(all ...prometheus.Collector) {
	for _, collector := range all {
		kind := fmt.Sprintf("%T", collector)
		leads, running := collectorsOfRun[kind]
		if !running {
			var building bool
			if leads, building = collectorsOfBuild[kind]; !building {
				f.Registerer.MustRegister(collector)
				continue
			}
		}
		legacyregistry.Registerer().Unregister(collector)
		// That registry remembers what was in it, and the kubelet must not live as long.
		if err := clearField(collector, leads); err != nil {
			panic(err)
		}
		if running {
			f.registered <- struct{}{}
		}
	}
}

// watchClock returns the one watch of the clock, which is the same for all nodes.
func (p *process) watchClock() *standstill {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.standstill == nil {
		p.standstill = &standstill{}
		go p.standstill.watchClock()
	}
	return p.standstill
}

// noteStart remembers when a kubelet has started.
func (p *process) noteStart(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = now
}

// releaseMemory gives memory back that the start of nodes needed, once the last one has settled.
func (p *process) releaseMemory(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.started) >= settling {
		footprint.Rest()
	}
}

// sampledWait looks at the processors once for all nodes that ask at about the same time.
type sampledWait struct {
	mu      sync.Mutex
	wait    processorWait
	starved bool
}

// samplePeriod is a little less than the time between two reports of a kubelet.
const samplePeriod = 9 * time.Second

func (s *sampledWait) isStarved(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.wait.at) >= samplePeriod {
		s.starved = s.wait.isStarved(now)
	}
	return s.starved
}
