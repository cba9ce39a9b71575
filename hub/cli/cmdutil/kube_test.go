package cmdutil_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

func TestObjectsAreWrittenAsForKubectl(t *testing.T) {
	command := &cobra.Command{Use: "freeze (cluster|machinedeployment) NAME"}
	for name, test := range map[string]struct {
		args []string
		kind cmdutil.Kind
		name string
	}{
		"two words":       {[]string{"cluster", "c1"}, cmdutil.ClusterKind, "c1"},
		"slash":           {[]string{"machinedeployment/workers"}, cmdutil.DeploymentKind, "workers"},
		"plural":          {[]string{"clusters", "c1"}, cmdutil.ClusterKind, "c1"},
		"short":           {[]string{"md/workers"}, cmdutil.DeploymentKind, "workers"},
		"with group":      {[]string{"cluster.hollowfleet.io/c1"}, cmdutil.ClusterKind, "c1"},
		"upper case":      {[]string{"MachineDeployment", "workers"}, cmdutil.DeploymentKind, "workers"},
		"nothing":         {nil, "", ""},
		"no name":         {[]string{"cluster"}, "", ""},
		"empty name":      {[]string{"cluster/"}, "", ""},
		"another kind":    {[]string{"node", "n1"}, "", ""},
		"three words":     {[]string{"cluster", "c1", "c2"}, "", ""},
		"empty name, two": {[]string{"cluster", ""}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kind, object, err := cmdutil.Object(command, test.args, cmdutil.ClusterKind, cmdutil.DeploymentKind)
			g.Expect(kind).To(Equal(test.kind))
			g.Expect(object).To(Equal(test.name))
			if test.kind == "" {
				g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.BadUsage))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
		})
	}
	_, _, err := cmdutil.Object(command, []string{"cluster", "c1"}, cmdutil.DeploymentKind)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("want machinedeployment")))
}

type colour string

func TestChoice(t *testing.T) {
	g := NewWithT(t)
	chosen := colour("")
	command := &cobra.Command{Run: func(*cobra.Command, []string) {}, SilenceErrors: true, SilenceUsage: true}
	cmdutil.ChoiceP(command, &chosen, "colour", "c", "which", "red", "green")
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
			output := cmdutil.NewOutput(command)
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
	output := cmdutil.NewOutput(command, "own")
	for _, format := range []string{"xml", "wider"} {
		command.SetArgs([]string{"-o", format})
		g.Expect(command.Execute()).To(Succeed())
		g.Expect(cmdutil.Code(output.Check())).To(Equal(cmdutil.BadUsage), format)
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
		output := cmdutil.NewOutput(command)
		command.SetArgs([]string{"-o", format})
		g.Expect(command.Execute()).To(Succeed())
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
		g.Expect(output.Result(cmdutil.NewHub(streams), cluster,
			cmdutil.Fact{Name: "Name", Value: "c1"}, cmdutil.Fact{Name: "Nothing known of this"}, cmdutil.Fact{Name: "Namespace", Value: "shop"})).To(Succeed())
		g.Expect(out.String()).To(Equal(want), format)
	}
}

func TestTable(t *testing.T) {
	g := NewWithT(t)
	table := func() *metav1.Table {
		return &metav1.Table{ColumnDefinitions: cmdutil.Columns("Name", "+Why"), Rows: []metav1.TableRow{{Cells: []any{"c1", "because"}}}}
	}
	for args, want := range map[string]string{
		"":                     "NAME\nc1\n",
		"-o=wide":              "NAME   WHY\nc1     because\n",
		"-o=wide,--no-headers": "c1    because\n",
	} {
		command := &cobra.Command{Run: func(*cobra.Command, []string) {}}
		output := cmdutil.NewTableOutput(command)
		command.SetArgs(strings.FieldsFunc(args, func(r rune) bool { return r == ',' }))
		g.Expect(command.Execute()).To(Succeed())
		var out bytes.Buffer
		g.Expect(output.Table(&out, table())).To(Succeed())
		g.Expect(out.String()).To(Equal(want), args)
	}
}

func TestAnApiServerThatIsNoHub(t *testing.T) {
	g := NewWithT(t)
	hub := cmdutil.NewHub(genericiooptions.NewTestIOStreamsDiscard())
	unknown := apierrors.NewNotFound(schema.GroupResource{}, "")
	for _, err := range []error{
		&apiutil.ErrResourceDiscoveryFailed{v1alpha1.GroupVersion: unknown}, &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Cluster"}},
	} {
		explained := hub.Explain(fmt.Errorf("listing clusters: %w", err))
		g.Expect(explained).To(MatchError(ContainSubstring("this API server is not a hub")))
		g.Expect(cmdutil.Code(explained)).To(Equal(cmdutil.Failed))
	}
	away := errors.New("connection refused")
	g.Expect(hub.Explain(away)).To(Equal(away))
}

func TestDidYouMean(t *testing.T) {
	for typed, want := range map[string]string{
		"clutser": "cluster", "Cluster": "cluster", "c2": "c1", "clusters": "cluster", "freez": "freeze", "": "", "zzz": "", "ccccccccc": "",
	} {
		got := cmdutil.DidYouMean(typed, []string{"cluster", "freeze", "c1"})
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
}

func FuzzObject(f *testing.F) {
	f.Add("cluster", "c1", true)
	f.Add("md/workers", "", false)
	f.Add("Machinesets.hollowfleet.io/", "\x00", true)
	command := &cobra.Command{Use: "freeze"}
	f.Fuzz(func(t *testing.T, first, second string, both bool) {
		args := []string{first}
		if both {
			args = append(args, second)
		}
		kind, name, err := cmdutil.Object(command, args, cmdutil.ClusterKind, cmdutil.DeploymentKind, cmdutil.SetKind)
		if err != nil {
			if cmdutil.Code(err) != cmdutil.BadUsage {
				t.Errorf("%q: exit code %d: %v", args, cmdutil.Code(err), err)
			}
			return
		}
		if name == "" || cmdutil.KindOf(string(kind), []cmdutil.Kind{cmdutil.ClusterKind, cmdutil.DeploymentKind, cmdutil.SetKind}) != kind {
			t.Errorf("%q is kind %q and name %q", args, kind, name)
		}
	})
}
