package fakecri

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// env is a runtime under test and its clock.
type env struct {
	*testing.T
	*Runtime
	clock *clocktesting.FakeClock
}

func newEnv(t *testing.T, options Options) env {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	options.Clock = clock
	return env{T: t, Runtime: New(options), clock: clock}
}

func (f env) advance(d time.Duration) { f.clock.Step(d) }

func (f env) setCIDR(cidr string) {
	f.Helper()
	config := &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: cidr}}
	if err := f.UpdateRuntimeConfig(context.Background(), config); err != nil {
		f.Fatalf("UpdateRuntimeConfig(%q): %v", cidr, err)
	}
}

func podConfig(name string, annotations map[string]string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		Labels:      map[string]string{"io.kubernetes.pod.uid": "uid-" + name},
		Annotations: annotations,
	}
}

func (f env) run(config *runtimeapi.PodSandboxConfig) string {
	f.Helper()
	id, err := f.RunPodSandbox(context.Background(), config, "")
	if err != nil {
		f.Fatalf("RunPodSandbox(%s): %v", config.Metadata.Name, err)
	}
	return id
}

func (f env) ip(sandbox string) string {
	f.Helper()
	response, err := f.PodSandboxStatus(context.Background(), sandbox, false)
	if err != nil {
		f.Fatalf("PodSandboxStatus: %v", err)
	}
	return response.Status.Network.Ip
}

func (f env) start(sandbox, name string, config *runtimeapi.PodSandboxConfig) string {
	f.Helper()
	ctx := context.Background()
	id, err := f.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: "sha256:abc", UserSpecifiedImage: "nginx:1"},
	}, config)
	if err != nil {
		f.Fatalf("CreateContainer(%s): %v", name, err)
	}
	if err := f.StartContainer(ctx, id); err != nil {
		f.Fatalf("StartContainer(%s): %v", name, err)
	}
	return id
}

func (f env) container(id string) *runtimeapi.ContainerStatus {
	f.Helper()
	response, err := f.ContainerStatus(context.Background(), id, false)
	if err != nil {
		f.Fatalf("ContainerStatus: %v", err)
	}
	return response.Status
}

func TestGate(t *testing.T) {
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/24")
	for _, name := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		if !f.condition(name).Status {
			t.Errorf("%s is false at first", name)
		}
		f.Gate().Fail(name, Failure{Reason: "Broken", Message: "on command"})
		if c := f.condition(name); c.Status || c.Reason != "Broken" || c.Message != "on command" {
			t.Errorf("%s after Fail: %v", name, c)
		}
		f.Gate().Restore(name)
		if !f.condition(name).Status {
			t.Errorf("%s is false after Restore", name)
		}
	}
}

func TestLifetimes(t *testing.T) {
	const running, exited = runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_EXITED
	annotations := map[string]string{ExitAfterAnnotation: "30s", ExitCodeAnnotation: "3"}
	for name, test := range map[string]struct {
		role        Role
		annotations map[string]string
		after       time.Duration
		state       runtimeapi.ContainerState
		exitCode    int32
		reason      string
	}{
		"main runs forever":           {MainContainer, nil, 1000 * time.Hour, running, 0, ""},
		"main before its end":         {MainContainer, annotations, 29 * time.Second, running, 0, ""},
		"main after its end":          {MainContainer, annotations, 40 * time.Second, exited, 3, "Error"},
		"main without code":           {MainContainer, map[string]string{ExitAfterAnnotation: "1s"}, time.Second, exited, 0, "Completed"},
		"init ends at once":           {InitContainer, nil, 0, exited, 0, "Completed"},
		"init ignores annotations":    {InitContainer, annotations, 0, exited, 0, "Completed"},
		"sidecar ignores annotations": {Sidecar, annotations, time.Hour, running, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, Options{RoleOf: func(namespace, pod, container string) Role {
				if namespace != "default" || pod != "p" || container != "c" {
					t.Errorf("asked for the role of %s/%s/%s", namespace, pod, container)
				}
				return test.role
			}})
			f.setCIDR("10.1.0.0/24")
			config := podConfig("p", test.annotations)
			id := f.start(f.run(config), "c", config)
			startedAt := f.clock.Now()
			f.advance(test.after)
			got := f.container(id)
			if got.State != test.state || got.ExitCode != test.exitCode || got.Reason != test.reason {
				t.Errorf("want %s, exit code %d, reason %q; got %s, %d, %q",
					test.state, test.exitCode, test.reason, got.State, got.ExitCode, got.Reason)
			}
			listed, err := f.ListContainers(context.Background(), &runtimeapi.ContainerFilter{
				State: &runtimeapi.ContainerStateValue{State: test.state},
			})
			if err != nil || len(listed) != 1 {
				t.Errorf("listed by state: %v, %v", listed, err)
			}
			if life, _ := lifetimeOf(test.annotations); test.state == exited && test.role == MainContainer {
				if want := startedAt.Add(life.after).UnixNano(); got.FinishedAt != want {
					t.Errorf("finished at %d, want %d: the end of its lifetime, not when its state was read", got.FinishedAt, want)
				}
			}
		})
	}
}

func TestBadAnnotationsAreRefusedByName(t *testing.T) {
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/24")
	for _, test := range []struct{ annotation, value string }{
		{ExitAfterAnnotation, "soon"}, {ExitAfterAnnotation, "-1s"}, {ExitCodeAnnotation, "256"}, {ExitCodeAnnotation, "x"},
	} {
		annotations := map[string]string{ExitAfterAnnotation: "1s"}
		annotations[test.annotation] = test.value
		_, err := f.RunPodSandbox(context.Background(), podConfig("p", annotations), "")
		if err == nil || !strings.Contains(err.Error(), test.annotation) || !strings.Contains(err.Error(), test.value) {
			t.Errorf("%s=%s: want an error that names both, got %v", test.annotation, test.value, err)
		}
	}
	if left, _ := f.ListPodSandbox(context.Background(), nil); len(left) != 0 || len(f.addresses.used) != 0 {
		t.Errorf("refused pods left %d sandboxes and %d addresses", len(left), len(f.addresses.used))
	}
}

func TestBadSandboxConfigsAreRefusedByField(t *testing.T) {
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/24")
	for field, change := range map[string]func(*runtimeapi.PodSandboxConfig){
		"config.metadata":           func(c *runtimeapi.PodSandboxConfig) { c.Metadata = nil },
		"config.metadata.name":      func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name = "" },
		"config.metadata.namespace": func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Namespace = "" },
		"config.metadata.uid":       func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Uid = "" },
	} {
		config := podConfig("p", nil)
		change(config)
		if _, err := f.RunPodSandbox(context.Background(), config, ""); err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("want an error that names %s, got %v", field, err)
		}
	}
}

func TestStoppedContainersCountAsKilled(t *testing.T) {
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/24")
	config := podConfig("p", map[string]string{ExitAfterAnnotation: "30s"})
	sandbox := f.run(config)
	stopped, ended := f.start(sandbox, "a", config), f.start(sandbox, "b", config)
	if err := f.StopContainer(context.Background(), stopped, 30); err != nil {
		t.Fatal(err)
	}
	f.advance(time.Minute)
	if err := f.StopPodSandbox(context.Background(), sandbox); err != nil {
		t.Fatal(err)
	}
	if got := f.container(stopped); got.ExitCode != 143 || got.Reason != "Error" {
		t.Errorf("stopped container: exit code %d, reason %q", got.ExitCode, got.Reason)
	}
	if got := f.container(ended); got.ExitCode != 0 || got.Reason != "Completed" {
		t.Errorf("a container that had ended before was stopped again: exit code %d, reason %q", got.ExitCode, got.Reason)
	}
}

func TestImagesAreShownByName(t *testing.T) {
	for name, want := range map[string]string{
		"nginx:1":                  "nginx@sha256:abc",
		"localhost:5000/nginx":     "localhost:5000/nginx@sha256:abc",
		"localhost:5000/nginx:1.2": "localhost:5000/nginx@sha256:abc",
		"nginx@sha256:def":         "nginx@sha256:def",
	} {
		shown, reference := imageOf(&runtimeapi.ImageSpec{Image: "sha256:abc", UserSpecifiedImage: name})
		if shown.Image != name || reference != want {
			t.Errorf("%s: shown as %s, reference %s, want %s", name, shown.Image, reference, want)
		}
	}
}

func TestImages(t *testing.T) {
	ctx := context.Background()
	images := NewImages(ImageOptions{Mountpoint: "/state"})
	spec := &runtimeapi.ImageSpec{Image: "nginx:1.27"}
	if response, err := images.ImageStatus(ctx, spec, false); err != nil || response.Image != nil {
		t.Fatalf("before the pull: %v, %v", response, err)
	}
	id, err := images.PullImage(ctx, spec, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nginx:1.27", id} {
		response, err := images.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name}, false)
		if err != nil || response.Image.GetId() != id || response.Image.RepoTags[0] != "nginx:1.27" {
			t.Errorf("status of %s: %v, %v", name, response, err)
		}
	}
	again, _ := images.PullImage(ctx, spec, nil, nil)
	if listed, _ := images.ListImages(ctx, nil); len(listed) != 1 || again != id {
		t.Errorf("pulling twice: %d images, IDs %s and %s", len(listed), id, again)
	}
	if info, _ := images.ImageFsInfo(ctx); info.ImageFilesystems[0].UsedBytes.Value < smallestImage {
		t.Errorf("used bytes: %v", info)
	}
	if err := images.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: id}); err != nil {
		t.Fatal(err)
	}
	if listed, _ := images.ListImages(ctx, nil); len(listed) != 0 || images.UsedBytes() != 0 {
		t.Errorf("after the removal %d images with %d bytes are left", len(listed), images.UsedBytes())
	}
	if _, err := images.PullImage(ctx, &runtimeapi.ImageSpec{}, nil, nil); err == nil || !strings.Contains(err.Error(), "image.image") {
		t.Errorf("want an error that names the field, got %v", err)
	}
}

// Claim: No unbounded growth. Broken: containers of removed pods stay.
func TestNothingIsLeftAfterAThousandPods(t *testing.T) {
	ctx := context.Background()
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/29")
	for i := range 1000 {
		config := podConfig(fmt.Sprint("p", i), nil)
		sandbox := f.run(config)
		removed := f.start(sandbox, "a", config)
		f.start(sandbox, "b", config) // goes with its sandbox
		if err := f.StopPodSandbox(ctx, sandbox); err != nil {
			t.Fatal(err)
		}
		if err := f.RemoveContainer(ctx, removed); err != nil {
			t.Fatal(err)
		}
		if err := f.RemovePodSandbox(ctx, sandbox); err != nil {
			t.Fatal(err)
		}
	}
	if s, c, a := len(f.sandboxes), len(f.containers), len(f.addresses.used); s+c+a != 0 {
		t.Errorf("left over: %d sandboxes, %d containers, %d addresses", s, c, a)
	}
}
