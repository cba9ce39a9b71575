package cli_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// A tree that is followed is shown again when it changes, and ends with its root.
func TestATreeIsFollowed(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	shown := f.follows("fleet tree fleet/NAME -w")
	shown.shows(`(?s)^--- .*\nMachineFleet/` + f.name + ` +True`)
	f.grow(f.clusters[1].Name)
	shown.shows(`(?m)^.*Machine/` + f.name + `-1-a +False \(NodeNotReady\)`)
	f.fails(2, "-o: want json, wide or yaml", "fleet tree fleet/NAME -w -o name")
	shown.stopsBy130()

	deployment := f.follows("fleet tree machinedeployment/NAME -w -n " + f.clusters[1].Name)
	deployment.shows(`MachineDeployment/` + f.name)
	f.ExpectDeleted(&v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.clusters[1].Name, Name: f.name}})
	var r run
	f.Eventually(deployment.ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(3), r.errOut)
}

// treeJSON is what a script reads of a tree.
type treeJSON struct {
	APIVersion, Kind string
	Complete         bool
	LeftOut, Stale   []string
	Root             nodeJSON
}

type nodeJSON struct {
	Kind, Namespace, Name, Ready, Reason string
	Children                             []nodeJSON
}

// find returns the first object of a kind below n, or n itself.
func (n *nodeJSON) find(kind string) *nodeJSON {
	if n.Kind == kind {
		return n
	}
	for i := range n.Children {
		if found := n.Children[i].find(kind); found != nil {
			return found
		}
	}
	return nil
}

// Claim: `fleet tree -o json` prints one document, and with -w one per line that follows changes. Broken: nothing printed after a change; a document over several lines.
func TestATreeAsADocument(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.letHubWork()
	var found treeJSON
	f.Expect(json.Unmarshal([]byte(f.succeeds("fleet tree NAME -o json")), &found)).To(Succeed())
	f.Expect(found.Root.find("Cluster")).To(HaveValue(HaveField("Ready", "True")))
	f.Expect(found).To(And(HaveField("APIVersion", "cli.hollowfleet.io/v1"), HaveField("Kind", "Tree"), HaveField("Complete", true), HaveField("Root.Name", f.name)))
	f.Expect(f.succeeds("fleet tree NAME -o yaml")).To(HavePrefix("apiVersion: cli.hollowfleet.io/v1\n"))
	shown := f.follows("fleet tree fleet/NAME -w -o json")
	shown.shows(`(?m)^\{"apiVersion":"cli.hollowfleet.io/v1","kind":"Tree".*\}$`)
	f.grow(f.clusters[1].Name)
	shown.shows(`(?m)^\{.*"kind":"Machine","namespace":"` + f.clusters[1].Name + `","name":"` + f.name + `-1-a","ready":"False","reason":"NodeNotReady".*\}$`)
	shown.stopsBy130()
	f.grant([]string{"get", "list", "watch"}, health.Machine)
	f.Eventually(func() int { return f.as(f.name, "fleet list").code }).WithTimeout(patience).Should(Equal(0))
	r := f.as(f.name, "fleet tree fleet/NAME -o json")
	f.Expect(r.code).To(Equal(4), r.errOut)
	found = treeJSON{}
	f.Expect(json.Unmarshal([]byte(r.out), &found)).To(Succeed())
	f.Expect(found).To(And(HaveField("Complete", false), HaveField("LeftOut", ConsistOf("Machine: you may not list them"))))
	f.Expect(found.Root.find("MachineSet")).NotTo(BeNil())
	f.Expect(found.Root.find("Machine")).To(BeNil())
}

// What a user may not list is left out of a tree and named.
func TestATreeWithoutTheRightToMachines(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.grow(f.clusters[1].Name)
	f.grant([]string{"get", "list", "watch"}, health.Machine)
	f.Eventually(func() int { return f.as(f.name, "fleet list").code }).WithTimeout(patience).Should(Equal(0))
	r := f.as(f.name, "fleet tree fleet/NAME")
	f.Expect(r.code).To(Equal(4), r.errOut)
	f.Expect(r.errOut).To(And(ContainSubstring("Left out: Machine: you may not list them"), ContainSubstring("the tree is not complete: you may not list: Machine\n")))
	f.Expect(r.out).To(And(ContainSubstring("MachineSet/"+f.name+"-1"), Not(ContainSubstring("Machine/"+f.name))))
	shown := f.follows("fleet tree fleet/NAME -w --as NAME")
	shown.shows(`(?s)Left out: Machine: you may not list them.*MachineSet/` + f.name + `-1`)
	shown.stopsBy130()
}

// countingProxy is a way to the API server that counts lists, by the last part of their path.
func countingProxy(t *testing.T) (address string, lists func() map[string]int) {
	t.Helper()
	return countingProxyOf(t, testenv.Server())
}

// countingProxyOf is countingProxy to another API server.
func countingProxyOf(t *testing.T, environment *testenv.Environment) (address string, lists func() map[string]int) {
	t.Helper()
	g := NewWithT(t)
	server, err := url.Parse(environment.Config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	proxy := httputil.NewSingleHostReverseProxy(server)
	proxy.Transport, err = rest.TransportFor(environment.Config)
	g.Expect(err).NotTo(HaveOccurred())
	var mu sync.Mutex
	counts := map[string]int{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/hollowfleet.io/") && r.URL.Query().Get("limit") != "" {
			mu.Lock()
			counts[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
			mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return counts
	}
}

// However many clusters a fleet has, each kind is listed once, in pages.
func TestStatusAndTreeListEachKindOnce(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	address, lists := countingProxy(t)
	f.succeeds("fleet tree fleet/NAME --server " + address)
	f.Expect(lists()).To(Equal(map[string]int{"machinefleets": 1, "clusters": 1, "machinedeployments": 1, "machinesets": 1, "machines": 1}))
	address, lists = countingProxy(t)
	f.hollow("status --server " + address)
	f.Expect(lists()).To(And(HaveLen(len(health.Kinds)), HaveEach(1)))
}

// On a small terminal, what is fine is counted.
func TestATreeOnASmallTerminal(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.grow(f.clusters[1].Name)
	screen := newTerminal(t)
	f.Expect(unix.IoctlSetWinsize(int(screen.file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 9, Col: 40})).To(Succeed())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan run, 1)
	go func() { ended <- f.hollowOn(ctx, screen.file, "fleet tree NAME -w") }()
	f.Eventually(screen.shows).WithTimeout(patience).Should(And(ContainSubstring("Tree at "), ContainSubstring("MachineFleet/"+f.name)))
	for _, line := range strings.Split(screen.shows(), "\r\n") {
		f.Expect(len([]rune(strings.Trim(line, "\r")))).To(BeNumerically("<=", 40), line)
	}
	interrupt()
	var r run
	f.Eventually(ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(130), r.errOut)
}
