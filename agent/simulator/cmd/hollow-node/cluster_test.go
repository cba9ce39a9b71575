package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const goodToken = "abcdef.0123456789abcdef"

// cluster is a real control plane for all tests of this package, on which no controller approves certificate
// signing requests but the tests.
type cluster struct {
	dir    string
	server string
	caFile string
	admin  *rest.Config
	client kubernetes.Interface
	stop   func()
}

// shared is started by the first test that needs it.
var (
	shared      *cluster
	sharedGuard sync.Mutex
)

// TestMain lets the test program be a pack as well, in which a kubelet can panic.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "hollow-node" {
		servePoisonedPack()
	}
	code := m.Run()
	if shared != nil {
		shared.stop()
	}
	os.Exit(code)
}

// binary returns the path of a built binary.
func binary(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("HOLLOWFLEET_BIN")
	if dir == "" {
		dir = "../../../../bin"
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("this test runs the real %s: build it, and set HOLLOWFLEET_BIN to its directory if that is not bin/ of the repository: %v", name, err)
	}
	return path
}

func realCluster(t *testing.T) *cluster {
	t.Helper()
	sharedGuard.Lock()
	defer sharedGuard.Unlock()
	if shared == nil {
		shared = startCluster(t)
	}
	return shared
}

// startCluster starts a control plane of its own, with further arguments for simcluster.
func startCluster(t *testing.T, arguments ...string) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "hollow-node-test-") //nolint:usetesting // The cluster outlives the test that starts it.
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary(t, "simcluster"), append([]string{
		"start", "--name", "c1", "--data-dir", dir,
		"--components", "etcd,kube-apiserver,kube-controller-manager,kube-scheduler",
	}, arguments...)...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	c := &cluster{dir: dir, stop: func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		_ = os.RemoveAll(dir)
	}}
	var ready struct{ Server, AdminKubeconfig, CAFile string }
	eventually(t, "the control plane is ready", 3*time.Minute, func(context.Context) error {
		data, err := os.ReadFile(filepath.Join(dir, "ready.json"))
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &ready)
	})
	c.server, c.caFile = ready.Server, ready.CAFile
	if c.admin, err = clientcmd.BuildConfigFromFlags("", ready.AdminKubeconfig); err != nil {
		t.Fatal(err)
	}
	c.admin.QPS = -1
	c.client = kubernetes.NewForConfigOrDie(c.admin)
	c.allowBootstrap(t)
	return c
}

// allowBootstrap makes a bootstrap token that may ask for certificates, and nothing more.
func (c *cluster) allowBootstrap(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	_, err := c.client.CoreV1().Secrets("kube-system").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"},
		Type:       "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// bootstrapKubeconfig writes a kubeconfig with the token, replacing one that is there.
func (c *cluster) bootstrapKubeconfig(t *testing.T, path, token string) {
	t.Helper()
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: c.server, CertificateAuthority: c.caFile}
	config.AuthInfos["u"] = &api.AuthInfo{Token: token}
	config.Contexts["x"] = &api.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// component runs a simcluster command on one component.
func (c *cluster) component(t *testing.T, action, name string) {
	t.Helper()
	output, err := exec.Command(binary(t, "simcluster"), "component", action, name, "--data-dir", c.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", action, name, err, output)
	}
}

// eventually waits until the check succeeds.
func eventually(t *testing.T, what string, patience time.Duration, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			err := check(ctx)
			if ctx.Err() == nil {
				last = err
			}
			return err == nil, nil
		})
	if err != nil {
		t.Fatalf("not within %s: %s: %v", patience, what, errors.Join(last, err))
	}
}

// throughout checks that something stays as it is for a while.
func throughout(t *testing.T, what string, duration time.Duration, check func(context.Context) error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 500*time.Millisecond, duration, true,
		func(context.Context) (bool, error) {
			// Not the poll's context: a check that the end of the poll cuts off says nothing.
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := check(ctx); err != nil {
				return false, fmt.Errorf("%s: %w", what, err)
			}
			return false, nil
		})
	if !wait.Interrupted(err) {
		t.Fatal(err)
	}
}
