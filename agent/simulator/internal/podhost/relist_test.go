package podhost_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

// link passes connections on to a server and can be cut.
type link struct {
	target   string
	listener net.Listener

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newLink(t *testing.T, target string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{target: target, listener: listener, conns: make(map[net.Conn]bool)}
	t.Cleanup(func() { listener.Close(); l.set(true) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.pass(conn)
		}
	}()
	return l
}

func (l *link) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer server.Close()
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return
	}
	l.conns[client], l.conns[server] = true, true
	l.mu.Unlock()
	go func() { _, _ = io.Copy(server, client); server.Close() }()
	_, _ = io.Copy(client, server)
}

func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for conn := range l.conns {
		conn.Close()
	}
	l.conns = make(map[net.Conn]bool)
}

// through makes the podhost reach the API server over a link.
func (h *testHost) through() *link {
	h.t.Helper()
	config, err := clientcmd.LoadFromFile(h.options.Kubeconfig)
	if err != nil {
		h.t.Fatal(err)
	}
	var l *link
	for _, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			h.t.Fatal(err)
		}
		l = newLink(h.t, server.Host)
		cluster.Server = "https://" + l.listener.Addr().String()
	}
	if err := clientcmd.WriteToFile(*config, h.options.Kubeconfig); err != nil {
		h.t.Fatal(err)
	}
	return l
}

// A podhost that was cut off and has to list its pods again never sees the
// deletions that it missed, nor that a pod is another one than before.
func TestDeletionsMissedWhileCutOff(t *testing.T) {
	h := newTestHost(t)
	l := h.through()
	h.start()
	h.runs("deleted", "alone")
	h.runs("replaced", "alone")
	h.runs("kept", "")
	deleted, replaced, kept := h.announced("deleted"), h.announced("replaced"), h.announced("kept")
	old := h.awaitReady("replaced")

	l.set(true)
	at0 := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	h.delete("deleted", at0)
	h.delete("replaced", at0)
	h.create(h.pod("replaced"))
	// A new API server does not remember what its predecessor would have told.
	h.apiServer("stop")
	h.apiServer("start")
	l.set(false)

	h.await("replaced", "runs in place of its predecessor", func(pod *corev1.Pod) string {
		if pod.UID == old.UID || mainStatus(pod).State.Running == nil {
			return "it does not"
		}
		return ""
	})
	h.eventually("the processes of the pods that are gone have ended", func() error {
		if alive(deleted) || alive(replaced) {
			return errStillRuns
		}
		return nil
	})
	if !alive(kept) || mainStatus(h.awaitReady("kept")).RestartCount != 0 {
		t.Error("the pod that was left alone did not continue")
	}
}

var errStillRuns = errors.New("one of them runs")
