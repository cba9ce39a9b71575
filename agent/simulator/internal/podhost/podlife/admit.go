package podlife

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/support"
)

const (
	// ReasonUnsupported is the reason of pods that ask for something that the
	// podhost cannot honour, and of the events about them.
	ReasonUnsupported = "Unsupported"
	// ReasonImageUnknown is the reason of containers with an unknown image.
	// The kubelet uses the same if an image is missing and must not be pulled.
	ReasonImageUnknown = "ErrImageNeverPull"
)

// admit waits until the pod's spec can be honoured. A pod that cannot run stays
// pending: if it failed, its controller would make another one, without end.
// It returns false if the pod was terminated instead.
func (p *Pod) admit() bool {
	for {
		refusals, images := p.check(p.Snapshot())
		if len(refusals) == 0 && len(images) == 0 {
			p.change(func() {
				p.admitted, p.reason, p.message = true, "", ""
				for _, c := range p.containers() {
					c.unrefuse()
				}
			})
			return true
		}
		p.refuse(refusals, images)
		select {
		case <-p.stop.requested:
			return false
		case <-p.readmit:
		}
	}
}

// check returns what is wrong with the spec, and the containers whose images
// are unknown with the reason.
func (p *Pod) check(pod *corev1.Pod) (support.Refusals, map[string]string) {
	images := make(map[string]string)
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if _, err := p.runtime.Images.Find(c.Image); err != nil {
				images[c.Name] = err.Error()
			}
		}
	}
	refusals := support.Check(pod, p.runtime.Host)
	if namespace := p.runtime.HollowNodesOf; namespace != "" {
		refusals = append(support.CheckHollowNode(pod, namespace), refusals...)
	}
	return refusals, images
}

func (p *Pod) refuse(refusals support.Refusals, images map[string]string) {
	p.change(func() {
		p.reason, p.message = "", ""
		if len(refusals) > 0 {
			p.reason, p.message = ReasonUnsupported, refusals.String()
		}
		for _, c := range p.containers() {
			switch problem, unknown := images[c.spec.Name]; {
			case len(refusals) > 0:
				c.refuse(ReasonUnsupported, refusals.String())
			case unknown:
				c.refuse(ReasonImageUnknown, problem)
			}
		}
	})
	p.report(refusals, images)
}

func (p *Pod) report(refusals support.Refusals, images map[string]string) {
	if len(refusals) > 0 {
		p.warn(ReasonUnsupported, refusals.String())
	}
	problems := make(map[string]bool)
	for _, problem := range images {
		problems[problem] = true
	}
	for problem := range maps.Keys(problems) {
		p.warn(ReasonImageUnknown, problem)
	}
}

// Update takes a new version of the pod. The API allows few changes of a spec:
// a new image restarts its container. A change that cannot be honoured is
// refused with an event, and the containers continue as they are.
func (p *Pod) Update(pod *corev1.Pod) {
	p.mu.Lock()
	admitted := p.admitted
	p.mu.Unlock()
	refusals, images := p.check(pod)
	if admitted && (len(refusals) > 0 || len(images) > 0) {
		p.report(refusals, images)
		p.change(func() {
			spec := p.pod.Spec
			p.pod = pod.DeepCopy()
			p.pod.Spec = spec
		})
	} else {
		p.change(func() {
			p.pod = pod.DeepCopy()
			p.adoptSpecs()
		})
	}
	wake(p.readmit)
	wake(p.refresh)
}

// adoptSpecs hands the containers their new specs. The caller holds the lock.
func (p *Pod) adoptSpecs() {
	for i, c := range p.initial {
		c.adopt(&p.pod.Spec.InitContainers[i])
	}
	for i, c := range p.regular {
		c.adopt(&p.pod.Spec.Containers[i])
	}
}
