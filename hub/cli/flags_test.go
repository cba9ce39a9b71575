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
			if strings.Contains(flag.Name, "file") && !strings.HasPrefix(flag.Name, "kube") { // What is read is --filename, and --disrupt-file beside it.
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
