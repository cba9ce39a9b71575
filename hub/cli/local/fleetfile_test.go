//go:build linux

package local

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

const fleetHead = "apiVersion: local.hollowfleet.io/v1alpha1\nkind: LocalFleet\n"

// upCommand is "local up", whose options are o after its arguments are read; nothing is started.
func upCommand(o *upOptions, dir *string) *cobra.Command {
	command := newUpCommand(o, dir)
	command.Flags().StringVar(dir, "dir", *dir, "")
	return command
}

// readArgs reads arguments of "local up".
func readArgs(t *testing.T, stdin string, args ...string) (*upOptions, error) {
	t.Helper()
	streams, in, _, _ := genericiooptions.NewTestIOStreams()
	in.WriteString(stdin)
	o, dir := &upOptions{hub: cmdutil.NewHub(streams)}, "/default"
	command := upCommand(o, &dir)
	NewWithT(t).Expect(command.ParseFlags(args)).To(Succeed())
	err := o.readFile(command.Flags())
	o.dir = dir
	return o, err
}

func writeFleet(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	NewWithT(t).Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return path
}

// Claim: `local up -f` reads a LocalFleet, and given flags win. Broken: a flag overridden by the file; a path from the working directory.
func TestAFileSaysWhatFlagsDoNot(t *testing.T) {
	g := NewWithT(t)
	path := writeFleet(t, fleetHead+`dir: fleet
clusters: 5
machines: 0
kubeletVersions: [v1.36.2, v1.35.4]
isolation: shared
heartbeats: slow
nodesPerPack: 7
hubArgs: ["--log-level=debug"]
agentArgs: ["--freeze-after=6s", "a,b"]
clusterArgs: ["--aggregation"]
binDir: /programs
ignorePreflightErrors: [memory, cpu]
timeout: 9m
`)
	o, err := readArgs(t, "", "-f", path, "--clusters=2", "--agent-arg=--x")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.dir).To(Equal(filepath.Join(filepath.Dir(path), "fleet")), "relative to the file")
	g.Expect(o.clusters).To(Equal(2), "a flag")
	g.Expect(o.workers).To(Equal(workers{0, []string{"v1.36.2", "v1.35.4"}}))
	g.Expect(o.Programs).To(Equal(localfleet.Programs{
		BinDir: "/programs", NodesPerPack: 7, Heartbeats: localfleet.HeartbeatsSlow, Isolation: localfleet.IsolationShared,
		HubArgs: []string{"--log-level=debug"}, AgentArgs: []string{"--x"}, ClusterArgs: []string{"--aggregation"},
	}))
	g.Expect(o.ignored).To(HaveExactElements("memory", "cpu"))
	g.Expect(o.timeout).To(Equal(9 * time.Minute))
	g.Expect(o.nameOf("machines")).To(Equal(path + ": machines"))
	g.Expect(o.nameOf("clusters")).To(Equal("--clusters"))

	o, err = readArgs(t, "", "-f", path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.AgentArgs).To(HaveExactElements("--freeze-after=6s", "a,b"), "as they are")
	content, err := o.effective().encode()
	g.Expect(err).NotTo(HaveOccurred())
	again, err := readArgs(t, string(content), "-f", "-")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.effective()).To(Equal(o.effective()), "what is recorded of a fleet starts the same")

	o, err = readArgs(t, "# nothing\n---\n"+fleetHead+"clusters: null\n", "-f", "-")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.clusters).To(Equal(3), "the default")
	g.Expect(o.dir).To(Equal("/default"))
}

// Claim: What a LocalFleet cannot be is refused with field and remedy. Broken: an unknown field, another case, a key twice let through; a number out of its range named by its flag.
func TestAFileThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct{ text, says string }{
		"empty":              {"", "it is empty: want apiVersion local.hollowfleet.io/v1alpha1 and kind LocalFleet"},
		"no YAML":            {"a: [", "reading the YAML"},
		"a list":             {"- a", "want an object with apiVersion"},
		"another kind":       {"apiVersion: v1\nkind: Pod\n", `apiVersion, kind: want local.hollowfleet.io/v1alpha1 and LocalFleet, got "v1" and "Pod"`},
		"another version":    {strings.Replace(fleetHead, "v1alpha1", "v2", 1), `got "local.hollowfleet.io/v2" and "LocalFleet"`},
		"two":                {fleetHead + "---\n" + fleetHead, "it has more than one object: leave one LocalFleet"},
		"an unknown field":   {fleetHead + "cluster: 3\n", `unknown field "cluster": the fields of a LocalFleet are agentArgs, binDir, clusterArgs, clusters, dir, `},
		"another case":       {fleetHead + "Clusters: 3\n", `unknown field "Clusters"`},
		"a field twice":      {fleetHead + "clusters: 3\nclusters: 4\n", `key "clusters" already set in map`},
		"a text as a number": {fleetHead + "clusters: many\n", "clusters: want a whole number, got a string"},
		"a broken number":    {fleetHead + "machines: 1.5\n", "machines: want a whole number, got a number 1.5"},
		"a text as a list":   {fleetHead + "hubArgs: --v=1\n", "hubArgs: want a list of texts, got a string"},
		"a number as text":   {fleetHead + "heartbeats: 3\n", "heartbeats: want a text, got a number"},
		"no such heartbeats": {fleetHead + "heartbeats: never\n", `heartbeats: got "never": want one of normal, slow`},
		"no such isolation":  {fleetHead + "isolation: none\n", `isolation: got "none": want one of process, shared`},
		"no duration":        {fleetHead + "timeout: soon\n", `timeout: got "soon": time: invalid duration`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path := writeFleet(t, test.text)
			_, err := readArgs(t, "", "-f", path)
			g.Expect(err).To(MatchError(And(HavePrefix(path+": "), ContainSubstring(test.says))))
			g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.BadUsage))
		})
	}
	g := NewWithT(t)
	_, err := readArgs(t, "", "-f", "/nowhere/fleet.yaml")
	g.Expect(err).To(MatchError(ContainSubstring("--filename: open /nowhere/fleet.yaml")))
	for field, text := range map[string]string{"clusters": "clusters: 201", "machines": "machines: -1", "nodesPerPack": "nodesPerPack: 0", "timeout": "timeout: -1s", "kubeletVersions": "kubeletVersions: [latest]", "ignorePreflightErrors": "ignorePreflightErrors: [ram]", "binDir": "binDir: nowhere"} {
		path := writeFleet(t, fleetHead+text)
		o, err := readArgs(t, "", "-f", path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(o.validateFlags()).To(MatchError(ContainSubstring(path+": "+field)), text)
	}
}

// Claim: docs/local-fleet.md has each field of a LocalFleet, and each of its examples can be read. Broken: a field that is not in the page; a flag without a field; an example with an unknown field.
func TestThePageHasEveryField(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../../docs/local-fleet.md")
	g.Expect(err).NotTo(HaveOccurred())
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|.* `--([a-z-]+)` \\|$").FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, row[1])
		g.Expect(fieldFlags).To(HaveKeyWithValue(row[1], row[2]))
	}
	g.Expect(rows).To(ConsistOf(slices.Collect(maps.Keys(fieldFlags))))
	var fields []string
	for field := range reflect.TypeFor[localFleet]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			fields = append(fields, name)
		}
	}
	g.Expect(fields).To(ConsistOf(slices.Collect(maps.Keys(fieldFlags))))
	examples := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(page, -1)
	g.Expect(examples).NotTo(BeEmpty())
	for _, example := range examples {
		o, err := readArgs(t, string(example[1]), "-f", "-")
		g.Expect(err).NotTo(HaveOccurred(), "%s", example[1])
		o.BinDir = options(t).BinDir
		g.Expect(o.validateFlags()).To(Succeed(), "%s", example[1])
	}
	dir := ""
	flags := slices.Collect(maps.Values(fieldFlags))
	upCommand(&upOptions{}, &dir).Flags().VisitAll(func(flag *pflag.Flag) {
		// These are about the command, not about the fleet.
		if !slices.Contains([]string{"filename", "dry-run", "output", ownerFlag, "temporary-dir"}, flag.Name) {
			g.Expect(flags).To(ContainElement(flag.Name), "a field for each flag")
		}
	})
}

// Claim: A file that has changed since its fleet started is told of, with what helps. Broken: new.
func TestAFileThatHasChangedSinceItsFleetStarted(t *testing.T) {
	g := NewWithT(t)
	o := options(t)
	var errOut bytes.Buffer
	o.hub.ErrOut = &errOut
	o.HubArgs, o.timeout = []string{"--a"}, 0
	start, err := o.takeDirectory()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(start.Finish()).To(Succeed())
	recorded, err := os.ReadFile(filepath.Join(o.dir, localfleet.ConfigFile))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(recorded)).To(ContainSubstring("clusters: 2\n"))

	changed := func(text string) error {
		next, err := readArgs(t, "", "-f", writeFleet(t, text), "--dir", o.dir, "--ignore-preflight-errors=all")
		g.Expect(err).NotTo(HaveOccurred())
		if next.BinDir == besideMe() {
			next.BinDir = o.BinDir
		}
		return next.run(t.Context())
	}
	err = changed(string(recorded))
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Refused))
	g.Expect(err).To(MatchError(And(ContainSubstring("there is a fleet already"), Not(ContainSubstring("it was started with")))))
	err = changed(fleetHead + "clusters: 4\nhubArgs: []\nagentArgs: [--b, --c]\nmachines: 1\nkubeletVersions: [v1.36.2]\n")
	g.Expect(cmdutil.Code(err)).To(Equal(cmdutil.Refused))
	g.Expect(err).To(MatchError(And(
		ContainSubstring("\n  agentArgs: it was started with the default, not --b, --c; it cannot be changed: end the fleet, and start it from the file"),
		ContainSubstring("\n  clusters: it was started with 2, not 4; change it with kubectl scale simulatedclusterset local --replicas NUMBER"),
		ContainSubstring("\n  kubeletVersions: it was started with the default, not v1.36.2; change it with kubectl hollow upgrade machinedeployment/workers"),
		Not(ContainSubstring("machines: ")),
	)))
	g.Expect(localfleet.Down(t.Context(), o.dir)).To(BeEmpty(), "what was recorded goes with the fleet")
	g.Expect(o.dir).NotTo(BeADirectory())
}

func TestADryRunShowsWhatAFileStarts(t *testing.T) {
	g := NewWithT(t)
	o, err := readArgs(t, fleetHead+"clusters: 1\n", "-f", "-", "--dry-run", "--ignore-preflight-errors=all", "--machines=2")
	g.Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	o.hub.Out, o.BinDir, o.dir = &out, options(t).BinDir, filepath.Join(t.TempDir(), "fleet")
	g.Expect(o.run(t.Context())).To(Succeed())
	g.Expect(out.String()).To(And(HavePrefix("apiVersion: local.hollowfleet.io/v1alpha1\n"), ContainSubstring("\nclusters: 1\n"), ContainSubstring("\nmachines: 2\n"), ContainSubstring("\nisolation: process\n")))
	g.Expect(o.dir).NotTo(BeADirectory())
}

// FuzzFleetFile holds that a file is refused with a message, or read into a fleet whose own file says the same.
func FuzzFleetFile(f *testing.F) {
	for _, seed := range []string{
		"", "null", "- a", "{", fleetHead, fleetHead + "clusters: 3\n", fleetHead + "hubArgs: [a, null]\n", fleetHead + "timeout: 1h\ndir: .\n", "---\n" + fleetHead,
		fleetHead + "clusters: 0x10\n", fleetHead + "clusters: 1e3\n", fleetHead + "x: &a [*a]\n", fleetHead + "kubeletVersions: [\"\\u0000\"]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fields, err := decodeFile(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a message")
			}
			return
		}
		dir := ""
		o := &upOptions{}
		flags := upCommand(o, &dir).Flags()
		for field, texts := range fields {
			if setFlag(flags.Lookup(fieldFlags[field]), texts) != nil {
				return
			}
		}
		before := o.effective()
		content, err := before.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeFile(content)
		if err != nil {
			t.Fatalf("%q is read, and what is recorded of it is not: %v\n%s", text, err, content)
		}
		for field, texts := range again {
			if err := setFlag(flags.Lookup(fieldFlags[field]), texts); err != nil {
				t.Fatalf("%s of what is recorded: %v", field, err)
			}
		}
		if after := o.effective(); !reflect.DeepEqual(before, after) {
			t.Errorf("%q is recorded as another fleet:\n%v\n%v", text, before, after)
		}
	})
}
