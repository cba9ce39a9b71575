package cli_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestHelpAndBadUsage(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"--help":                {0, "130  interrupted"},
		"cluster join --help":   {0, "Examples:"},
		"rollout undo --help":   {0, "kubectl hollow rollout undo machinefleet|machinedeployment|simulatedclusterset NAME"},
		"--version":             {0, "kubectl hollow version dev"},
		"options":               {0, "--kubeconfig"},
		"completion bash":       {0, "kubectl-hollow"},
		"":                      {0, "support-bundle"},
		"cluster":               {2, "needs a subcommand"},
		"fly":                   {2, `unknown command "fly"`},
		"cluster fly":           {2, `unknown command "fly"`},
		"cluster list --colour": {2, "unknown flag: --colour"},
		"rollout undo":          {2, "want a kind and a name"},
		"rollout abort --help":  {0, "kubectl hollow rollout abort machinefleet|simulatedclusterset NAME"},
		"rollout abort machinefleet x --rollback some": {2, "want one of none, failed, all"},
		"rollout retry machinedeployment/x":            {2, "unknown kind"},
		"rollout status machineset x":                  {2, "Name the MachineDeployment that owns it"},
		"rollout undo ms/x":                            {2, "a MachineSet does not roll out"},
		"upgrade machineset/x --kubelet v1.37.1":       {2, "a MachineSet does not roll out"},
		"local up --clusters x":                        {2, "--clusters"},
		"local status --dir /tmp/none-x":               {3, "there is no fleet"},
		"cluster list --kubeconfig /no/such/file":      {1, "reading the kubeconfig"},
	} {
		t.Run(line, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			g.Expect(cli.Execute(t.Context(), strings.Fields(line), genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})).To(Equal(want.code), out.String)
			g.Expect(out.String()).To(ContainSubstring(want.text))
		})
	}
}

func TestAnInterruptHasACodeOfItsOwn(t *testing.T) {
	f := newEnv(t)
	f.deployment(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	line := []string{"rollout", "status", "machinedeployment", "workers", "-n", f.name, "--kubeconfig", testenv.Server().Cluster.AdminKubeconfig()}
	f.Expect(cli.Execute(ctx, line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})).To(Equal(130), out.String)
}

// Edge case: A missing kubeconfig tried localhost. Also: hub/cli/cmdutil TestAnApiServerThatIsNoHub.
func TestAHubThatNoKubeconfigNames(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", path)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var out bytes.Buffer
	code := cli.Execute(t.Context(), []string{"cluster", "list"}, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
	g.Expect(code).To(Equal(1))
	g.Expect(out.String()).To(And(ContainSubstring("no kubeconfig names the hub"), ContainSubstring(path), Not(ContainSubstring("8080"))))
	out.Reset()
	code = cli.Execute(t.Context(), []string{"version"}, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &bytes.Buffer{}})
	g.Expect(code).To(Equal(1))
	g.Expect(out.String()).To(MatchRegexp(`^Client: \S+\n$`), "the version of the program is known")
}

// What does not exist is named in one form, with the command that shows what there is.
func TestWhatDoesNotExistIsNamedWithWhereToLook(t *testing.T) {
	f := newEnv(t)
	for see, commands := range map[string][]string{
		"kubectl hollow fleet list":    {"fleet status nope", "fleet tree fleet/nope", "rollout status fleet/nope", "rollout history fleet/nope", "upgrade fleet/nope --kubelet v1.37.1", "freeze machinefleet nope"},
		"kubectl hollow cluster list":  {"cluster accept nope", "cluster deny nope", "cluster remove nope --yes", "cluster acknowledge nope --yes", "freeze cluster nope", "fleet tree cluster/nope"},
		"kubectl hollow loadtest list": {"loadtest stop nope", "loadtest report nope"},
		"kubectl hollow disrupt list":  {"disrupt stop nope", "disrupt pause nope", "disrupt resume nope"},
		"kubectl get machinedeployments -n default": {
			"rollout status machinedeployment nope -n default", "upgrade machinedeployment/nope --kubelet v1.37.1 -n default", "freeze machinedeployment nope -n default", "fleet tree machinedeployment/nope -n default",
		},
	} {
		for _, command := range commands {
			r := f.hollow(command)
			if r.code != 3 || !strings.Contains(r.errOut, "nope does not exist") || !strings.Contains(r.errOut, see) {
				t.Errorf("%s: exit code %d: %s", command, r.code, r.errOut)
			}
		}
	}
}
