package hollownode

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager/populator"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/rhythm"
)

const (
	// volumesIdle is how often the kubelet looks after volumes while nothing waits for one.
	volumesIdle = 5 * time.Second
	// volumesLinger is how long it continues at its usual rate after the last one was waited for.
	volumesLinger = 2 * time.Second
)

// paceVolumes lets the two loops of the kubelet's volume manager rest while no pod waits for a volume. At
// their fixed rate of ten a second they are two thirds of what an idle hollow kubelet costs.
//
// Each loop starts with a call to something that is replaced here by the same with a wait in front.
func paceVolumes(k *kubelet.Kubelet) error {
	manager, err := getField[volumemanager.VolumeManager](k, volumeManager)
	if err != nil {
		return err
	}
	p := newPacer(volumesIdle, volumesLinger)
	pods, err := getField[populator.PodManager](manager, volumePods)
	if err != nil {
		return err
	}
	var wrapped populator.PodManager = pacedPods{PodManager: pods, pacer: p}
	if err := setField(manager, volumePods, wrapped); err != nil {
		return err
	}
	hasAddedPods, err := getField[func() bool](manager, volumePodsAdded)
	if err != nil {
		return err
	}
	paced := func() bool {
		p.waitForUse()
		return hasAddedPods()
	}
	if err := setField(manager, volumePodsAdded, paced); err != nil {
		return err
	}
	var replacement volumemanager.VolumeManager = pacedVolumes{VolumeManager: manager, pacer: p}
	if err := setField(k, volumeManager, replacement); err != nil {
		return fmt.Errorf("volume manager: %w", err)
	}
	return nil
}

// pacer holds loops back while they are not needed.
type pacer struct {
	idle, linger time.Duration

	mu    sync.Mutex
	users int
	until time.Time
	woken chan struct{}
}

// newPacer returns a pacer that lets loops run freely for the first linger.
func newPacer(idle, linger time.Duration) *pacer {
	return &pacer{idle: idle, linger: linger, until: time.Now().Add(linger), woken: make(chan struct{})}
}

// useLoops lets the loops run until done is called, and for the linger after that.
func (p *pacer) useLoops() (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
	close(p.woken)
	p.woken = make(chan struct{})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.users--
		p.until = time.Now().Add(p.linger)
	}
}

// waitForUse returns at once while the loop is needed, else when it is needed or after the idle time at the latest.
func (p *pacer) waitForUse() {
	p.mu.Lock()
	running, woken := p.users > 0 || time.Now().Before(p.until), p.woken
	p.mu.Unlock()
	if running {
		return
	}
	timer := time.NewTimer(rhythm.Until(time.Now(), p.idle))
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	}
}

// pacedPods is where the loop that finds out what to mount starts.
type pacedPods struct {
	populator.PodManager
	pacer *pacer
}

func (p pacedPods) GetPods() []*corev1.Pod {
	p.pacer.waitForUse()
	return p.PodManager.GetPods()
}

// pacedVolumes sees who waits for volumes.
type pacedVolumes struct {
	volumemanager.VolumeManager
	pacer *pacer
}

func (v pacedVolumes) WaitForAttachAndMount(ctx context.Context, pod *corev1.Pod) error {
	defer v.pacer.useLoops()()
	return v.VolumeManager.WaitForAttachAndMount(ctx, pod)
}

func (v pacedVolumes) WaitForUnmount(ctx context.Context, pod *corev1.Pod) error {
	defer v.pacer.useLoops()()
	return v.VolumeManager.WaitForUnmount(ctx, pod)
}

func (v pacedVolumes) WaitForAllPodsUnmount(ctx context.Context, pods []*corev1.Pod) error {
	defer v.pacer.useLoops()()
	return v.VolumeManager.WaitForAllPodsUnmount(ctx, pods)
}
