package controlplane_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/apis/versionreport"
)

// versionFile is one as a kubelet changes it.
type versionFile string

func (f versionFile) write(t *testing.T, content string) {
	t.Helper()
	if err := os.WriteFile(string(f)+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(string(f)+".new", string(f)); err != nil {
		t.Fatal(err)
	}
}

// awaitReport waits until everyone can read that the components run these versions, and have this problem.
func (c *cluster) awaitReport(t *testing.T, want versionreport.Report) {
	t.Helper()
	anyone := kubernetes.NewForConfigOrDie(rest.AnonymousClientConfig(c.config(t, c.ready(t).AdminKubeconfig)))
	within(t, patience, fmt.Sprintf("the report is %+v", want), func() error {
		found, err := anyone.CoreV1().ConfigMaps(versionreport.Namespace).Get(ctx, versionreport.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := versionreport.Parse(found.Data)
		if got.Problem != want.Problem && strings.Contains(got.Problem, want.Problem) && want.Problem != "" {
			got.Problem = want.Problem
		}
		if got != want {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
}

// editRecord changes what the cluster has recorded of its versions, as an end between two components would leave it.
func (c *cluster) editRecord(t *testing.T, versions map[string]string) {
	t.Helper()
	path := filepath.Join(c.dir, "cluster.json")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	record := map[string]any{}
	if err := json.Unmarshal(content, &record); err != nil {
		t.Fatal(err)
	}
	record["emulatedVersions"] = versions
	if content, err = json.Marshal(record); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Claim: A control plane follows the file with its version in order, says what runs, and a start continues where the last one ended. Broken: a restart that starts with the file's version; an interrupted upgrade left; a version that skips a minor.
func TestAControlPlaneFollowsItsVersionFile(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a control plane twice")
	}
	file := versionFile(filepath.Join(t.TempDir(), "version"))
	if _, stderr, code := simcluster(t, "start", "--name", "c1", "--data-dir", t.TempDir(), "--emulated-version-file", string(file)); code == 0 || !strings.Contains(stderr, "--emulated-version-file") {
		t.Errorf("start without the file: exit code %d, %s", code, stderr)
	}
	file.write(t, "1.35\n")
	c := startCluster(t, t.TempDir(), withoutPods, "--emulated-version-file", string(file))
	c.awaitReport(t, versionreport.Report{APIServer: "v1.35", ControllerManager: "v1.35", Scheduler: "v1.35"})
	before := c.ready(t)
	for content, why := range map[string]string{"1.37": "may not skip a minor", "1.34": "cannot go back", "latest": "write it as 1.36", "": "write it as 1.36"} {
		file.write(t, content)
		c.awaitReport(t, versionreport.Report{APIServer: "v1.35", ControllerManager: "v1.35", Scheduler: "v1.35", Problem: why})
	}
	for name, component := range c.ready(t).Components {
		if component.PID != before.Components[name].PID {
			t.Errorf("%s was started again for a version that is refused", name)
		}
	}
	file.write(t, "1.36")
	c.awaitReport(t, versionreport.Report{APIServer: "v1.36", ControllerManager: "v1.36", Scheduler: "v1.36"})
	if etcd := c.ready(t).Components[controlplane.Etcd].PID; etcd != before.Components[controlplane.Etcd].PID {
		t.Error("the data store was started again")
	}

	if err := c.command.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	c.editRecord(t, map[string]string{controlplane.APIServer: "1.36", controlplane.ControllerManager: "1.36", controlplane.Scheduler: "1.35"})
	file.write(t, "1.37")
	again := startCluster(t, c.dir, withoutPods, "--emulated-version-file", string(file))
	last := again.ready(t).Version
	again.awaitReport(t, versionreport.Report{APIServer: last, ControllerManager: last, Scheduler: last})
	said := again.output.String()
	for _, step := range []string{"kube-scheduler upgraded to 1.36", "kube-apiserver upgraded to 1.37", "kube-controller-manager upgraded to 1.37", "kube-scheduler upgraded to 1.37"} {
		_, rest, found := strings.Cut(said, step)
		if !found {
			t.Fatalf("%q does not come next in:\n%s", step, again.output)
		}
		said = rest
	}
	again.stop(t)
}
