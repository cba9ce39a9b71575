package cmdutil_test

import (
	"bytes"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/hub/cli"
)

// FuzzCommandLine has the commands parse what a user may write after each of their flags. There is no hub to reach: a value
// that can be parsed ends with exit code 1, any other with 2.
// Edge case: Unforeseen command lines. Also: FuzzObject; hub/cli/cluster FuzzClusterName, FuzzAgentServer.
func FuzzCommandLine(f *testing.F) {
	f.Add("c1", "yaml", "stage=test", "10m", "server")
	f.Add("UPPER", "jsonpath={.metadata", "a==b==c", "5 minutes", "maybe")
	f.Add("", "go-template={{", "a in (b,,", "-1s", "")
	f.Add("c1/\x00\x1b[31m", "custom\n", "\xff", "9999999h", "none")
	f.Fuzz(func(t *testing.T, name, format, selector, duration, dryRun string) {
		for _, line := range [][]string{
			{"cluster", "list", "--selector=" + selector, "--output=" + format, "--", name},
			{"cluster", "join", "--accept=now", "--token-ttl=" + duration, "--labels=" + selector, "--agent-server=" + name, "--output-dir=x", "--", name},
			{"cluster", "deny", "--timeout=" + duration, "--output=" + format, "--dry-run=" + dryRun, "--", name},
			{"freeze", "--reason=" + selector, "--timeout=" + duration, "--dry-run=" + dryRun, "--", name},
			{"rollout", "undo", "--to-revision=" + duration, "--output=" + format, "--", "md/" + name},
			{"x" + name},
		} {
			var out bytes.Buffer
			line = append([]string{"--kubeconfig=/no/such/file"}, line...)
			code := cli.Execute(t.Context(), line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
			if code != 1 && code != 2 {
				t.Errorf("%q: exit code %d: %s", line, code, out.String())
			}
			if code == 1 && !bytes.Contains(out.Bytes(), []byte("error: ")) {
				t.Errorf("%q: says nothing: %q", line, out.String())
			}
		}
	})
}
