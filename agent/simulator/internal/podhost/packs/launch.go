package packs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	program = "hollow-node"
	// inheritedDirectory is the first file that a process inherits besides its standard ones.
	inheritedDirectory = "/proc/self/fd/3"
	// startTimeout bounds how long a new pack takes until it listens, on a busy machine, and startPause is the time between two
	// attempts to reach it.
	startTimeout = time.Minute
	startPause   = 20 * time.Millisecond
	// niceness is how much nicer packs are than the podhost: when many nodes start at once, the API servers that they ask have to answer
	// all the same. A quarter of the processor time is theirs when others want all of it.
	niceness = 5
)

// giveUpPrivileges lets the programs that the calling thread starts gain none, by no file that they execute.
func giveUpPrivileges() {
	err := errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
	if err != nil {
		panic(fmt.Sprintf("giving up privileges for hollow nodes: %v", err)) // Linux has had both since 2015.
	}
}

// giveWay lets what the calling thread starts give way to others. It helps and is not needed.
func giveWay() {
	// The kernel's own call returns 20 less the niceness.
	if inverse, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-inverse+niceness)
	}
}

// running is one pack.
type running struct {
	image string
	// alone is that it is the pack of one node.
	alone          bool
	uid            types.UID
	directory, log string
	// output is the log. That of a pack of one is its node's, and nil here.
	output io.Closer
	// listens is closed when the pack can be reached, or could not be started, which err says then.
	listens chan struct{}
	err     error
	child   process.Instance
	// done is closed when the process has ended, how says exit.
	done chan struct{}
	exit Exit
	// nodes is how many it has, and ended that it takes no more. The Launcher's lock guards both.
	nodes int
	ended bool
	// members are the nodes that have started in it, and full that it has had as many as it takes.
	members map[*Node]bool
	full    bool
}

// newRunning returns a pack for a first node, which is to be run.
func newRunning(base, image string, alone bool) *running {
	uid := uuid.NewUUID()
	return &running{
		image: image, alone: alone, uid: uid, directory: filepath.Join(base, string(uid)), nodes: 1,
		members: map[*Node]bool{}, listens: make(chan struct{}), done: make(chan struct{}),
	}
}

// run runs a pack, for this node first, until its process has ended.
func (l *Launcher) run(p *running, first Spec) {
	p.err = l.launch(p, first)
	if p.err == nil {
		go p.awaitEnd()
		p.err = l.awaitSocket(p)
	} else {
		close(p.done)
	}
	close(p.listens)
	select {
	case <-p.done:
	case <-l.closed:
		if p.child != nil {
			_ = p.child.Signal(syscall.SIGKILL)
		}
		<-p.done
	}
	l.mu.Lock()
	p.ended = true
	l.packs = slices.DeleteFunc(l.packs, func(one *running) bool { return one == p })
	l.mu.Unlock()
	l.reportEnd(p)
	if p.output != nil {
		_ = p.output.Close() // What matters of it was read.
	}
	if err := l.options.Directory.Remove(p.uid); err != nil {
		klog.Background().Error(err, "Removing the directory of a pack that has ended failed", "directory", p.directory)
	}
}

// workingDirectory belongs to the pack's user. The pack's log is beside it, out of the user's reach.
func (p *running) workingDirectory() string { return filepath.Join(p.directory, "run") }

// launch starts the process of a pack. The log of a pack of one goes to its node's. The user of a pack may not get to its files by the
// directories that lead there, so the child finds them by what is open here.
func (l *Launcher) launch(p *running, first Spec) error {
	if err := l.makeDirectories(p); err != nil {
		return err
	}
	var opened [3]*os.File
	for i, path := range []string{filepath.Join(p.image, program), p.workingDirectory(), l.options.Directory.Path()} {
		var err error
		if opened[i], err = os.Open(path); err != nil {
			return err
		}
		defer opened[i].Close()
	}
	command := process.Command{
		Path: descriptorPath(opened[0]), Name: program, Args: []string{pack.Command}, Dir: descriptorPath(opened[1]), Files: opened[2:],
		Env: []string{"HOME=.", "TMPDIR=.", "GODEBUG=" + pack.TraceLabels},
	}
	if p.alone {
		command.Env = append(command.Env, "HOSTNAME="+filepath.Base(first.Name)) // It tells people which node a process is.
	}
	if id := uint32(l.options.User); id != 0 {
		command.User = &syscall.Credential{Uid: id, Gid: id}
	}
	var err error
	if command.Output, err = l.openLog(p, first); err != nil {
		return err
	}
	if p.child, err = l.spawner.Start(command); err != nil {
		return fmt.Errorf("starting %s: %w", opened[0].Name(), err)
	}
	return nil
}

func descriptorPath(file *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(file.Fd())) }

func (l *Launcher) makeDirectories(p *running) error {
	err := os.Mkdir(p.directory, 0o711)
	if err == nil {
		err = os.Mkdir(p.workingDirectory(), 0o700)
	}
	if err == nil && l.options.User != 0 {
		err = os.Chown(p.workingDirectory(), l.options.User, l.options.User)
	}
	if err != nil {
		return fmt.Errorf("making the directory of a pack: %w", err)
	}
	return nil
}

func (l *Launcher) openLog(p *running, first Spec) (io.Writer, error) {
	if p.alone {
		return first.Log, nil
	}
	p.log = filepath.Join(p.directory, "pack.log")
	log, err := process.OpenLog(p.log, l.options.LogLimit)
	p.output = log
	return log, err
}

// awaitSocket waits until the pack listens.
func (l *Launcher) awaitSocket(p *running) error {
	deadline := time.After(startTimeout)
	for {
		err := pack.Reach(p.workingDirectory())
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("its process ended with code %d before it took a node%s", p.exit.Code, p.whyNot())
		case <-deadline:
			_ = p.child.Signal(syscall.SIGKILL)
			return fmt.Errorf("a pack does not listen after %s: %w", startTimeout, err)
		case <-l.closed:
			return ErrClosed
		case <-time.After(startPause):
		}
	}
}

// whyNot is the reason why a program is not a pack, as far as it is known.
func (p *running) whyNot() string {
	const usage = 2
	if p.exit.Code != usage {
		return ""
	}
	return fmt.Sprintf(": a hollow-node from before packs cannot run here; give --image a directory with the one of this release in place of %s", p.image)
}

// awaitEnd waits for the end of a pack's process.
func (p *running) awaitEnd() {
	defer close(p.done)
	err := p.child.Wait()
	p.exit = Exit{At: time.Now()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		status, _ := exit.Sys().(syscall.WaitStatus)
		p.exit.Code = status.ExitStatus()
		if status.Signaled() {
			p.exit.Code, p.exit.Signal = 128+int(status.Signal()), status.Signal()
		}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		p.exit.Code = 1
	}
}
