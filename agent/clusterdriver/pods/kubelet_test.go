package pods_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

const (
	kubeletNode     = "test-kubelet"
	kubeletInterval = 200 * time.Millisecond
	kubeletGrace    = 30 * time.Second
)

// kubelet runs the control planes of pods of simulated clusters as processes of this machine, from the arguments and volumes of the pod
// and with the program of the image. It only claims to run their agents.
type kubelet struct {
	t      *testing.T
	client client.Client
	binary string
	// volumes is the directory for what pods keep.
	volumes string
	// started is when it was: pods of tests before are not its business.
	started time.Time

	mu   sync.Mutex
	pods map[string]*kubeletPod
	// starts counts the control planes that were started, by the UID of their SimulatedCluster.
	starts map[string]int
}

// kubeletPod is what runs of a pod.
type kubeletPod struct {
	uid string
	// dir has the volumes. It is the same for the next pod of the cluster, as paths in containers are.
	dir     string
	command *exec.Cmd
	done    chan struct{}
	output  bytes.Buffer
	started metav1.Time
	// mounted counts how often a volume got new contents.
	mounted int
}

// startKubelet starts one for all pods of simulated clusters, until the test ends.
func startKubelet(t *testing.T) *kubelet {
	t.Helper()
	binary, err := testenv.Binary("simcluster")
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{t: t, client: testenv.Server().Client, binary: binary, volumes: t.TempDir(), started: time.Now().Truncate(time.Second), pods: map[string]*kubeletPod{}, starts: map[string]int{}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: kubeletNode}}
	if err := k.client.Create(t.Context(), node); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		for namespace, pod := range k.pods {
			pod.stop()
			if t.Failed() {
				t.Logf("control plane in %s: %s", namespace, pod.output.String())
			}
		}
	})
	return k
}

func (k *kubelet) run(ctx context.Context) {
	ticker := time.NewTicker(kubeletInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		list := &corev1.PodList{}
		if err := k.client.List(ctx, list, client.HasLabels{rendering.UIDLabel}); err != nil {
			continue
		}
		alive := map[string]bool{}
		for i := range list.Items {
			if list.Items[i].CreationTimestamp.Time.Before(k.started) {
				continue
			}
			alive[list.Items[i].Namespace] = true
			if err := k.sync(ctx, &list.Items[i]); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				k.t.Logf("kubelet: pod %s: %v", list.Items[i].Namespace, err)
			}
		}
		k.mu.Lock()
		for namespace, pod := range k.pods {
			if !alive[namespace] {
				pod.stop()
				delete(k.pods, namespace)
			}
		}
		k.mu.Unlock()
	}
}

// sync does for a pod what a scheduler and a kubelet do.
func (k *kubelet) sync(ctx context.Context, pod *corev1.Pod) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	running := k.pods[pod.Namespace]
	if pod.DeletionTimestamp != nil {
		if running != nil {
			running.stop()
			delete(k.pods, pod.Namespace)
		}
		return k.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	}
	if pod.Spec.NodeName == "" {
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: kubeletNode}}
		return k.client.SubResource("binding").Create(ctx, pod, binding)
	}
	if running == nil {
		running = &kubeletPod{uid: string(pod.UID), dir: filepath.Join(k.dir(pod), "mounts")}
	}
	if missing, err := k.mount(ctx, pod, running); err != nil || missing != "" {
		return k.report(ctx, pod, waiting("ContainerCreating", missing), waiting("PodInitializing", ""))
	}
	if running.command == nil {
		if err := k.start(pod, running); err != nil {
			return err
		}
		k.pods[pod.Namespace] = running
		k.starts[pod.Labels[rendering.UIDLabel]]++
	}
	controlPlane, agent := running.state(), waiting("PodInitializing", "")
	if k.isReady(running, pod) {
		agent = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: running.started}}
	}
	return k.report(ctx, pod, controlPlane, agent)
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// dir is what outlives the pod: its volume.
func (k *kubelet) dir(pod *corev1.Pod) string {
	return filepath.Join(k.volumes, pod.Labels[rendering.UIDLabel])
}

func (k *kubelet) data(pod *corev1.Pod) string { return filepath.Join(k.dir(pod), "data") }

func (k *kubelet) isReady(running *kubeletPod, pod *corev1.Pod) bool {
	ready, err := process.ReadReady(filepath.Join(k.data(pod), "cluster"))
	return err == nil && running.command != nil && ready.SupervisorPID == running.command.Process.Pid
}

// mount writes the volumes of the control plane's container, or says what is missing.
func (k *kubelet) mount(ctx context.Context, pod *corev1.Pod, running *kubeletPod) (missing string, err error) {
	for _, volume := range pod.Spec.Volumes {
		files := map[string][]byte{}
		switch {
		case volume.ConfigMap != nil:
			content := &corev1.ConfigMap{}
			if err := k.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: volume.ConfigMap.Name}, content); err != nil {
				return "ConfigMap " + volume.ConfigMap.Name, client.IgnoreNotFound(err)
			}
			for name, text := range content.Data {
				files[name] = []byte(text)
			}
		case volume.Name == "pki":
			for _, source := range volume.Projected.Sources {
				content := &corev1.Secret{}
				if err := k.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: source.Secret.Name}, content); err != nil {
					return "Secret " + source.Secret.Name, client.IgnoreNotFound(err)
				}
				for _, item := range source.Secret.Items {
					files[item.Path] = content.Data[item.Key]
				}
			}
		default:
			continue
		}
		if err := running.publish(filepath.Join(running.dir, volume.Name), files); err != nil {
			return "", err
		}
	}
	return "", nil
}

// publish makes a directory have these files, all at once, as a kubelet does.
func (p *kubeletPod) publish(dir string, files map[string][]byte) error {
	same := true
	for name, content := range files {
		known, err := os.ReadFile(filepath.Join(dir, name))
		same = same && err == nil && bytes.Equal(known, content)
	}
	if same {
		return nil
	}
	p.mounted++
	version := fmt.Sprintf("..%s-%d", p.uid, p.mounted)
	for name, content := range files {
		path := filepath.Join(dir, version, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	before, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := os.Symlink(version, filepath.Join(dir, "..new")); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
		return err
	}
	for name := range files {
		top, _, _ := strings.Cut(name, "/")
		if err := os.Symlink(filepath.Join("..data", top), filepath.Join(dir, top)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	if before == "" {
		return nil
	}
	// Programs notice by this that there are new ones.
	return os.RemoveAll(filepath.Join(dir, before))
}

// start starts the control plane with the arguments of its container. Only what is the machine's is another: paths, address and port.
func (k *kubelet) start(pod *corev1.Pod, running *kubeletPod) error {
	container := pod.Spec.InitContainers[0]
	if err := os.MkdirAll(k.data(pod), 0o700); err != nil {
		return err
	}
	var arguments []string
	for _, argument := range container.Args {
		switch argument {
		case "--listen=0.0.0.0":
			argument = "--listen=127.0.0.1"
		case "--apiserver-port=6443":
			argument = "--apiserver-port=0"
		case "--exit-with-parent=false":
			argument = "--exit-with-parent=true"
		case "--fsync=true":
			argument = "--fsync=false"
		}
		for _, mount := range container.VolumeMounts {
			host := filepath.Join(running.dir, mount.Name)
			if mount.Name == "data" {
				host = k.data(pod)
			}
			if flag, value, is := strings.Cut(argument, "="); is && (value == mount.MountPath || strings.HasPrefix(value, mount.MountPath+"/")) {
				argument = flag + "=" + host + strings.TrimPrefix(value, mount.MountPath)
				break
			}
		}
		arguments = append(arguments, argument)
	}
	command := exec.Command(k.binary, arguments...) //nolint:noctx // It ends with the pod.
	command.Stdout, command.Stderr = &running.output, &running.output
	if err := command.Start(); err != nil {
		return err
	}
	running.command, running.done, running.started = command, make(chan struct{}), metav1.Now().Rfc3339Copy()
	go func() {
		_ = command.Wait()
		close(running.done)
	}()
	return nil
}

func (p *kubeletPod) state() corev1.ContainerState {
	select {
	case <-p.done:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: p.output.String(), StartedAt: p.started, FinishedAt: p.started}}
	default:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.started}}
	}
}

// stop ends the control plane as a kubelet does.
func (p *kubeletPod) stop() {
	if p.command == nil {
		return
	}
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(kubeletGrace):
		_ = p.command.Process.Kill()
		<-p.done
	}
}

// report writes the pod's status if it is another.
func (k *kubelet) report(ctx context.Context, pod *corev1.Pod, controlPlane, agent corev1.ContainerState) error {
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodPending
	if agent.Running != nil {
		pod.Status.Phase = corev1.PodRunning
	}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: rendering.ControlPlaneContainer, Image: pod.Spec.InitContainers[0].Image, State: controlPlane, Ready: agent.Running != nil, Started: ptr.To(agent.Running != nil),
	}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: rendering.AgentContainer, Image: pod.Spec.Containers[0].Image, State: agent, Ready: agent.Running != nil}}
	return k.client.Status().Patch(ctx, pod, client.MergeFrom(before))
}

// Dial connects to the API server of a pod by the name of its Service.
func (k *kubelet) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	namespace, is := strings.CutSuffix(strings.TrimPrefix(address, rendering.Name+"."), ".svc:6443")
	k.mu.Lock()
	running := k.pods[namespace]
	k.mu.Unlock()
	if !is || running == nil {
		return nil, fmt.Errorf("nothing listens at %s", address)
	}
	ready, err := process.ReadReady(filepath.Join(filepath.Dir(running.dir), "data", "cluster"))
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(ready.Server, "https://"))
}

// supervisor is the process of the control plane in a namespace; 0 if there is none.
func (k *kubelet) supervisor(namespace string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if running := k.pods[namespace]; running != nil && running.command != nil {
		return running.command.Process.Pid
	}
	return 0
}
