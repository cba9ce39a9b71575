package process

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// status runs a process that prints its own status.
func status(t *testing.T, identity Identity) string {
	t.Helper()
	var stdout output
	spec := shell("exec cat /proc/self/status")
	spec.Identity = identity
	spec.Stdout, spec.Stderr = &stdout, &stdout
	if exit := wait(t, start(t, spec)); exit.Code != 0 {
		t.Fatalf("it ended with %+v: %s", exit, stdout.String())
	}
	return stdout.String()
}

func line(text, name string) string {
	found := regexp.MustCompile(`(?m)^` + name + `:[ \t]*(.*)$`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return strings.Join(strings.Fields(found[1]), " ")
}

func TestPrivilegesCannotBeGained(t *testing.T) {
	if got := line(status(t, Identity{}), "NoNewPrivs"); got != "0" {
		t.Errorf("without the wish NoNewPrivs is %q", got)
	}
	if got := line(status(t, Identity{NoNewPrivileges: true}), "NoNewPrivs"); got != "1" {
		t.Errorf("NoNewPrivs is %q", got)
	}
	dropped := status(t, Identity{DropCapabilities: true})
	if os.Geteuid() != 0 {
		if got := line(dropped, "NoNewPrivs"); got != "1" {
			t.Errorf("a process that cannot drop its bounding set has NoNewPrivs %q", got)
		}
		return
	}
	for _, set := range []string{"CapEff", "CapPrm", "CapBnd", "CapAmb"} {
		if got := line(dropped, set); strings.Trim(got, "0") != "" {
			t.Errorf("%s is %q", set, got)
		}
	}
}

func TestUserIsSwitched(t *testing.T) {
	requireRoot(t)
	text := status(t, Identity{SwitchUser: true, UID: 65532, GID: 65531, NoNewPrivileges: true, DropCapabilities: true})
	for name, want := range map[string]string{
		"Uid": "65532 65532 65532 65532", "Gid": "65531 65531 65531 65531", "Groups": "",
		"CapEff": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1",
	} {
		if got := line(text, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A clone of a repository in root's home directory is out of reach for the
// user that a container names.
func TestProgramOutOfReachOfItsUser(t *testing.T) {
	requireRoot(t)
	directory := t.TempDir()
	if err := os.Chmod(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	cat, err := os.ReadFile("/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	binary, script := filepath.Join(directory, "binary"), filepath.Join(directory, "script")
	if err := os.WriteFile(binary, cat, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\nid -u; pwd; echo $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		binary: "65532 65532 65532 65532",
		script: "65532\n" + directory + "\n/proc/self/status\n",
	} {
		var stdout, stderr output
		spec := Spec{
			Path: program, Argv: []string{"program", "/proc/self/status"}, Dir: directory, Env: []string{"PATH=/usr/bin:/bin", "PWD=" + directory},
			Identity: Identity{SwitchUser: true, UID: 65532, GID: 65532, NoNewPrivileges: true},
			Stdout:   &stdout, Stderr: &stderr,
		}
		if exit := wait(t, start(t, spec)); exit.Code != 0 {
			t.Errorf("%s ended with %+v: %s", program, exit, stderr.String())
		}
		got := stdout.String()
		if program == binary {
			got = line(got, "Uid")
		}
		if got != want {
			t.Errorf("%s printed %q, want %q", program, got, want)
		}
	}
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can run processes as other users")
	}
}
