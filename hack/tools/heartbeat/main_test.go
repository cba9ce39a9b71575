package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// shell runs a script under heartbeat and returns the exit code and what was printed.
func shell(t *testing.T, o options, script string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	o.name, o.stdout, o.stderr = "job", &out, &errs
	o.command = []string{"sh", "-c", script}
	code = run(o)
	return code, out.String(), errs.String()
}

func TestQuickCommandStaysQuiet(t *testing.T) {
	code, stdout, stderr := shell(t, options{quiet: time.Hour, every: time.Hour, note: "slow"}, "echo out; echo err >&2; printf tail")
	if code != 0 || stdout != "out\ntail" || stderr != "err\n" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestSlowCommandIsReported(t *testing.T) {
	script := `echo k8s.io/api/core/v1 >&2; echo 'go: downloading example.com/x v1.0.0' >&2; echo '# broken/package' >&2; sleep 0.5; exit 3`
	o := options{packages: "./nowhere/...", quiet: 20 * time.Millisecond, every: 50 * time.Millisecond, note: "this takes long"}
	code, _, stderr := shell(t, o, script)
	if code != 3 {
		t.Errorf("exit code %d, want that of the command, 3", code)
	}
	for _, want := range []string{"job: this takes long\n", "# broken/package\n", "1 modules downloaded, 1 packages compiled\n", "job: failed after "} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
	if strings.Contains(stderr, "k8s.io/api/core/v1") {
		t.Errorf("an import path was shown instead of counted:\n%s", stderr)
	}
	if n := strings.Count(stderr, "compiled\n"); n < 3 {
		t.Errorf("%d heartbeats in half a second at one per 50ms:\n%s", n, stderr)
	}
}

func TestOutputIsUntouchedWithoutPackages(t *testing.T) {
	_, _, stderr := shell(t, options{quiet: time.Hour, every: time.Hour}, "echo k8s.io/api/core/v1 >&2")
	if stderr != "k8s.io/api/core/v1\n" {
		t.Errorf("stderr %q, want the line as it was", stderr)
	}
}

func TestTerminalLineIsRedrawn(t *testing.T) {
	_, stdout, stderr := shell(t, options{terminal: true, quiet: 10 * time.Millisecond, every: time.Hour}, "sleep 0.3; echo out")
	if stdout != "out\n" || !strings.HasPrefix(stderr, "job: 0s\r\x1b[Kjob: done in ") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

func TestExitCodes(t *testing.T) {
	if code, _, _ := shell(t, options{quiet: time.Hour, every: time.Hour}, "kill -TERM $$"); code != 128+15 {
		t.Errorf("exit code %d for a command ended by SIGTERM, want 143", code)
	}
	var errs bytes.Buffer
	o := options{name: "job", quiet: time.Hour, every: time.Hour, stdout: &errs, stderr: &errs, command: []string{"/nonexistent/program"}}
	if code := run(o); code != exitCannotStart || !strings.Contains(errs.String(), "/nonexistent/program") {
		t.Errorf("exit code %d and %q for a program that does not exist", code, errs.String())
	}
}

func TestStatus(t *testing.T) {
	for _, test := range []struct {
		name                        string
		downloaded, compiled, total int
		want                        string
	}{
		{"nothing counted", 0, 0, 900, "job: 1m15s"},
		{"downloads", 12, 0, 0, "job: 1m15s, 12 modules downloaded"},
		{"total unknown", 0, 40, 0, "job: 1m15s, 40 packages compiled"},
		{"total known", 1, 40, 900, "job: 1m15s, 1 modules downloaded, 40 of at most 900 packages compiled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &progress{name: "job", downloaded: test.downloaded, compiled: test.compiled, total: test.total}
			if got := p.status(75*time.Second + 300*time.Millisecond); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCountAsksGo(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	p := newProgress("job", time.Now())
	p.count(t.Context(), []string{"errors"})
	if p.total < 3 {
		t.Errorf("total %d, want the packages below errors", p.total)
	}
}
