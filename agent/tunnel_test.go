package agent_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
)

// tunnel forwards TCP connections to an API server until it is cut.
type tunnel struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	cut      bool
	open     []net.Conn
}

func newTunnel(t *testing.T, to string) *tunnel {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tunnel := &tunnel{listener: listener, to: to}
	go tunnel.serve()
	t.Cleanup(func() { _ = listener.Close(); tunnel.set(true) })
	return tunnel
}

func (n *tunnel) serve() {
	for {
		from, err := n.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", n.to)
		n.mu.Lock()
		if n.cut || err != nil {
			_ = from.Close()
			n.mu.Unlock()
			continue
		}
		n.open = append(n.open, from, to)
		n.mu.Unlock()
		go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
		go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
	}
}

// set cuts all connections and refuses new ones, or lets them through again.
func (n *tunnel) set(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	if cut {
		for _, connection := range n.open {
			_ = connection.Close()
		}
		n.open = nil
	}
}

// through returns a kubeconfig that is path, but goes through a tunnel.
func through(f *WithT, t *testing.T, path string) (string, *tunnel) {
	config, err := clientcmd.LoadFromFile(path)
	f.Expect(err).NotTo(HaveOccurred())
	var n *tunnel
	for _, cluster := range config.Clusters {
		n = newTunnel(t, strings.TrimPrefix(cluster.Server, "https://"))
		cluster.Server = "https://" + n.listener.Addr().String()
	}
	file := t.TempDir() + "/kubeconfig"
	f.Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	return file, n
}
