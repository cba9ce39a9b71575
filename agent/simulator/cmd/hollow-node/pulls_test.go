package main

import (
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

// sizeOf is the size that a hollow node makes up for an image.
func sizeOf(t *testing.T, image string) int64 {
	t.Helper()
	images := fakecri.NewImages(fakecri.ImageOptions{})
	spec := &runtimeapi.ImageSpec{Image: image}
	if _, err := images.PullImage(t.Context(), spec, nil, nil); err != nil {
		t.Fatal(err)
	}
	response, err := images.ImageStatus(t.Context(), spec, false)
	if err != nil {
		t.Fatal(err)
	}
	return int64(response.Image.Size)
}

// Claim: Image pulls take their bytes' time, failures back off. Broken: no rate passed on; each pull with the whole rate; an image that is there pulled again; a failure whatever image and node; the annotation not read. Also: agent/simulator/internal/fakecri TestAPullTakesTheTimeOfItsBytes, TestPullsShareTheRate, TestAnImageIsPulledOnceAtATime, TestPullsFailBySeed, TestPullsOfAPodFailByItsAnnotation.
func TestImagesTakeTheirTimeToPull(t *testing.T) {
	t.Parallel()
	const image, took = "example.com/app:1", 3 * time.Second
	fidelity := contract.Realistic()
	fidelity.ImagePull.BytesPerSecond = sizeOf(t, image) / 3
	configuration := configurationOf("pulls")
	configuration.Fidelity = &fidelity
	p := newProcess(t, realCluster(t), configuration, goodToken)
	p.join(t)
	of := func(name, image string, policy corev1.PullPolicy, annotations map[string]string) *corev1.Pod {
		return p.pod(name, func(pod *corev1.Pod) {
			pod.Annotations = annotations
			pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = image, policy
		})
	}
	failing := of("failing", "example.com/other:1", corev1.PullIfNotPresent, map[string]string{"hollowfleet.io/image-pull-fails": "true"})
	p.submit(t, failing)
	p.await(t, failing.Name, waitsFor("ErrImagePull", "ImagePullBackOff"))

	first := p.create(t, of("first", image, corev1.PullIfNotPresent, nil), isReady)
	p.expectEvents(t, first.Name, map[string]string{"Pulling": image, "Pulled": fmt.Sprintf("Image size: %d bytes.", sizeOf(t, image))})
	if pulled := p.pullTime(t, first.Name); pulled < took {
		t.Errorf("the first pull took %s, want at least %s", pulled, took)
	}
	again := p.create(t, of("again", image, corev1.PullIfNotPresent, nil), isReady)
	p.expectEvents(t, again.Name, map[string]string{"Pulled": "already present on machine"})
	always := p.create(t, of("always", image, corev1.PullAlways, nil), isReady)
	if pulled := p.pullTime(t, always.Name); pulled >= took {
		t.Errorf("an image that is there took %s", pulled)
	}
	never := of("never", "example.com/absent:1", corev1.PullNever, nil)
	p.submit(t, never)
	p.await(t, never.Name, waitsFor("ErrImageNeverPull"))

	p.await(t, failing.Name, waitsFor("ImagePullBackOff"))
	p.expectEvents(t, failing.Name, map[string]string{"Failed": "scripted by annotation hollowfleet.io/image-pull-fails", "BackOff": "Back-off pulling image"})
	if testing.Short() {
		return // The kubelet backs off for 10 seconds and more.
	}
	patch := []byte(`{"metadata":{"annotations":{"hollowfleet.io/image-pull-fails":null}}}`)
	if _, err := p.client.CoreV1().Pods("default").Patch(t.Context(), failing.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	p.await(t, failing.Name, isReady)
}

// waitsFor accepts a pod whose container waits for one of the reasons.
func waitsFor(reasons ...string) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Waiting == nil {
			return errors.New("the container does not wait")
		}
		waiting := pod.Status.ContainerStatuses[0].State.Waiting
		for _, reason := range reasons {
			if waiting.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("the container waits for %s: %s", waiting.Reason, waiting.Message)
	}
}

var pulledIn = regexp.MustCompile(`Successfully pulled image "[^"]+" in ([0-9.ms]+)`)

// pullTime is how long the pull of a pod's image took, as its event says.
func (p *process) pullTime(t *testing.T, pod string) time.Duration {
	t.Helper()
	p.expectEvents(t, pod, map[string]string{"Pulled": "Successfully pulled image"})
	list, err := p.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range list.Items {
		if found := pulledIn.FindStringSubmatch(event.Message); found != nil {
			took, err := time.ParseDuration(found[1])
			if err != nil {
				t.Fatal(err)
			}
			return took
		}
	}
	return 0
}
