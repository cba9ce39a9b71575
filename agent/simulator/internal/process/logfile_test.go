package process_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

func readStat(pid int) (string, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return string(content), err
}

func openLog(t *testing.T, path string, limit int64) *process.LogFile {
	t.Helper()
	log, err := process.OpenLog(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

func TestLogStaysWithinItsLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	const limit = 1000
	log := openLog(t, path, limit)
	for i := range 500 {
		fmt.Fprintf(log, "line %03d\n", i)
	}
	for _, name := range []string{path, path + ".1"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() == 0 || info.Size() > limit {
			t.Errorf("%s has %d bytes, want 1 to %d", name, info.Size(), limit)
		}
	}
	if tail := log.Tail(2); tail != "line 498\nline 499" {
		t.Errorf("tail %q, want the last two lines", tail)
	}
}

func TestNewStartSetsTheOldLogAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	fmt.Fprint(openLog(t, path, 1000), "first start")
	fmt.Fprint(openLog(t, path, 1000), "second start")
	for name, want := range map[string]string{path: "second start", path + ".1": "first start"} {
		if content, err := os.ReadFile(name); err != nil || string(content) != want {
			t.Errorf("%s holds %q (%v), want %q", name, content, err, want)
		}
	}
}

func TestWritingToALogNeverFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log := openLog(t, filepath.Join(dir, "log"), 10)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if written, err := log.Write(bytes.Repeat([]byte("x"), 8)); err != nil || written != 8 {
			t.Fatalf("write gave %d and %v: the component would be ended by it", written, err)
		}
	}
}

func TestTailOfALongLine(t *testing.T) {
	log := openLog(t, filepath.Join(t.TempDir(), "log"), 1<<20)
	fmt.Fprintln(log, strings.Repeat("y", 20<<10))
	if tail := log.Tail(3); len(tail) == 0 || len(tail) > 8<<10 {
		t.Errorf("the tail has %d bytes, want 1 to %d", len(tail), 8<<10)
	}
}
