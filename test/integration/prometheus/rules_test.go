package prometheus

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// hastened are replacements in the rules and the configuration, so that a test takes minutes in place of hours: how long a condition holds,
// the windows of increases, and two thresholds that are times. Everything else stays what it is.
var hastened = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`(?m)^(\s+for): .*$`), "$1: 1s"},
	{regexp.MustCompile(`\[(15m|1h)\]`), "[30s]"},
	{regexp.MustCompile(`> 900 \+ max by \(fleet\) \(hollowfleet_hub_fleet_progress_deadline_seconds\)`), "> 5 + 0 * max by (fleet) (hollowfleet_hub_fleet_progress_deadline_seconds)"},
	{regexp.MustCompile(`(workqueue_longest_running_processor_seconds\{.*\}\)) > 300`), "$1 > 1"},
	{regexp.MustCompile(`_interval: 10s`), "_interval: 1s"},
}

// hasten copies the files that a fleet has written for Prometheus, with everything in them that takes time made short, and returns the path
// of the configuration. The targets stay the fleet's own.
func hasten(g *WithT, from, to string) string {
	g.Expect(os.Mkdir(to, 0o755)).To(Succeed())
	used := map[string]bool{}
	for _, name := range []string{"prometheus.yaml", "hub-rules.yaml", "agent-rules.yaml"} {
		content, err := os.ReadFile(filepath.Join(from, name))
		g.Expect(err).NotTo(HaveOccurred())
		text := strings.Replace(string(content), "[targets.json]", "["+filepath.Join(from, "targets.json")+"]", 1)
		for _, replacement := range hastened {
			if replacement.pattern.MatchString(text) {
				used[replacement.text] = true
			}
			text = replacement.pattern.ReplaceAllString(text, replacement.text)
		}
		g.Expect(os.WriteFile(filepath.Join(to, name), []byte(text), 0o600)).To(Succeed())
	}
	g.Expect(used).To(HaveLen(len(hastened)), "each replacement is for something")
	return filepath.Join(to, "prometheus.yaml")
}

// promtool runs promtool, and returns its output.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), programOf(t, "promtool"), args...).CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

// Claim: promtool itself accepts the charts' rules, and their unit tests pass. Broken: an alert without a name; a sample that is expected and not there.
func TestPromtool(t *testing.T) {
	const root = "../../.."
	for _, chart := range []string{"hub", "agent"} {
		promtool(t, "check", "rules", filepath.Join(root, "charts", chart, "files", "rules.yaml"))
		t.Log(promtool(t, "test", "rules", filepath.Join(root, "hack", "release", "charts", "testdata", "rules", chart+".yaml")))
	}
}
