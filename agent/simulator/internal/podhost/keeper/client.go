package keeper

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// self is this program's file, also after it was replaced or removed on disk.
const self = "/proc/self/exe"

// ErrClosed is wrapped by Launch when the keeper has ended or is about to.
var ErrClosed = errors.New("the keeper of the processes has ended")

// errNotTaken is returned when the keeper hangs up before it has said whether
// the process was started.
var errNotTaken = fmt.Errorf("%w, or has too many open files to start another process", ErrClosed)

// Keeper is a running keeper.
type Keeper struct {
	pid     int
	control *net.UnixConn
	ended   chan struct{}
}

// Start starts a keeper.
func Start() (*Keeper, error) {
	near, far, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer far.Close()
	control, err := unixConn(near)
	if err != nil {
		return nil, err
	}
	command := &exec.Cmd{
		Path: self, Args: Args(), Dir: "/", Env: []string{}, Stderr: os.Stderr, ExtraFiles: []*os.File{far},
		// What is sent to the podhost's group must not reach its keeper.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the keeper of processes: %w", err), control.Close())
	}
	k := &Keeper{pid: command.Process.Pid, control: control, ended: make(chan struct{})}
	go func() {
		// Its processes have ended with it, whatever it says.
		_ = command.Wait()
		close(k.ended)
	}()
	return k, nil
}

// PID is the keeper's process ID: the parent of all its processes.
func (k *Keeper) PID() int { return k.pid }

// Done is closed when the keeper has ended, and its processes with it.
func (k *Keeper) Done() <-chan struct{} { return k.ended }

// Close orders the keeper to kill its processes and to end, and waits for it.
func (k *Keeper) Close() {
	// It fails only if it was closed before.
	_ = k.control.Close()
	<-k.ended
}

// Process is a process that a keeper has started.
type Process struct {
	pid        int
	connection *net.UnixConn
	decoder    *gob.Decoder

	mu      sync.Mutex
	encoder *gob.Encoder
}

// Launch starts a process with the given standard output, standard error and
// descriptor 3, which stay the caller's to close.
func (k *Keeper) Launch(command Command, stdout, stderr, report *os.File) (*Process, error) {
	near, far, err := socketPair()
	if err != nil {
		return nil, err
	}
	connection, err := unixConn(near)
	if err != nil {
		return nil, errors.Join(err, far.Close())
	}
	rights := syscall.UnixRights(int(far.Fd()), int(stdout.Fd()), int(stderr.Fd()), int(report.Fd()))
	_, _, err = k.control.WriteMsgUnix([]byte{0}, rights, nil)
	far.Close()
	if err != nil {
		connection.Close()
		return nil, ErrClosed
	}
	p := &Process{connection: connection, decoder: gob.NewDecoder(connection), encoder: gob.NewEncoder(connection)}
	var started Event
	if p.encoder.Encode(command) != nil || p.decoder.Decode(&started) != nil {
		connection.Close()
		return nil, errNotTaken
	}
	if started.PID == 0 {
		connection.Close()
		return nil, errors.New(started.Failure)
	}
	p.pid = started.PID
	return p, nil
}

// PID is the process ID, which is also the ID of its process group.
func (p *Process) PID() int { return p.pid }

// Signal sends a signal to the process group. It does nothing once the process
// has ended.
func (p *Process) Signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.encoder.Encode(int(signal))
}

// Wait returns when the process has ended. It is called once. A process whose
// keeper was killed was killed by the kernel.
func (p *Process) Wait() syscall.WaitStatus {
	defer p.connection.Close()
	var ended Event
	if err := p.decoder.Decode(&ended); err != nil {
		return syscall.WaitStatus(syscall.SIGKILL)
	}
	return syscall.WaitStatus(ended.Status)
}

// socketPair returns the two ends of a connection.
func socketPair() (near, far *os.File, err error) {
	descriptors, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a connection with the keeper of processes: %w", err)
	}
	return os.NewFile(uintptr(descriptors[0]), "near"), os.NewFile(uintptr(descriptors[1]), "far"), nil
}
