//go:build linux

package local

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

const (
	fleetVersion, fleetKind = "local.hollowfleet.io/v1alpha1", "LocalFleet"
	// longestFile bounds a file of -f.
	longestFile = 1 << 20
)

// localFleet is what a file of "local up -f" holds. A field that is missing has the default of its flag. docs/local-fleet.md describes each.
type localFleet struct {
	metav1.TypeMeta       `json:",inline"`
	Dir                   string   `json:"dir,omitempty"`
	Clusters              *int     `json:"clusters,omitempty"`
	Machines              *int     `json:"machines,omitempty"`
	KubeletVersions       []string `json:"kubeletVersions,omitempty"`
	Isolation             string   `json:"isolation,omitempty"`
	Heartbeats            string   `json:"heartbeats,omitempty"`
	NodesPerPack          *int     `json:"nodesPerPack,omitempty"`
	HubArgs               []string `json:"hubArgs,omitempty"`
	AgentArgs             []string `json:"agentArgs,omitempty"`
	ClusterArgs           []string `json:"clusterArgs,omitempty"`
	BinDir                string   `json:"binDir,omitempty"`
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
	Timeout               string   `json:"timeout,omitempty"`
}

// fieldFlags are the fields of a LocalFleet and their flags.
var fieldFlags = map[string]string{
	"dir": "dir", "clusters": "clusters", "machines": "machines", "kubeletVersions": "kubelet-version", "isolation": isolationFlag, "heartbeats": "heartbeats",
	"nodesPerPack": "nodes-per-pack", "hubArgs": "hub-arg", "agentArgs": "agent-arg", "clusterArgs": "cluster-arg", "binDir": "bin-dir",
	"ignorePreflightErrors": ignoreFlag, "timeout": "timeout",
}

// pathFields are the fields in which a relative path is relative to the file.
var pathFields = []string{"dir", "binDir"}

// encode returns the file of it.
func (f localFleet) encode() ([]byte, error) {
	f.APIVersion, f.Kind = fleetVersion, fleetKind
	content, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("writing the LocalFleet: %w", err)
	}
	return content, nil
}

// decodeFile reads the one LocalFleet of a text strictly. It returns the fields that are set, as their flags take them.
func decodeFile(text []byte) (map[string][]string, error) {
	content, err := onlyObject(text)
	if err != nil {
		return nil, err
	}
	var head metav1.TypeMeta
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(content, &head); err != nil {
		return nil, describeType(err)
	}
	if head.APIVersion != fleetVersion || head.Kind != fleetKind {
		return nil, fmt.Errorf("apiVersion, kind: want %s and %s, got %q and %q", fleetVersion, fleetKind, head.APIVersion, head.Kind)
	}
	var fleet localFleet
	unknown, err := strictjson.UnmarshalStrict(content, &fleet)
	if err != nil {
		return nil, describeType(err)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("%w: the fields of a LocalFleet are %s", unknown[0], strings.Join(slices.Sorted(maps.Keys(fieldFlags)), ", "))
	}
	return fleet.texts()
}

// onlyObject returns the one object of a YAML text as JSON.
func onlyObject(text []byte) ([]byte, error) {
	var object []byte
	documents := yamlreader.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the YAML: %w", err)
		}
		content, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("reading the YAML: %w", err)
		}
		if string(content) == "null" {
			continue // A comment alone.
		}
		if object != nil {
			return nil, errors.New("it has more than one object: leave one LocalFleet")
		}
		object = content
	}
	if object == nil {
		return nil, fmt.Errorf("it is empty: want apiVersion %s and kind %s", fleetVersion, fleetKind)
	}
	return object, nil
}

// ofWrongType is the text of an error that the decoder has for a value of another type.
var ofWrongType = regexp.MustCompile(`cannot unmarshal (.+) into Go (?:struct field \w+\.(\w+)|value) of type (.+)$`)

// describeType says which field has a value of another type, and what it wants.
func describeType(err error) error {
	parts := ofWrongType.FindStringSubmatch(err.Error())
	switch {
	case parts == nil:
		return err
	case parts[2] == "":
		return fmt.Errorf("want an object with apiVersion %s and kind %s, got a %s", fleetVersion, fleetKind, parts[1])
	}
	want := map[string]string{"int": "a whole number", "string": "a text", "[]string": "a list of texts"}[parts[3]]
	return fmt.Errorf("%s: want %s, got a %s", parts[2], cmp.Or(want, parts[3]), parts[1])
}

// texts returns the fields that are set as their flags take them.
func (f localFleet) texts() (map[string][]string, error) {
	content, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("reading the LocalFleet: %w", err)
	}
	var fields map[string]any
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(content, &fields); err != nil {
		return nil, fmt.Errorf("reading the LocalFleet: %w", err)
	}
	texts := map[string][]string{}
	for name := range fieldFlags {
		switch value := fields[name].(type) {
		case nil:
		case []any:
			for _, one := range value {
				texts[name] = append(texts[name], fmt.Sprint(one))
			}
		default:
			texts[name] = []string{fmt.Sprint(value)}
		}
	}
	return texts, nil
}

// readFile lets the file of -f say what no flag does.
func (o *upOptions) readFile(flags *pflag.FlagSet) error {
	o.named = map[string]string{}
	if o.file == "" {
		return nil
	}
	text, err := o.readText()
	if err != nil {
		return err
	}
	fields, err := decodeFile(text)
	if err != nil {
		return cmdutil.Usage("%s: %w", o.file, err)
	}
	for field, texts := range fields {
		flag := flags.Lookup(fieldFlags[field])
		if flag.Changed {
			continue
		}
		if slices.Contains(pathFields, field) {
			texts = []string{o.besideFile(texts[0])}
		}
		if err := setFlag(flag, texts); err != nil {
			return cmdutil.Usage("%s: %s: got %q: %w", o.file, field, strings.Join(texts, ", "), err)
		}
		o.named[flag.Name] = o.file + ": " + field
	}
	return nil
}

func setFlag(flag *pflag.Flag, texts []string) error {
	if list, is := flag.Value.(pflag.SliceValue); is {
		return list.Replace(texts)
	}
	return flag.Value.Set(texts[0])
}

// readText reads the file, of which "-" is standard input.
func (o *upOptions) readText() ([]byte, error) {
	in := o.hub.In
	if o.file != "-" {
		file, err := os.Open(o.file)
		if err != nil {
			return nil, fmt.Errorf("--filename: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, longestFile+1))
	if err != nil {
		return nil, fmt.Errorf("--filename: reading %s: %w", o.file, err)
	}
	if len(text) > longestFile {
		return nil, cmdutil.Usage("%s: it is longer than a LocalFleet may be, which is 1 MiB", o.file)
	}
	return text, nil
}

// besideFile is a path of the file as seen from the working directory.
func (o *upOptions) besideFile(path string) string {
	if path == "" || filepath.IsAbs(path) || o.file == "-" {
		return path
	}
	return filepath.Join(filepath.Dir(o.file), path)
}

// effective is the LocalFleet that starts what flags and file say.
func (o *upOptions) effective() localFleet {
	programs := o.BinDir
	if absolute, err := filepath.Abs(programs); err == nil {
		programs = absolute // The file may be read elsewhere.
	}
	fleet := localFleet{
		Dir: o.dir, Clusters: &o.clusters, Machines: &o.workers.machines, KubeletVersions: o.workers.versions, Isolation: string(o.Isolation), Heartbeats: string(o.Heartbeats),
		NodesPerPack: &o.NodesPerPack, HubArgs: o.HubArgs, AgentArgs: o.AgentArgs, ClusterArgs: o.ClusterArgs, BinDir: programs, IgnorePreflightErrors: o.ignored,
	}
	if o.timeout != 0 {
		fleet.Timeout = o.timeout.String()
	}
	return fleet
}

// showFile prints what a dry run with a file would start.
func (o *upOptions) showFile() error {
	if !o.dryRun || o.file == "" || o.output.isStructured() {
		return nil
	}
	content, err := o.effective().encode()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.hub.Out, "%s\n", content)
	return err
}
