package podlife

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/environment"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/image"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/logfile"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/pathmap"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
)

// searchPath is where programs are looked for in an image, after its root
// directory, and the PATH of processes.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// launch is everything that is needed to start one run of a container.
type launch struct {
	runtime   *Runtime
	pod       *corev1.Pod
	container *corev1.Container
	attempt   int32
	// directory is the image's directory.
	directory   string
	paths       pathmap.Map
	environment *environment.Environment
	process     process.Spec
	logPath     string
}

// launch prepares a run. An error means that something the container refers to
// is missing.
func (p *Pod) launch(c *container) (*launch, error) {
	pod := p.Snapshot()
	p.mu.Lock()
	spec, attempt := c.spec.DeepCopy(), c.attempt()
	p.mu.Unlock()
	directory, err := p.runtime.Images.Find(spec.Image)
	if err != nil {
		return nil, err
	}
	services, err := environment.Services(pod, p.runtime.Services, p.runtime.APIHost, p.runtime.APIPort)
	if err != nil {
		return nil, err
	}
	scratch := p.runtime.Volumes.Scratch(pod.UID)
	variables, err := environment.Build(environment.Input{
		Pod:         pod,
		Container:   spec,
		Allocatable: p.runtime.Allocatable,
		Objects:     p.runtime.Objects,
		Services:    services,
		Runtime:     map[string]string{"PATH": searchPath, "HOSTNAME": pod.Name, "HOME": scratch, "TMPDIR": scratch},
	})
	if err != nil {
		return nil, err
	}
	l := &launch{
		runtime:     p.runtime,
		pod:         pod,
		container:   spec,
		attempt:     attempt,
		directory:   directory,
		paths:       pathmap.New(p.runtime.Volumes.Directories(pod, spec)),
		environment: variables,
		logPath:     LogPath(p.runtime.LogDir, pod, spec.Name, attempt),
	}
	l.process = process.Spec{
		Name:     pod.Namespace + "/" + pod.Name,
		Env:      append(variables.List(l.paths), p.runtime.Marker),
		Dir:      l.workingDirectory(),
		Identity: p.identity(pod, spec),
	}
	if problem := environment.Invalid(l.process.Env); problem != "" {
		return nil, errors.New(problem)
	}
	l.setCommand(&l.process, append(append([]string{}, spec.Command...), spec.Args...))
	return l, nil
}

// setCommand resolves the program and the arguments.
func (l *launch) setCommand(spec *process.Spec, command []string) {
	spec.Argv = make([]string, len(command))
	for i, word := range command {
		spec.Argv[i] = l.paths.Apply(l.environment.Expand(word))
	}
	wanted := l.environment.Expand(command[0])
	if spec.Argv[0] != wanted {
		spec.Path = spec.Argv[0] // it lies in a volume
		return
	}
	spec.Path = l.find(wanted)
}

// find returns the program's file. A name without a slash is looked for in the
// image's root directory and then in the usual places.
func (l *launch) find(program string) string {
	switch {
	case filepath.IsAbs(program):
		return image.Inside(l.directory, program)
	case strings.Contains(program, "/"):
		return filepath.Join(l.process.Dir, program)
	}
	atRoot := image.Inside(l.directory, program)
	for _, candidate := range append([]string{"/"}, filepath.SplitList(searchPath)...) {
		path := image.Inside(l.directory, filepath.Join(candidate, program))
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path
		}
	}
	return atRoot
}

func (l *launch) workingDirectory() string {
	wanted := l.container.WorkingDir
	if mapped := l.paths.Apply(wanted); mapped != wanted {
		return mapped
	}
	return image.Inside(l.directory, wanted)
}

// describe sets what is known about the run from its preparation.
func (l *launch) describe(status *corev1.ContainerStatus) {
	status.Image = l.container.Image
	status.ImageID = "podhost://" + l.directory
	status.ContainerID = fmt.Sprintf("podhost://%s_%s_%d", l.pod.UID, l.container.Name, l.attempt)
}

// running is a started run.
type running struct {
	process        process.Running
	log            *logfile.Writer
	stdout, stderr *logfile.Stream
}

func (l *launch) start() (*running, error) {
	if l.attempt > 1 {
		// Only the log of the run before is asked for.
		removeLog(LogPath(l.runtime.LogDir, l.pod, l.container.Name, l.attempt-2))
	}
	log, err := logfile.Create(l.logPath, l.runtime.LogLimit)
	if err != nil {
		return nil, err
	}
	r := &running{log: log, stdout: log.Stream("stdout"), stderr: log.Stream("stderr")}
	spec := l.process
	spec.Stdout, spec.Stderr = r.stdout, r.stderr
	if r.process, err = l.runtime.Packs.Start(spec); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// close completes the log of a process that has ended.
func (r *running) close() {
	// The log may have become unwritable. It is no reason to treat the
	// container differently.
	_ = r.stdout.Flush()
	_ = r.stderr.Flush()
	_ = r.log.Close()
}

// exec runs a command as the container would and returns its output. The error
// is nil if it exited with code 0 in time.
func (l *launch) exec(ctx context.Context, command []string, timeout time.Duration) (string, error) {
	spec := l.process
	l.setCommand(&spec, command)
	output := &boundedBuffer{}
	spec.Stdout, spec.Stderr = output, output
	running, err := l.runtime.Launcher.Start(spec)
	if err != nil {
		return "", err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-running.Done():
	case <-ctx.Done():
		running.Signal(syscall.SIGKILL)
		return "", ctx.Err()
	case <-timer.C:
		running.Signal(syscall.SIGKILL)
		<-running.Done()
		return "", fmt.Errorf("the command did not end within %s", timeout)
	}
	if code := running.Exit().Code; code != 0 {
		return "", fmt.Errorf("the command ended with code %d: %s", code, output.String())
	}
	return output.String(), nil
}
