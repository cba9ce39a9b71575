package podhost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
)

const (
	// childVariable holds the options of a podhost that this test program is
	// to run instead of tests, so that a test can kill it.
	childVariable = "PODHOST_TEST_CHILD"
	// readyLine is what the child prints when it is ready.
	readyLine = "ready"

	// serverVariable holds the address on which this test program is to serve
	// instead of running tests, as the program of a container.
	serverVariable = "PODHOST_TEST_SERVER"
	serverPort     = "8080"
	serverImage    = "server"
)

func runChild() int {
	var options podhost.Options
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	options.Ready = func() { fmt.Println(readyLine) }
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := podhost.Run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runServer serves a greeting, and its health, which can be set from outside:
// /break and /mend change what /health says.
func runServer() int {
	var broken atomic.Bool
	http.HandleFunc("/greeting", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getenv("GREETING")) })
	http.HandleFunc("/break", func(http.ResponseWriter, *http.Request) { broken.Store(true) })
	http.HandleFunc("/mend", func(http.ResponseWriter, *http.Request) { broken.Store(false) })
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	err := http.ListenAndServe(os.Getenv(serverVariable), nil)
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// withServer gives a podhost the image "server", which is this test program in
// a directory of its own.
func withServer(t *testing.T) func(*podhost.Options) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	if err := os.Symlink(program, filepath.Join(directory, "server")); err != nil {
		t.Fatal(err)
	}
	return func(o *podhost.Options) { o.Images[serverImage] = directory }
}

// server describes a pod that serves on its own address.
func (h *testHost) server(name string) *corev1.Pod {
	pod := h.pod(name, "server")
	pod.Spec.Containers[0].Image = serverImage + ":v1"
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		{Name: serverVariable, Value: net.JoinHostPort("$(IP)", serverPort)},
	}
	return pod
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }
