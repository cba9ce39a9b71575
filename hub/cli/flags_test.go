package cli

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// One name for one thing: lists take -l and -w, waiting is --wait, and what is written to is --output-file or --output-dir.
func TestFlagsHaveTheSameNamesEverywhere(t *testing.T) {
	g := NewWithT(t)
	lists, flags := 0, 0
	var check func(*cobra.Command)
	check = func(command *cobra.Command) {
		if command.Name() == "list" {
			lists++
			for name, short := range map[string]string{"selector": "l", "watch": "w", "output": "o"} {
				flag := command.Flags().Lookup(name)
				g.Expect(flag).NotTo(BeNil(), command.CommandPath()+" --"+name)
				g.Expect(flag.Shorthand).To(Equal(short), command.CommandPath())
			}
		}
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			flags++
			if flag.Hidden {
				return
			}
			g.Expect(flag.Name).NotTo(HavePrefix("no-w"), command.CommandPath())
			// What is read is --filename, and --disrupt-file beside it. Those of a certificate have the names that Kubernetes gives them.
			if strings.Contains(flag.Name, "file") && !strings.HasPrefix(flag.Name, "kube") && !strings.HasPrefix(flag.Name, "tls-") {
				g.Expect(flag.Name).To(Or(Equal("output-file"), Equal("filename"), Equal("disrupt-file")), command.CommandPath())
			}
		})
		for _, child := range command.Commands() {
			check(child)
		}
	}
	check(newCommand(cmdutil.NewHub(genericiooptions.NewTestIOStreamsDiscard())))
	g.Expect(lists).To(Equal(4))
	g.Expect(flags).To(BeNumerically(">", 100))
}

// Claim: Every command that can wait has the same two flags. Broken: a command with a --timeout and no --wait; another text.
// It waits by default where the command itself brings the result about, and not where that is up to others.
func TestCommandsWaitByOneRule(t *testing.T) {
	g := NewWithT(t)
	waits := map[string]bool{}
	var check func(*cobra.Command)
	check = func(command *cobra.Command) {
		path := strings.TrimPrefix(command.CommandPath(), "kubectl hollow ")
		wait, timeout := command.Flags().Lookup("wait"), command.Flags().Lookup("timeout")
		switch {
		case wait != nil:
			waits[path] = wait.DefValue == "true"
			g.Expect(wait.Usage).To(HavePrefix("wait until "), path)
			g.Expect(strings.HasSuffix(wait.Usage, "; --wait=false returns immediately")).To(Equal(waits[path]), path)
			g.Expect(timeout).NotTo(BeNil(), path)
			g.Expect(timeout.Usage).To(HavePrefix("longest time to wait"), path)
		case timeout != nil: // They have nothing else to do than to wait.
			g.Expect(path).To(BeElementOf("status", "rollout status", "local up", "local down", "rehearse", "machine logs"))
		}
		for _, child := range command.Commands() {
			check(child)
		}
	}
	check(newCommand(cmdutil.NewHub(genericiooptions.NewTestIOStreamsDiscard())))
	g.Expect(waits).To(Equal(map[string]bool{
		"cluster acknowledge": true, "cluster deny": true, "cluster remove": true, "cluster remove-finalizers": true,
		"freeze": true, "unfreeze": true, "loadtest run": true, "disrupt stop": true,
		"cluster join": false, "cluster accept": false, "upgrade": false, "disrupt create": false, "machine delete": false,
	}))
}

// A flag with an earlier name works, and says what to write in its place.
func TestFlagsOfEarlierNamesWork(t *testing.T) {
	g := NewWithT(t)
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	g.Expect(Execute(t.Context(), strings.Fields("loadtest report x -o html --file y --kubeconfig /nowhere"), streams)).NotTo(Equal(cmdutil.BadUsage), errOut.String())
	g.Expect(errOut.String()).To(ContainSubstring("use --output-file"))
	g.Expect(Execute(t.Context(), strings.Fields("loadtest run pod-startup --no-wait --kubeconfig /nowhere"), streams)).NotTo(Equal(cmdutil.BadUsage), errOut.String())
	g.Expect(errOut.String()).To(ContainSubstring("use --wait=false"))
	g.Expect(Execute(t.Context(), strings.Fields("loadtest report --help"), streams)).To(Equal(cmdutil.OK))
}
