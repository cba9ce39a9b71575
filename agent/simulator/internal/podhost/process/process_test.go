package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const patience = 2 * time.Minute

// childVariable makes this test program launch a process and wait, so that a
// test can kill the launcher.
const childVariable = "PROCESS_TEST_CHILD"

func TestMain(m *testing.M) {
	if script := os.Getenv(childVariable); script != "" {
		os.Unsetenv(childVariable)
		// A change of user clears the death signal that was set before it.
		identity := Identity{SwitchUser: os.Geteuid() == 0, UID: 65532, GID: 65532}
		launcher, err := NewLauncher()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		p, err := launcher.Start(Spec{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: "/", Stdout: os.Stdout, Identity: identity})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		<-p.Done()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func shell(script string) Spec {
	return Spec{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}}
}

func newLauncher(t *testing.T) *Launcher {
	t.Helper()
	launcher, err := NewLauncher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(launcher.Close)
	return launcher
}

func start(t *testing.T, spec Spec) *Process {
	t.Helper()
	launcher := newLauncher(t)
	p, err := launcher.Start(spec)
	if err != nil {
		t.Fatalf("starting %v: %v", spec.Argv, err)
	}
	return p
}

func wait(t *testing.T, p *Process) Exit {
	t.Helper()
	select {
	case <-p.Done():
		return p.Exit()
	case <-time.After(patience):
		t.Fatal("the process did not end")
		return Exit{}
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}

func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestExitCodesAndSignals(t *testing.T) {
	for _, test := range []struct {
		script string
		want   Exit
	}{
		{"exit 0", Exit{Code: 0}},
		{"exit 7", Exit{Code: 7}},
		{"kill -TERM $$", Exit{Code: 143, Signal: syscall.SIGTERM}},
		{"kill -KILL $$", Exit{Code: 137, Signal: syscall.SIGKILL}},
	} {
		exit := wait(t, start(t, shell(test.script)))
		exit.At = time.Time{}
		if exit != test.want {
			t.Errorf("%q ended with %+v, want %+v", test.script, exit, test.want)
		}
	}
}

func TestOutputEnvironmentAndDirectory(t *testing.T) {
	directory, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr output
	spec := shell(`echo "$A in $(pwd) as $0"; echo problem >&2; head -c 100000 /dev/zero | tr '\0' x`)
	spec.Env = append(spec.Env, "A=b c")
	spec.Dir = directory
	spec.Stdout, spec.Stderr = &stdout, &stderr
	if exit := wait(t, start(t, spec)); exit.Code != 0 {
		t.Errorf("it ended with %+v", exit)
	}
	want := "b c in " + directory + " as sh\n" + strings.Repeat("x", 100000)
	if stdout.String() != want {
		t.Errorf("it printed %d bytes beginning with %.80q, want %d bytes", len(stdout.String()), stdout.String(), len(want))
	}
	if stderr.String() != "problem\n" {
		t.Errorf("it complained %q", stderr.String())
	}
}

func TestProgramsThatCannotStart(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	launcher := newLauncher(t)
	for _, test := range []struct {
		name string
		spec Spec
		want string
	}{
		{"no such program", Spec{Path: "/no/such/program", Argv: []string{"x"}, Dir: "/"}, "no such file"},
		{"no program", Spec{Path: text, Argv: []string{"x"}, Dir: "/"}, "exec format error"},
		{"no such directory", Spec{Path: "/bin/sh", Argv: []string{"x"}, Dir: "/no/such/directory"}, "no such file"},
	} {
		_, err := launcher.Start(test.spec)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want one with %q", test.name, err, test.want)
		}
	}
}

func TestSignalsReachTheGroup(t *testing.T) {
	var stdout output
	spec := shell(`trap 'echo got it; exit 3' TERM; (trap 'echo child too; exit' TERM; echo ready; while :; do sleep 0.05; done) & while :; do sleep 0.05; done`)
	spec.Stdout = &stdout
	p := start(t, spec)
	eventually(t, "the child is ready", func() bool { return strings.Contains(stdout.String(), "ready") })
	p.Signal(syscall.SIGTERM)
	if exit := wait(t, p); exit.Code != 3 {
		t.Errorf("it ended with %+v", exit)
	}
	if !strings.Contains(stdout.String(), "got it") {
		t.Errorf("it printed %q", stdout.String())
	}
}

// Claim: A container's group ends with it. Broken: the group is not killed.
func TestGroupEndsWithItsLeader(t *testing.T) {
	var stdout output
	spec := shell(`sleep 1000 & echo $!`)
	spec.Stdout = &stdout
	wait(t, start(t, spec))
	child, err := strconv.Atoi(strings.TrimSpace(stdout.String()))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the leader's child has ended", func() bool { return !alive(child) })
}

func TestProcessesEndWithTheLauncher(t *testing.T) {
	launcher := newLauncher(t)
	p, err := launcher.Start(shell("exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	launcher.Close()
	if exit := wait(t, p); exit.Signal != syscall.SIGKILL {
		t.Errorf("it ended with %+v", exit)
	}
	if _, err := launcher.Start(shell("exit 0")); !errors.Is(err, ErrClosed) {
		t.Errorf("starting another gave %v", err)
	}
}

// launchElsewhere makes another program launch a script that prints process
// IDs, and returns the program and the IDs.
func launchElsewhere(t *testing.T, script string, count int) (*exec.Cmd, []int) {
	t.Helper()
	program := exec.Command("/proc/self/exe")
	program.Env = append(os.Environ(), childVariable+"="+script)
	stdout, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	pids := make([]int, count)
	for i := range pids {
		if _, err := fmt.Fscanln(stdout, &pids[i]); err != nil {
			t.Fatalf("reading the process IDs: %v", err)
		}
		if !alive(pids[i]) {
			t.Fatalf("process %d does not run", pids[i])
		}
	}
	return program, pids
}

func TestProcessesEndWhenTheLaunchingProgramIsKilled(t *testing.T) {
	program, pids := launchElsewhere(t, "echo $$; exec sleep 1000", 1)
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process has ended with its launcher", func() bool { return !alive(pids[0]) })
}

// runaways leave the group, the session, the environment and their parent, and
// do not end when asked to.
const runaways = `stubborn='trap "" TERM HUP INT; echo $$; while :; do sleep 0.1; done'
sh -c "$stubborn" &
setsid sh -c "$stubborn" &
(setsid sh -c "$stubborn" &)
env -i /usr/bin/setsid /bin/sh -c "(PATH=/usr/bin:/bin /bin/sh -c '$stubborn' &)"
echo $$
wait`

// Claim: Descendants end with a killed podhost. Broken: no subreaper; one round of killing. Also: agent/simulator/internal/podhost TestDescendantsEndWithAKilledPodhost.
func TestDescendantsEndWhenTheLaunchingProgramIsKilled(t *testing.T) {
	program, pids := launchElsewhere(t, runaways, 5)
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d of %v has ended with the launcher", pid, pids), func() bool { return !alive(pid) })
	}
}

func TestDescendantsEndWithTheLauncher(t *testing.T) {
	var stdout output
	spec := shell(runaways)
	spec.Stdout = &stdout
	launcher := newLauncher(t)
	if _, err := launcher.Start(spec); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the processes are known", func() bool { return strings.Count(stdout.String(), "\n") == 5 })
	launcher.Close()
	for text := range strings.FieldsSeq(stdout.String()) {
		if pid, err := strconv.Atoi(text); err != nil || alive(pid) {
			t.Errorf("process %q runs after Close, or is none: %v", text, err)
		}
	}
}

// Orphans must not pile up as zombies while the launcher lives.
// Claim: Orphans are reaped. Broken: orphans stay zombies.
func TestOrphansAreReaped(t *testing.T) {
	var stdout output
	spec := shell(`(setsid sh -c 'echo $$; exec sleep 0.2' &); exec sleep 1000`)
	spec.Stdout = &stdout
	start(t, spec)
	eventually(t, "the orphan is known", func() bool { return strings.HasSuffix(stdout.String(), "\n") })
	orphan := strings.TrimSpace(stdout.String())
	eventually(t, "the orphan is reaped", func() bool {
		_, err := os.Stat(filepath.Join("/proc", orphan))
		return errors.Is(err, os.ErrNotExist)
	})
}

// Claim: Processes end with their keeper. Broken: no parent-death signal.
func TestProcessesEndWithTheKeeper(t *testing.T) {
	launcher := newLauncher(t)
	p, err := launcher.Start(shell("exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(launcher.keeper.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Code != 137 || exit.Signal != syscall.SIGKILL {
		t.Errorf("it ended with %+v", exit)
	}
	eventually(t, "the process has ended", func() bool { return !alive(p.PID()) })
	<-launcher.Done()
	if _, err := launcher.Start(shell("exit 0")); !errors.Is(err, ErrClosed) {
		t.Errorf("starting another gave %v", err)
	}
}

func TestManyProcessesAtOnce(t *testing.T) {
	launcher := newLauncher(t)
	var all sync.WaitGroup
	for code := range 40 {
		all.Go(func() {
			var stdout output
			spec := shell(fmt.Sprintf("echo %d; exit %d", code, code))
			spec.Stdout = &stdout
			p, err := launcher.Start(spec)
			if err != nil {
				t.Error(err)
				return
			}
			<-p.Done()
			if exit := p.Exit(); exit.Code != code || stdout.String() != fmt.Sprintln(code) {
				t.Errorf("process %d printed %q and ended with %+v", code, stdout.String(), exit)
			}
		})
	}
	all.Wait()
}

func TestKillMarked(t *testing.T) {
	var stdout output
	spec := shell(`setsid sleep 1000 >/dev/null 2>&1 & echo $!; wait`)
	spec.Env = append(spec.Env, "MARK=this one", "OTHER=x")
	spec.Stdout = &stdout
	p := start(t, spec)
	unmarked := shell("exec sleep 1000")
	unmarked.Env = append(unmarked.Env, "MARK=this one too", "XMARK=this one")
	other := start(t, unmarked)
	eventually(t, "the child is known", func() bool { return strings.HasSuffix(stdout.String(), "\n") })
	child, err := strconv.Atoi(strings.TrimSpace(stdout.String()))
	if err != nil {
		t.Fatal(err)
	}
	if err := KillMarked("MARK=this one"); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, p); exit.Signal != syscall.SIGKILL {
		t.Errorf("it ended with %+v", exit)
	}
	eventually(t, "the child that left the group has ended", func() bool { return !alive(child) })
	if !alive(other.PID()) {
		t.Error("a process without the mark was killed")
	}
}

// Processes of containers leave the processor to the API servers, and all that they start does too.
func TestProcessesGiveWay(t *testing.T) {
	const niceness = "cut -d' ' -f19 /proc/self/stat"
	own, err := exec.Command("/bin/sh", "-c", niceness).Output()
	if err != nil {
		t.Fatal(err)
	}
	was, err := strconv.Atoi(strings.TrimSpace(string(own)))
	if err != nil {
		t.Fatal(err)
	}
	out := &output{}
	spec := shell(niceness)
	spec.Stdout = out
	p := start(t, spec)
	<-p.Done()
	if got, want := strings.TrimSpace(out.String()), strconv.Itoa(min(was+5, 19)); got != want {
		t.Errorf("niceness %q, want %s", got, want)
	}
}
