package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// withStaticPod is a configuration with a static pod named proxy.
func withStaticPod(name, spec string) contract.Configuration {
	configuration := configurationOf(name)
	configuration.StaticPods = []json.RawMessage{json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"proxy"},"spec":{` + spec + `}}`)}
	return configuration
}

// awaitMirror returns the mirror pod of the static pod once it is another one than before, and ready.
func (p *process) awaitMirror(t *testing.T, before *corev1.Pod) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	// The kubelet looks after a static pod once a minute or a bit later.
	eventually(t, "the mirror pod is ready", 2*time.Minute, func(ctx context.Context) error {
		var err error
		if found, err = p.client.CoreV1().Pods("default").Get(ctx, "proxy-"+p.name, metav1.GetOptions{}); err != nil {
			return err
		}
		if before != nil && found.UID == before.UID {
			return errors.New("it is the one from before")
		}
		return isReady(found)
	})
	return found
}

// openInotify counts the inotify instances of the process.
func (p *process) openInotify(t *testing.T) int {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.Contains(target, "inotify") {
			count++
		}
	}
	return count
}

// Claim: Static pods run from the kubelet's file source and have mirror pods, which come back; without an inotify instance. Broken: no source; the directory is watched; a manifest that was taken out stays.
func TestStaticPodsHaveMirrorPods(t *testing.T) {
	t.Parallel()
	configuration := withStaticPod("static", `"hostNetwork":true,"containers":[{"name":"main","image":"nginx"}]`)
	p := newProcess(t, realCluster(t), configuration, goodToken)
	node := p.join(t)
	mirror := p.awaitMirror(t, nil)
	if mirror.Annotations["kubernetes.io/config.source"] != "file" || mirror.Annotations[corev1.MirrorPodAnnotationKey] == "" ||
		len(mirror.OwnerReferences) != 1 || mirror.OwnerReferences[0].UID != node.UID {
		t.Errorf("annotations %v, owners %v", mirror.Annotations, mirror.OwnerReferences)
	}
	if n := p.openInotify(t); n != 0 {
		t.Errorf("the process has %d inotify instances", n)
	}

	if err := p.client.CoreV1().Pods("default").Delete(t.Context(), mirror.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	again := p.awaitMirror(t, mirror)
	if got, want := again.Status.ContainerStatuses[0].ContainerID, mirror.Status.ContainerStatuses[0].ContainerID; got != want {
		t.Errorf("container %s, want %s, which the mirror pod does not decide about", got, want)
	}

	p.terminate(t)
	configuration.StaticPods = nil
	data, err := contract.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.configDir(), contract.ConfigFileName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	p.start(t)
	eventually(t, "the mirror pod is gone", time.Minute, func(ctx context.Context) error {
		_, err := p.client.CoreV1().Pods("default").Get(ctx, mirror.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
}

// Claim: A manifest that the kubelet refuses is an error at start. Broken: it is left out.
func TestABadStaticPodIsAnError(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), withStaticPod("bad-static", `"containers":[{"name":"main","image":"nginx","ports":[{"containerPort":70000}]}]`), goodToken)
	p.start(t)
	_ = p.awaitEnd(t, time.Minute)
	if code := p.command.ProcessState.ExitCode(); code != 2 {
		t.Errorf("ended with %d, want 2", code)
	}
	log, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if want := "staticPods[0]: spec.containers[0].ports[0].containerPort: Invalid value: 70000"; err != nil || !strings.Contains(string(log), want) {
		t.Errorf("the log lacks %q: %s", want, log)
	}
}
