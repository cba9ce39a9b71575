package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// following is a command that is followed until it is interrupted.
type following struct {
	*env
	out       *screenText
	interrupt func()
	ended     chan run
}

// follows starts a command; more are arguments with blanks.
func (f *env) follows(args string, more ...string) *following {
	f.T.Helper()
	ctx, interrupt := context.WithCancel(f.T.Context())
	f.T.Cleanup(interrupt)
	started := &following{env: f, out: &screenText{}, interrupt: interrupt, ended: make(chan run, 1)}
	go func() { started.ended <- f.execute(ctx, started.out, args, more...) }()
	return started
}

// shows waits for a text.
func (f *following) shows(regexp string) {
	f.T.Helper()
	f.Eventually(f.out.String).WithTimeout(patience).Should(MatchRegexp(regexp))
}

// stopsBy130 interrupts it.
func (f *following) stopsBy130() {
	f.T.Helper()
	f.interrupt()
	var r run
	f.Eventually(f.ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(130), r.errOut)
	f.Expect(r.errOut).To(HaveSuffix("interrupted\n"))
}

// ownCluster makes a Cluster of the env's name, and its namespace.
func (f *env) ownCluster() {
	f.T.Helper()
	f.namespace()
	f.ExpectApplied(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}})
}

// failedMachine has failed for a reason that says message.
func (f *env) failedMachine(name, message string) *v1alpha1.Machine {
	f.T.Helper()
	failed := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: name},
		Spec:       v1alpha1.MachineSpec{ClusterName: f.name, MachineTemplateBody: testenv.Template(nil).Spec},
	}
	f.ExpectApplied(failed)
	failed.Status.Phase, failed.Status.ObservedGeneration = v1alpha1.MachineFailed, failed.Generation
	meta.SetStatusCondition(&failed.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ErrorInvalidConfiguration, Message: message, ObservedGeneration: failed.Generation,
	})
	f.ExpectStatusApplied(failed)
	return failed
}

// Where there is no terminal, the status is printed again when it changes, and only then.
func TestStatusIsPrintedWhenItChanges(t *testing.T) {
	f := newEnv(t)
	f.emptyHub()
	f.ownCluster()
	shown := f.follows("status -w")
	shown.shows(`(?s)^--- \d{4}-\d\d-\d\dT.*\nHub: +works: hub-1.*Cluster: +1: 0 healthy`)
	lines := f.follows("status -w -o json")
	lines.shows(`(?m)^\{"apiVersion":"cli.hollowfleet.io/v1","kind":"Status",.*"hub":\{"healthy":true`)
	f.Consistently(shown.out.String, 2*time.Second).Should(WithTransform(func(s string) int { return strings.Count(s, "--- ") }, BeNumerically("<=", 1)), "ages are no change")
	machine := f.failedMachine("broken", "no image")
	shown.shows(`(?s)\n--- .*Problem +Machine +` + f.name + ` +broken +InvalidConfiguration .*no image`)
	lines.shows(`(?m)^.*"name":"broken","state":"Problem"`)
	f.ExpectDeleted(machine)
	f.Eventually(func() string {
		blocks := strings.Split(shown.out.String(), "--- ")
		return blocks[len(blocks)-1]
	}).WithTimeout(patience).ShouldNot(ContainSubstring("broken"))
	lines.stopsBy130()
	for scanner := bufio.NewScanner(strings.NewReader(lines.out.String())); scanner.Scan(); {
		var one statusJSON
		f.Expect(json.Unmarshal(scanner.Bytes(), &one)).To(Succeed(), scanner.Text())
	}
	f.writeLease(longStopped(), 15)
	shown.shows(`(?m)^Hub: +the hub hub-1 has not renewed its Lease for `)
	shown.stopsBy130()
}

// With --timeout the exit code is that of the last state.
func TestAStatusThatIsFollowedForATimeEndsWithTheLastState(t *testing.T) {
	f := newEnv(t)
	f.emptyHub()
	r := f.hollow("status -w --timeout 1s")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(HaveSuffix("The fleet is healthy.\n\n"))
	f.namespace()
	f.failedMachine("broken", "no image")
	r = f.hollow("status -w --timeout 1s -o yaml")
	f.Expect(r.code).To(Equal(1), r.errOut)
	f.Expect(r.errOut).To(HavePrefix("error: the fleet is not healthy: "))
	f.Expect(r.out).To(HavePrefix("---\napiVersion: cli.hollowfleet.io/v1\n"))
	f.fails(2, "--timeout", "status -w --timeout 0s")
}

// An API server that hangs from the start ends the command in time, as does who interrupts it.
// Edge case: A status that was followed waited for the kinds of a stopped API server.
func TestAStatusOfAnAPIServerThatHangsIsNotFollowed(t *testing.T) {
	g := NewWithT(t)
	for timeout, code := range map[string]int{"300ms": 1, "1h": 130} {
		ctx, interrupt := context.WithTimeout(t.Context(), 2*time.Second)
		var out, errOut bytes.Buffer
		line := []string{"status", "-w", "--timeout", timeout, "--kubeconfig", silentServer(t)}
		started := time.Now()
		g.Expect(cli.Execute(ctx, line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})).To(Equal(code), errOut.String())
		g.Expect(time.Since(started)).To(BeNumerically("<", 20*time.Second))
		interrupt()
	}
}

// grant gives the user of the env's name verbs on all kinds but some.
func (f *env) grant(verbs []string, without ...string) {
	f.T.Helper()
	var kinds []string
	for _, kind := range health.Kinds {
		resource, _ := meta.UnsafeGuessKindToResource(v1alpha1.GroupVersion.WithKind(kind.Kind))
		if !slices.Contains(without, kind.Kind) {
			kinds = append(kinds, resource.Resource)
		}
	}
	f.ExpectApplied(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: kinds, Verbs: verbs},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get"}},
	}})
	f.bind(f.name, f.name)
}

// A right that is missing is named, and the rest is followed.
func TestStatusIsFollowedWithoutTheRightToOneKind(t *testing.T) {
	f := newEnv(t)
	f.emptyHub()
	f.ownCluster()
	f.grant([]string{"get", "list", "watch"}, health.LoadTestRun)
	f.Eventually(func() string { return f.as(f.name, "status").errOut }).WithTimeout(patience).Should(ContainSubstring("you may not list: LoadTestRun\n"))
	shown := f.follows("status -w --as NAME")
	shown.shows(`(?m)^LoadTestRun: +not checked: you may not list them`)
	shown.shows(`(?m)^Whether the fleet is healthy is unknown: you may not list: LoadTestRun`)
	f.failedMachine("broken", "no image")
	shown.shows(`Problem +Machine +` + f.name + ` +broken`)
	shown.stopsBy130()
}

// Who may list but not watch sees what was there, and since when it is not followed.
func TestStatusIsNotFollowedWithoutTheRightToWatch(t *testing.T) {
	f := newEnv(t)
	f.emptyHub()
	f.grant([]string{"get", "list"})
	f.Eventually(func() int { return f.as(f.name, "status").code }).WithTimeout(patience).Should(Equal(0))
	r := f.as(f.name, "status -w -o json --timeout 3s")
	f.Expect(r.code).To(Equal(1), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("you may not watch them"))
	f.Expect(r.out).To(ContainSubstring(`"staleKinds":[{"kind":"Cluster"`))
}

// On a terminal there is one screen, in 40 columns too, and what comes from objects does not command it.
func TestStatusOnATerminalOf40Columns(t *testing.T) {
	f := newEnv(t)
	f.emptyHub()
	f.ownCluster()
	screen := newTerminal(t)
	f.Expect(unix.IoctlSetWinsize(int(screen.file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 40})).To(Succeed())
	const evil = "\x1b]0;owned\x07\x1b[2Jred\x1b[31m\nline"
	f.failedMachine("broken", evil)
	lease := &coordinationv1.Lease{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.HubNamespace, Name: v1alpha1.HubLeaseName}, lease)).To(Succeed())
	lease.Spec.HolderIdentity = new(evil)
	f.ExpectApplied(lease)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan run, 1)
	go func() { ended <- f.hollowOn(ctx, screen.file, "status -w") }()
	f.Eventually(screen.shows).WithTimeout(patience).Should(And(ContainSubstring("Problem Machine"), ContainSubstring("InvalidConfiguration"), ContainSubstring(`\x1b]0;owned\x07\x1b[2Jred\x1b`)))
	for _, line := range strings.Split(screen.shows(), "\r\n") {
		f.Expect(len([]rune(strings.Trim(line, "\r")))).To(BeNumerically("<=", 40), line)
	}
	f.Expect(screen.raw()).NotTo(Or(ContainSubstring("\x1b]"), ContainSubstring("\x1b[2J"), ContainSubstring("\x07"), ContainSubstring("\x1b[?")), "no other screen, and no title")
	f.Expect(unix.IoctlSetWinsize(int(screen.file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 140})).To(Succeed())
	f.Eventually(screen.shows).WithTimeout(patience).Should(ContainSubstring("Problem Machine " + f.name + "/broken   InvalidConfiguration, for"))
	interrupt()
	var r run
	f.Eventually(ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(130), r.errOut)
}

// hangingProxy is a way to the API server that can be stopped: connections stay, and nothing passes.
type hangingProxy struct {
	address string
	mu      sync.Mutex
	passes  *sync.Cond
	stopped bool
}

func newHangingProxy(t *testing.T) *hangingProxy {
	t.Helper()
	g := NewWithT(t)
	server, err := url.Parse(testenv.Server().Config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	p := &hangingProxy{address: listener.Addr().String()}
	p.passes = sync.NewCond(&p.mu)
	t.Cleanup(func() { p.stop(false) })
	go func() {
		for {
			front, err := listener.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", server.Host)
			if err != nil {
				_ = front.Close()
				continue
			}
			go p.pass(front, back)
			go p.pass(back, front)
		}
	}()
	return p
}

func (p *hangingProxy) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	part := make([]byte, 32<<10)
	for {
		n, err := from.Read(part)
		p.mu.Lock()
		for p.stopped {
			p.passes.Wait()
		}
		p.mu.Unlock()
		if _, written := to.Write(part[:n]); written != nil || err != nil {
			return
		}
	}
}

func (p *hangingProxy) stop(stopped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = stopped
	p.passes.Broadcast()
}

// An API server that is stopped says nothing: what is shown is old, and the command says since when. It follows again when the API server
// continues.
// Claim: `status -w` says since when the hub's API server has not answered. Broken: an API server that does not answer is not noted.
func TestStatusSaysSinceWhenTheAPIServerIsSilent(t *testing.T) {
	f := newEnv(t)
	f.emptyHub()
	proxy := newHangingProxy(t)
	server, err := url.Parse(testenv.Server().Config.Host)
	f.Expect(err).NotTo(HaveOccurred())
	shown := f.follows("status -w -o json --server https://" + proxy.address + " --tls-server-name " + server.Hostname())
	shown.shows(`"healthy":true`)
	f.namespace()
	proxy.stop(true)
	shown.shows(`"healthy":false,"problem":"whether the fleet is healthy is unknown: not checked: everything that has happened since: the hub's API server has not answered since [^"]*","staleSince":"20`)
	f.failedMachine("meanwhile", "x")
	proxy.stop(false)
	shown.shows(`(?m)^\{"apiVersion":"cli.hollowfleet.io/v1","kind":"Status","time":"[^"]*","healthy":false,"problem":"the fleet is not healthy: [^"]*","hub":\{"healthy":true.*"name":"meanwhile"`)
	shown.stopsBy130()
}

// The program itself is stopped by a signal, with the documented exit code.
func TestTheProgramFollowsAndIsInterrupted(t *testing.T) {
	f := newEnv(t)
	f.emptyHub()
	binary, err := testenv.Binary("kubectl-hollow")
	f.Expect(err).NotTo(HaveOccurred())
	screen := newTerminal(t)
	command := exec.CommandContext(t.Context(), binary, "status", "-w", "--kubeconfig", testenv.Server().Cluster.AdminKubeconfig())
	command.Stdin, command.Stdout, command.Stderr = screen.file, screen.file, screen.file
	command.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+t.TempDir(), "XDG_CACHE_HOME="+filepath.Join(t.TempDir(), "cache"))
	f.Expect(command.Start()).To(Succeed())
	f.Eventually(screen.shows).WithTimeout(patience).Should(And(ContainSubstring("Status at "), ContainSubstring("works: hub-1")))
	f.Expect(screen.raw()).NotTo(MatchRegexp("\x1b\\[[0-9]*m"), "NO_COLOR")
	f.Expect(command.Process.Signal(syscall.SIGINT)).To(Succeed())
	_ = command.Wait()
	f.Expect(command.ProcessState.ExitCode()).To(Equal(130))
	f.Eventually(screen.shows).WithTimeout(patience).Should(HaveSuffix("interrupted\r\n"))
}
