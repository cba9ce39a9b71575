package pods_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// output is what a program says, for a test that reads while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(content []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(content)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startAgent runs the agent's container of a pod as a process, with its arguments, volumes and ServiceAccount. Only paths, addresses and
// ports are those of this machine.
func startAgent(t *testing.T, kubelet *kubelet, namespace string) (health string, said *output) {
	t.Helper()
	g := NewWithT(t)
	binary, err := testenv.Binary("agent")
	g.Expect(err).NotTo(HaveOccurred())
	pod := &corev1.Pod{}
	g.Expect(admin().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: rendering.PodName}, pod)).To(Succeed())
	ready, err := process.ReadReady(filepath.Join(kubelet.data(pod), "cluster"))
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	container := pod.Spec.Containers[0]
	moved := []string{"https://kubernetes.default.svc", testenv.Server().Config.Host, "https://127.0.0.1:6443", ready.Server}
	for _, mount := range container.VolumeMounts {
		moved = append(moved, mount.MountPath, filepath.Join(dir, mount.Name))
	}
	move := strings.NewReplacer(moved...)
	for _, volume := range pod.Spec.Volumes {
		for name, content := range filesOf(t, namespace, volume) {
			path := filepath.Join(dir, volume.Name, name)
			g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
			g.Expect(os.WriteFile(path, []byte(move.Replace(content)), 0o600)).To(Succeed())
		}
	}
	health, err = testenv.FreeAddress()
	g.Expect(err).NotTo(HaveOccurred())
	var arguments []string
	for _, argument := range container.Args {
		argument = strings.Replace(strings.Replace(argument, "--metrics-address=:8080", "--metrics-address=0", 1), "=:8081", "="+health, 1)
		arguments = append(arguments, move.Replace(argument))
	}
	said = &output{}
	command := exec.Command(binary, arguments...) //nolint:noctx // It ends with the test.
	command.Stdout, command.Stderr = said, said
	g.Expect(command.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	return health, said
}

// filesOf are those of a volume of the agent, as a kubelet makes them.
func filesOf(t *testing.T, namespace string, volume corev1.Volume) map[string]string {
	t.Helper()
	g, files := NewWithT(t), map[string]string{}
	configMap := func(name string) {
		found := &corev1.ConfigMap{}
		g.Expect(admin().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, found)).To(Succeed())
		for key, content := range found.Data {
			files[key] = content
		}
	}
	switch {
	case volume.ConfigMap != nil:
		configMap(volume.ConfigMap.Name)
	case volume.Secret != nil:
		found := &corev1.Secret{}
		g.Expect(admin().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: volume.Secret.SecretName}, found)).To(Succeed())
		for key, content := range found.Data {
			files[key] = string(content)
		}
	case volume.Name == "host-token":
		configMap("kube-root-ca.crt")
		accounts, err := kubernetes.NewForConfig(testenv.Server().Config)
		g.Expect(err).NotTo(HaveOccurred())
		token, err := accounts.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), rendering.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		files["token"] = token.Status.Token
	}
	return files
}

// Claim: A simulated pod's agent reaches host and control plane, and finds its credential. Broken: a kubeconfig's path; the role of its ServiceAccount; --credential-secret-cluster without effect.
func TestTheAgentOfAPodWorksWithWhatItsPodHas(t *testing.T) {
	testenv.Long(t)
	g, kubelet, desired := NewWithT(t), startKubelet(t), newDesired(t)
	driver := newDriver(t, func(o *pods.Options) { o.Dial = kubelet.Dial })
	desired.Hub.Server = "https://127.0.0.1:1"
	g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
	expectRunning(g, driver, desired, Not(BeEmpty()))
	health, said := startAgent(t, kubelet, rendering.NamespaceOf(desired.Name))
	g.Eventually(func() map[string]string { return outcomes(health) }).WithTimeout(time.Minute).Should(
		And(HaveKeyWithValue("target", "OK"), HaveKeyWithValue("host", "OK"), HaveKey("hub")), said.String)
	g.Expect(said.String()).To(ContainSubstring("Using the stored credential"))
	g.Expect(said.String()).To(ContainSubstring("Secret " + rendering.NamespaceOf(desired.Name) + "/" + rendering.CredentialSecret))
}

// outcomes are those of an agent's last probes, by what was probed.
func outcomes(health string) map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+health+"/frozenz?format=json", nil)
	if err != nil {
		return nil
	}
	anyone := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // It is the test's own agent.
	defer anyone.CloseIdleConnections()
	response, err := anyone.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	var state struct {
		Endpoints []struct {
			Scope       string `json:"scope"`
			LastOutcome string `json:"lastOutcome"`
		} `json:"endpoints"`
	}
	if json.NewDecoder(response.Body).Decode(&state) != nil {
		return nil
	}
	found := map[string]string{}
	for _, endpoint := range state.Endpoints {
		found[endpoint.Scope] = endpoint.LastOutcome
	}
	return found
}
