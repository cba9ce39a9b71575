package kube_test

import (
	"bytes"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/exit"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/kube"
)

func TestObjectsAreWrittenAsForKubectl(t *testing.T) {
	command := &cobra.Command{Use: "freeze (cluster|machinedeployment) NAME"}
	for name, test := range map[string]struct {
		args []string
		kind kube.Kind
		name string
	}{
		"two words":       {[]string{"cluster", "c1"}, kube.ClusterKind, "c1"},
		"slash":           {[]string{"machinedeployment/workers"}, kube.DeploymentKind, "workers"},
		"plural":          {[]string{"clusters", "c1"}, kube.ClusterKind, "c1"},
		"short":           {[]string{"mdep/workers"}, kube.DeploymentKind, "workers"},
		"with group":      {[]string{"cluster.hollowfleet.io/c1"}, kube.ClusterKind, "c1"},
		"upper case":      {[]string{"MachineDeployment", "workers"}, kube.DeploymentKind, "workers"},
		"nothing":         {nil, "", ""},
		"no name":         {[]string{"cluster"}, "", ""},
		"empty name":      {[]string{"cluster/"}, "", ""},
		"another kind":    {[]string{"node", "n1"}, "", ""},
		"three words":     {[]string{"cluster", "c1", "c2"}, "", ""},
		"empty name, two": {[]string{"cluster", ""}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kind, object, err := kube.Object(command, test.args, kube.ClusterKind, kube.DeploymentKind)
			g.Expect(kind).To(Equal(test.kind))
			g.Expect(object).To(Equal(test.name))
			if test.kind == "" {
				g.Expect(exit.Code(err)).To(Equal(exit.BadUsage))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
		})
	}
	_, _, err := kube.Object(command, []string{"cluster", "c1"}, kube.DeploymentKind)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("want machinedeployment")))
}

type colour string

func TestChoice(t *testing.T) {
	g := NewWithT(t)
	chosen := colour("")
	command := &cobra.Command{Run: func(*cobra.Command, []string) {}, SilenceErrors: true, SilenceUsage: true}
	kube.ChoiceP(command, &chosen, "colour", "c", "which", "red", "green")
	command.SetArgs([]string{"-c", "green"})
	g.Expect(command.Execute()).To(Succeed())
	g.Expect(chosen).To(Equal(colour("green")))
	command.SetArgs([]string{"--colour=blue"})
	g.Expect(command.Execute()).To(MatchError(ContainSubstring("want one of red, green")))
	g.Expect(chosen).To(Equal(colour("green")))
	complete, found := command.GetFlagCompletionFunc("colour")
	g.Expect(found).To(BeTrue())
	offered, _ := complete(command, nil, "")
	g.Expect(offered).To(Equal([]cobra.Completion{"red", "green"}))
}

func TestOutput(t *testing.T) {
	one := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
	list := &v1alpha1.ClusterList{Items: []v1alpha1.Cluster{*one, {ObjectMeta: metav1.ObjectMeta{Name: "c2"}}}}
	for name, test := range map[string]struct {
		args []string
		own  bool
		list bool
		want string
	}{
		"default":        {nil, true, false, ""},
		"wide":           {[]string{"-o", "wide"}, true, false, ""},
		"yaml":           {[]string{"-o", "yaml"}, false, false, "kind: Cluster\n"},
		"json, list":     {[]string{"-o", "json"}, false, true, `"kind": "ClusterList"`},
		"items have one": {[]string{"-o", "json"}, false, true, `"kind": "Cluster",`},
		"name":           {[]string{"-o", "name"}, false, false, "cluster.hollowfleet.io/c1\n"},
		"name, list":     {[]string{"-o", "name"}, false, true, "cluster.hollowfleet.io/c1\ncluster.hollowfleet.io/c2\n"},
		"jsonpath":       {[]string{"-o", "jsonpath={.metadata.name}"}, false, false, "c1"},
		"template alone": {[]string{"--template", "{{.metadata.name}}"}, false, false, "c1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			command := &cobra.Command{Run: func(*cobra.Command, []string) {}}
			output := kube.NewOutput(command)
			command.SetArgs(test.args)
			g.Expect(command.Execute()).To(Succeed())
			_, own := output.Own()
			g.Expect(own).To(Equal(test.own))
			g.Expect(output.Check()).To(Succeed())
			if own {
				return
			}
			var out bytes.Buffer
			if test.list {
				g.Expect(output.Print(&out, list.DeepCopy())).To(Succeed())
			} else {
				g.Expect(output.Print(&out, one.DeepCopy())).To(Succeed())
			}
			g.Expect(out.String()).To(ContainSubstring(test.want))
		})
	}
}

func TestAFormatThatIsUnknownIsBadUsage(t *testing.T) {
	g := NewWithT(t)
	command := &cobra.Command{Run: func(*cobra.Command, []string) {}}
	output := kube.NewOutput(command, "own")
	for _, format := range []string{"xml", "wider"} {
		command.SetArgs([]string{"-o", format})
		g.Expect(command.Execute()).To(Succeed())
		g.Expect(exit.Code(output.Check())).To(Equal(exit.BadUsage), format)
		g.Expect(output.Check()).To(MatchError(And(ContainSubstring(format), MatchRegexp("want one of .*json, .*own, .*wide, yaml$"))))
	}
}

func TestFacts(t *testing.T) {
	for format, want := range map[string]string{
		"":     "",
		"wide": "  Name:       c1\n  Namespace:  shop\n",
		"name": "cluster.hollowfleet.io/c1\n",
	} {
		g := NewWithT(t)
		command := &cobra.Command{Run: func(*cobra.Command, []string) {}}
		output := kube.NewOutput(command)
		command.SetArgs([]string{"-o", format})
		g.Expect(command.Execute()).To(Succeed())
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
		g.Expect(output.Result(kube.NewHub(streams), cluster,
			kube.Fact{Name: "Name", Value: "c1"}, kube.Fact{Name: "Nothing known of this"}, kube.Fact{Name: "Namespace", Value: "shop"})).To(Succeed())
		g.Expect(out.String()).To(Equal(want), format)
	}
}

func TestTable(t *testing.T) {
	g := NewWithT(t)
	table := func() *metav1.Table {
		return &metav1.Table{ColumnDefinitions: kube.Columns("Name", "+Why"), Rows: []metav1.TableRow{{Cells: []any{"c1", "because"}}}}
	}
	for args, want := range map[string]string{
		"":                     "NAME\nc1\n",
		"-o=wide":              "NAME   WHY\nc1     because\n",
		"-o=wide,--no-headers": "c1    because\n",
	} {
		command := &cobra.Command{Run: func(*cobra.Command, []string) {}}
		output := kube.NewTableOutput(command)
		command.SetArgs(strings.FieldsFunc(args, func(r rune) bool { return r == ',' }))
		g.Expect(command.Execute()).To(Succeed())
		var out bytes.Buffer
		g.Expect(output.Table(&out, table())).To(Succeed())
		g.Expect(out.String()).To(Equal(want), args)
	}
}
