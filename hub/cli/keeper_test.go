//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

const nobodysKubeconfig = `{kind: Config, apiVersion: v1, current-context: hub, clusters: [{name: hub, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: hub, context: {cluster: hub, user: admin}}], users: [{name: admin, user: {token: x}}]}`

// keptFleet is the directory of a fleet that a process keeps which does nothing, and the kubeconfig of its hub.
func keptFleet(t *testing.T, kubeconfig string, change func(*localfleet.State)) (keeper *process.Process, dir, path string) {
	t.Helper()
	g := NewWithT(t)
	dir = filepath.Join(t.TempDir(), "fleet")
	path = localfleet.HubKubeconfig(dir)
	g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(path, []byte(kubeconfig), 0o600)).To(Succeed())
	keeper, err := process.Start(process.Spec{Name: localfleet.KeeperName, Path: "/bin/sh", Args: []string{"-c", "while :; do sleep 0.05; done"}, LogFile: filepath.Join(dir, "log")})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = keeper.Stop(time.Minute) })
	identity, err := keeper.Identity()
	g.Expect(err).NotTo(HaveOccurred())
	state := localfleet.State{Owner: identity, Keeper: &identity, KeeperArgs: []string{"local", "keep"}, CameUp: true, Clusters: []string{"hub"}}
	change(&state)
	content, err := json.Marshal(state)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "fleet.json"), content, 0o600)).To(Succeed())
	return keeper, dir, path
}

// statusOf runs "kubectl hollow status" with a kubeconfig.
func statusOf(t *testing.T, kubeconfig string, args ...string) run {
	t.Helper()
	var out, errOut bytes.Buffer
	code := cli.Execute(t.Context(), append([]string{"status", "--kubeconfig", kubeconfig}, args...), genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	return run{code: code, out: out.String(), errOut: errOut.String()}
}

// Claim: When the keeper of a local fleet has ended, every command says so, and how to start the fleet again. Broken: a refused connection without its cause.
func TestTheStatusOfALocalFleetWhoseKeeperHasEndedSaysWhatHelps(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*localfleet.State)
		says   string
	}{
		"it can be started again": {func(*localfleet.State) {}, "start the fleet again with its data with kubectl hollow local up --dir DIR, or end it with kubectl hollow local down --dir DIR"},
		"it never came up":        {func(s *localfleet.State) { s.CameUp = false }, "end the fleet with kubectl hollow local down --dir DIR, and start another"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			keeper, dir, path := keptFleet(t, nobodysKubeconfig, test.change)
			before := statusOf(t, path)
			g.Expect(before.code).To(Equal(1))
			g.Expect(before.errOut).To(And(ContainSubstring("connection refused"), Not(ContainSubstring("keeper"))), "its keeper runs")
			g.Expect(keeper.Signal(syscall.SIGKILL)).To(Succeed())
			<-keeper.Done()
			want := And(HavePrefix(fmt.Sprintf("error: the keeper of the local fleet in %s, process %d, has ended", dir, keeper.PID())),
				ContainSubstring(strings.ReplaceAll(test.says, "DIR", dir)), ContainSubstring("connection refused"))
			after := statusOf(t, path)
			g.Expect(after.code).To(Equal(1))
			g.Expect(after.errOut).To(want)
			document := statusOf(t, path, "-o", "json")
			g.Expect(document.code).To(Equal(1))
			g.Expect(document.out).To(ContainSubstring(strings.ReplaceAll(test.says, "DIR", dir)))
			other := filepath.Join(t.TempDir(), "config")
			g.Expect(os.WriteFile(other, []byte(nobodysKubeconfig), 0o600)).To(Succeed())
			g.Expect(statusOf(t, other).errOut).NotTo(ContainSubstring("keeper"), "the kubeconfig is of no local fleet")
		})
	}
}

// A keeper that is suspended starts nothing again and answers no agent, while the hub still works.
func TestTheStatusOfALocalFleetWhoseKeeperIsSuspendedIsAProblem(t *testing.T) {
	f := newEnv(t)
	content, err := os.ReadFile(testenv.Server().Cluster.AdminKubeconfig())
	f.Expect(err).NotTo(HaveOccurred())
	keeper, dir, path := keptFleet(t, string(content), func(*localfleet.State) {})
	f.Expect(statusOf(t, path).errOut).NotTo(ContainSubstring("keeper"))
	f.Expect(syscall.Kill(keeper.PID(), syscall.SIGSTOP)).To(Succeed())
	t.Cleanup(func() { _ = syscall.Kill(keeper.PID(), syscall.SIGCONT) })
	f.Eventually(func() string { return statusOf(t, path).errOut }).WithTimeout(patience).Should(And(
		ContainSubstring("the fleet is not healthy"), ContainSubstring("the keeper of the local fleet in "+dir), ContainSubstring(fmt.Sprintf("kill -CONT %d", keeper.PID()))))
}
