package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stopTimeout is how long what a release has started may take to end after SIGTERM, before it is killed.
const stopTimeout = 10 * time.Second

// newCommand returns a command that ends when ctx does, with all that it starts: a shell around the compiler, and the compiler's children.
func newCommand(ctx context.Context, out io.Writer, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	command.Stdout, command.Stderr = out, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = stopTimeout
	return command
}

// compileProgram calls go build. Without paths of this machine, and with nothing of its settings but Go itself, the same source gives the
// same bytes. The flags are those of make build, whose build cache it shares.
func (o options) compileProgram(ctx context.Context, c compilation, out io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(c.to), 0o755); err != nil {
		return err
	}
	args := append([]string{"build", "-v", "-buildvcs=auto", "-o", c.to}, c.flags...)
	args = append(args, c.packages...)
	command := newCommand(ctx, out, "go", args...)
	if progress := filepath.Join(o.root, "hack", "progress.sh"); isFile(progress) {
		command = newCommand(ctx, out, progress, append([]string{c.name, "15", "go"}, args...)...)
	}
	command.Dir = c.directory
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-trimpath", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0",
		"GOOS="+c.platform.os, "GOARCH="+c.platform.arch)
	if err := command.Run(); err != nil {
		return fmt.Errorf("building the %s: %w", c.name, err)
	}
	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// runProgram runs a program that was compiled for this machine.
func runProgram(ctx context.Context, out io.Writer, path string, args ...string) error {
	if err := newCommand(ctx, out, path, args...).Run(); err != nil {
		return fmt.Errorf("running %s: %w", filepath.Base(path), err)
	}
	return nil
}
