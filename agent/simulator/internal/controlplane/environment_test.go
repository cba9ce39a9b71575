package controlplane

import (
	"os/exec"
	"strings"
	"testing"
)

func TestTheGarbageCollectorOfComponentsCanBeSet(t *testing.T) {
	for set, want := range map[string]string{"": garbagePercentage, "100": "100"} {
		t.Setenv("GOGC", set)
		command := exec.CommandContext(t.Context(), "sh", "-c", "echo $GOGC")
		command.Env = childEnvironment()
		out, err := command.Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("GOGC=%q in the environment: components have %q (%v), want %q", set, got, err, want)
		}
	}
}
