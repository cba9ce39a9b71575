package joining_test

import (
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/joining"
)

// Edge case: Printed commands did not quote paths. Also: hub/cli/local TestUpRefusesADirectoryThatIsNotEmpty.
func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"/tmp/fleet-1": "/tmp/fleet-1",
		"/tmp/sp ace":  "'/tmp/sp ace'",
		"it's":         `'it'\''s'`,
		"":             "''",
		"~/fleet":      "'~/fleet'",
		"$HOME;rm -rf": "'$HOME;rm -rf'",
	} {
		NewWithT(t).Expect(joining.ShellQuote(word)).To(Equal(want))
	}
}

func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"a", "a b", "'", `"`, "$x", "`x`", "\\", "\n", "*", "!", "é", "-n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if strings.ContainsRune(word, 0) {
			t.Skip("no argument can hold it")
		}
		output, err := exec.Command("/bin/sh", "-c", "printf %s "+joining.ShellQuote(word)+"x").Output()
		if err != nil || string(output) != word+"x" {
			t.Errorf("a shell reads %q as %q (%v)", word, output, err)
		}
	})
}
