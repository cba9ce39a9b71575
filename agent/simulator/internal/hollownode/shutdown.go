package hollownode

import (
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/nodeshutdown"
	"k8s.io/kubernetes/pkg/kubelet/nodeshutdown/systemd"

	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

// powerOffDelay is how long the machine runs on once nothing delays its shutdown any more, as systemd stops the kubelet's own service after
// that: the kubelet reports its last pods.
const powerOffDelay = 3 * time.Second

// logind stands in for systemd's login manager on the machine of one kubelet. A kubelet with grace periods for shutdowns takes a lock that
// delays them, hears of a shutdown, ends its pods, and releases the lock.
type logind struct {
	// powerOff ends the machine for a run.
	powerOff func(run string)
	life     *life

	mu sync.Mutex
	// delay is how long a lock can delay a shutdown at most. The kubelet raises it to the sum of its periods.
	delay time.Duration
	locks map[systemd.InhibitLock]bool
	last  systemd.InhibitLock
	// run is that for which the machine shuts down; empty if it does not.
	run string
	// off ends the machine; nil while something delays it, and without a shutdown.
	off *time.Timer
	// changed is closed when run changes.
	changed chan struct{}
}

func newLogind(l *life, powerOff func(run string)) *logind {
	return &logind{powerOff: powerOff, life: l, locks: map[systemd.InhibitLock]bool{}, changed: make(chan struct{})}
}

// setShutdown shuts the machine down for a run, or cancels that if run is empty.
func (l *logind) setShutdown(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == run {
		return
	}
	l.run = run
	if l.off != nil {
		l.off.Stop()
		l.off = nil
	}
	close(l.changed)
	l.changed = make(chan struct{})
	if run != "" && len(l.locks) == 0 {
		l.schedulePowerOff(0)
	}
}

// schedulePowerOff ends the machine after a delay. The caller holds the lock.
func (l *logind) schedulePowerOff(delay time.Duration) {
	run := l.run
	l.off = time.AfterFunc(delay, func() {
		l.mu.Lock()
		due := l.run == run && l.off != nil
		l.mu.Unlock()
		if due {
			l.powerOff(run)
		}
	})
}

// CurrentInhibitDelay is how long a lock delays a shutdown at most.
func (l *logind) CurrentInhibitDelay() (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay, nil
}

// OverrideInhibitDelay sets CurrentInhibitDelay.
func (l *logind) OverrideInhibitDelay(delay time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
	return nil
}

// ReloadLogindConf has nothing to do.
func (l *logind) ReloadLogindConf() error { return nil }

// InhibitShutdown takes a lock.
func (l *logind) InhibitShutdown() (systemd.InhibitLock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.locks[l.last] = true
	return l.last, nil
}

// ReleaseInhibitLock gives a lock back. When it was the last one, a machine that shuts down is off soon.
func (l *logind) ReleaseInhibitLock(lock systemd.InhibitLock) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.locks, lock)
	if l.run != "" && len(l.locks) == 0 && l.off == nil {
		l.schedulePowerOff(powerOffDelay)
	}
	return nil
}

// MonitorShutdown tells of shutdowns, with true, and of those that are cancelled, with false, until the node ends.
func (l *logind) MonitorShutdown(klog.Logger) (<-chan bool, error) {
	events := make(chan bool)
	go func() {
		told := false
		for {
			l.mu.Lock()
			now, changed := l.run != "", l.changed
			l.mu.Unlock()
			var send chan<- bool
			if now != told {
				send = events
			}
			select {
			case send <- now:
				told = now
			case <-changed:
			case <-l.life.ended:
				return
			}
		}
	}()
	return events, nil
}

// Close has nothing to do.
func (l *logind) Close() error { return nil }

// delayShutdowns lets a kubelet with grace periods for shutdowns know of those of its machine. It does not run yet.
func (n *node) delayShutdowns(k *kubelet.Kubelet) error {
	if n.settings.ShutdownGracePeriod.Duration == 0 && len(n.settings.ShutdownGracePeriodByPodPriority) == 0 {
		return nil
	}
	manager, err := getField[nodeshutdown.Manager](k, shutdownManager)
	if err != nil {
		return err
	}
	connected, err := minor.ConnectLogind(manager, n.disruption.logind)
	if err != nil {
		return err
	}
	return setField(k, shutdownManager, connected)
}
