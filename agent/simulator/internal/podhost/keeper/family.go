package keeper

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Numbers of system interfaces that package syscall does not name.
const (
	prSetChildSubreaper = 36
	waitAll             = 0          // P_ALL
	waitExited          = 0x00000004 // WEXITED
	waitKeep            = 0x01000000 // WNOWAIT
	pidInSiginfo        = 4          // index of si_pid among the 32-bit words of siginfo_t on 64-bit machines
)

const (
	// killPause is the time between two rounds of killing. Each round orphans
	// the children of those it killed.
	killPause = 2 * time.Millisecond
	// killPatience bounds the killing. Only a process that the kernel cannot
	// end, or one that has become another user's, takes so long.
	killPatience = 30 * time.Second
)

// family is what descends from this process.
type family struct {
	mu      sync.Mutex
	forked  sync.Cond
	forks   int
	started map[int]*member // by process ID, until reaped
}

// member is a process that was asked for.
type member struct {
	pid    int
	status chan syscall.WaitStatus
}

func newFamily() (*family, error) {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("becoming the reaper of orphans: %w", errno)
	}
	f := &family{started: make(map[int]*member)}
	f.forked.L = &f.mu
	go f.reap()
	return f, nil
}

// start starts a process as the leader of a group of its own. The kernel kills
// it when the calling thread ends.
func (f *family) start(command Command, files []*os.File) (*member, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("opening an empty input: %w", err)
	}
	defer null.Close()
	descriptors := []uintptr{null.Fd()}
	for _, file := range files {
		descriptors = append(descriptors, file.Fd())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	pid, err := syscall.ForkExec(command.Path, command.Argv, &syscall.ProcAttr{
		Dir: command.Dir, Env: command.Env, Files: descriptors,
		// The shim sets the signal again, because it may be cleared by a
		// change of user. Here it covers the time until then.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return nil, err
	}
	m := &member{pid: pid, status: make(chan syscall.WaitStatus, 1)}
	f.started[pid] = m
	f.forks++
	f.forked.Signal()
	return m, nil
}

// signal signals the member's group, unless the member has ended.
func (f *family) signal(m *member, signal syscall.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started[m.pid] == m {
		// The only possible failure is that the group has gone by itself.
		_ = syscall.Kill(-m.pid, signal)
	}
}

// reap reaps members and orphans forever.
func (f *family) reap() {
	for {
		f.mu.Lock()
		forks := f.forks
		f.mu.Unlock()
		pid, err := waitForEnd()
		if err == nil {
			f.bury(pid)
			continue
		}
		// There is no child, and an orphan comes only from one.
		f.mu.Lock()
		for f.forks == forks {
			f.forked.Wait()
		}
		f.mu.Unlock()
	}
}

// bury reaps a child that has ended. With a member goes the rest of its group:
// as long as the dead leader is unreaped no other process can get the group's
// ID.
func (f *family) bury(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.started[pid]
	if m != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	var status syscall.WaitStatus
	// A process whose program could not be executed is reaped by the fork.
	if reaped, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); err == nil && reaped == pid && m != nil {
		delete(f.started, pid)
		m.status <- status
	}
}

// kill kills everything that descends from this process.
func (f *family) kill() error {
	var err error
	for deadline := time.Now().Add(killPatience); time.Now().Before(deadline); <-time.After(killPause) {
		var left int
		if left, err = f.killChildren(); err == nil && left == 0 {
			return nil
		}
	}
	return errors.Join(errors.New("some processes could not be killed"), err)
}

// killChildren kills the children and returns how many there are. As long as
// it holds the lock none is reaped, so none of their IDs can become another's.
func (f *family) killChildren() (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}
	children := 0
	var unread error
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		parent, err := parentOf(pid)
		if err != nil {
			unread = err
		}
		if parent != os.Getpid() {
			continue
		}
		children++
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return children, unread
}

// parentOf returns 0 for a process that has gone.
func parentOf(pid int) (int, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("finding the parent of process %d: %w", pid, err)
	}
	// The name in front may contain anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return 0, fmt.Errorf("finding the parent of process %d: its status reads %q", pid, stat)
	}
	return strconv.Atoi(fields[1])
}

// waitForEnd blocks until some child has ended, and leaves it unreaped. The
// error says that there are no children.
func waitForEnd() (int, error) {
	for {
		var info [32]int32 // siginfo_t
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, waitAll, 0,
			uintptr(unsafe.Pointer(&info)), waitExited|waitKeep, 0, 0)
		switch errno {
		case 0:
			return int(info[pidInSiginfo]), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
