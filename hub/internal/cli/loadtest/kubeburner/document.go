package kubeburner

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// mostBytes is how long a template of a LoadTest may be.
const mostBytes = 16384

// document is one object of a template file, and how often a job makes it.
type document struct {
	// path is the setting that names the file.
	path, file string
	job        *job
	// text is the template with input variables written in, and masked the same with each action replaced by as many letters, so that
	// it is YAML and each place in one is the same in the other.
	text, masked string
	root         *yaml.Node
	// apiVersion, kind and name are those of the object; the name is where the template has it.
	apiVersion, kind string
	name             *scalar
	// In each namespace there are iterations of the job, each of which makes replicas.
	iterations, replicas int
	wait, churn          bool
	// template is the name in the LoadTest, and edits what is written into the text there.
	template string
	edits    []edit
	// needs are documents whose objects this one names.
	needs []*document
	// step is that which makes the objects, -1 for none, and deleted tells that a later one deletes them.
	step    int
	deleted bool
	// refused says why its objects are left out. Empty if they are not.
	refused string
}

// edit replaces a part of a text.
type edit struct {
	from, to int
	text     string
}

// count is how many objects there are in each namespace.
func (d *document) count() int { return d.iterations * d.replicas }

func (d *document) refuse(format string, args ...any) {
	if d.refused == "" {
		d.refused = fmt.Sprintf(format, args...)
	}
}

var (
	action   = regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`)
	variable = regexp.MustCompile(`^\.([A-Za-z_][A-Za-z0-9_]*)$`)
	between  = regexp.MustCompile(`(?m)^---[ \t]*(#.*)?$`)
	kindLine = regexp.MustCompile(`(?m)^kind:[ \t]*["']?([A-Za-z0-9]+)`)
)

// documents reads the template of an entry of objects. A file that cannot be read is one document that is refused.
func (c *conversion) documents(j *job, s settings) []*document {
	made := document{path: s.path, job: j, step: -1, iterations: j.perNamespace}
	made.file = s.text("objectTemplate")
	made.replicas = s.count("replicas", 1)
	made.wait, made.churn = s.truth("wait", true), s.truth("churn", true)
	inputs := s.section("inputVars").left
	if once := s.truth("runOnce", false); once {
		made.iterations = 1
		if c.load.Namespaces > 1 {
			c.note(Changed, s.at("runOnce"), "%d are made in each of %d namespaces, and not in one of them", made.replicas, c.load.Namespaces)
		}
	}
	s.nameRest()
	if made.replicas < 1 {
		c.note(Ignored, s.at("replicas"), "%d: kube-burner makes no such objects either", made.replicas)
		return nil
	}
	text, err := c.read(made.file)
	if err != nil {
		made.refuse("%v", err)
		return []*document{&made}
	}
	var all []*document
	for _, part := range between.Split(text, -1) {
		if strings.TrimSpace(withoutComments(part)) == "" {
			continue
		}
		one := made
		one.parse(part, inputs)
		all = append(all, &one)
	}
	if len(all) == 0 {
		made.refuse("%s: there is nothing in it", made.file)
		return []*document{&made}
	}
	return all
}

func withoutComments(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// read reads a template file.
func (c *conversion) read(file string) (string, error) {
	switch {
	case file == "":
		return "", fmt.Errorf("objectTemplate is not set")
	case strings.Contains(file, "://"):
		return "", fmt.Errorf("%s is not read from the network: save it beside the configuration, and name the file", file)
	}
	text, err := fs.ReadFile(c.files, path.Clean(file))
	if err != nil {
		return "", fmt.Errorf("reading the template: %w", err)
	}
	if len(text) > mostBytes {
		return "", fmt.Errorf("%s has more than %d bytes, which a template of a LoadTest may have", file, mostBytes)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n"), nil
}

// parse reads the text of a document. One that cannot be translated is refused, and still has a kind and a name where they are known.
func (d *document) parse(text string, inputs map[string]any) {
	d.text = action.ReplaceAllStringFunc(text, func(whole string) string {
		found := variable.FindStringSubmatch(action.FindStringSubmatch(whole)[1])
		if found == nil {
			return d.unknown(whole)
		}
		if value, given := inputs[found[1]]; given {
			switch value.(type) {
			case map[string]any, []any:
				d.refuse("%s has %s, whose value in inputVars is not a single one: only texts, numbers, true and false are filled in", d.file, whole)
				return whole
			}
			return plain(value)
		}
		if _, known := variables[found[1]]; !known {
			return d.unknown(whole)
		}
		return whole
	})
	d.masked = action.ReplaceAllStringFunc(d.text, func(whole string) string { return strings.Repeat("x", len(whole)) })
	if strings.Contains(d.masked, "{{") {
		d.refuse("%s has an action of more than one line, which import does not translate", d.file)
	}
	var root yaml.Node
	err := yaml.Unmarshal([]byte(d.masked), &root)
	if err == nil && len(root.Content) == 1 && root.Content[0].Kind == yaml.MappingNode {
		d.root = root.Content[0]
		d.apiVersion, d.kind = d.textOf("apiVersion"), d.textOf("kind")
		d.name = d.scalarAt("metadata", "name")
	} else if found := kindLine.FindStringSubmatch(d.text); found != nil {
		d.kind = found[1]
	}
	d.judge(err)
}

// judge refuses a document that was not parsed, or is not an object of a kind that a run makes.
func (d *document) judge(err error) {
	switch {
	case d.refused != "":
	case err != nil:
		d.refuse("%s is not YAML: %v", d.file, err)
	case d.root == nil:
		d.refuse("%s is not an object", d.file)
	case hasAlias(d.root):
		d.refuse("%s has YAML aliases, which a template of a LoadTest may not have: write out what they stand for", d.file)
	case d.kind == "" || d.apiVersion == "":
		d.refuse("%s has no kind or no apiVersion", d.file)
	default:
		d.check()
	}
}

func (d *document) unknown(whole string) string {
	d.refuse("%s has %s: import translates .Iteration, .Replica, .JobName, .UUID, .RunID and inputVars, and no functions or conditions", d.file, whole)
	return whole
}

// plain is a value as a template has it.
func plain(value any) string {
	if number, is := value.(float64); is {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// variables are those that kube-burner gives every template: what they are in an iteration, which counts from 0, and for a replica,
// which counts from 1.
var variables = map[string]func(d *document, iteration, replica int) string{
	"Iteration": func(_ *document, iteration, _ int) string { return strconv.Itoa(iteration) },
	"Replica":   func(_ *document, _, replica int) string { return strconv.Itoa(replica) },
	"JobName":   func(d *document, _, _ int) string { return d.job.name },
	"UUID":      func(*document, int, int) string { return exampleID },
	"RunID":     func(*document, int, int) string { return exampleID },
}

const exampleID = "00000000-0000-4000-8000-000000000000"

// fill is a part of the text as kube-burner fills it in.
func (d *document) fill(text string, iteration, replica int) string {
	return action.ReplaceAllStringFunc(text, func(whole string) string {
		found := variable.FindStringSubmatch(action.FindStringSubmatch(whole)[1])
		if found == nil || variables[found[1]] == nil {
			return whole
		}
		return variables[found[1]](d, iteration, replica)
	})
}

// of is a part of the text for the object with an index in its namespace.
func (d *document) of(text string, index int) string {
	return d.fill(text, index/d.replicas, index%d.replicas+1)
}

// translation is what a variable of kube-burner becomes in the LoadTest. Objects of a namespace are made by their index from 0, all
// of one iteration before those of the next.
func (d *document) translation(name string) string {
	switch name {
	case "Iteration":
		switch {
		case d.iterations == 1:
			return "0"
		case d.replicas == 1:
			return "{{.Index}}"
		}
		return fmt.Sprintf("{{div .Index %d}}", d.replicas)
	case "Replica":
		switch {
		case d.replicas == 1:
			return "1"
		case d.iterations == 1:
			return "{{add .Index 1}}"
		}
		return fmt.Sprintf("{{add (mod .Index %d) 1}}", d.replicas)
	case "JobName":
		return d.job.name
	}
	return "{{.Run}}"
}

// translated is the text as the LoadTest has it.
func (d *document) translated() string {
	var out strings.Builder
	at := 0
	for _, one := range d.edits {
		out.WriteString(d.translate(d.text[at:one.from]))
		out.WriteString(one.text)
		at = one.to
	}
	out.WriteString(d.translate(d.text[at:]))
	return strings.TrimPrefix(out.String(), "\n")
}

func (d *document) translate(text string) string {
	return action.ReplaceAllStringFunc(text, func(whole string) string {
		return d.translation(variable.FindStringSubmatch(action.FindStringSubmatch(whole)[1])[1])
	})
}

// uses tells whether the text has a variable outside of what is edited.
func (d *document) uses(name string) bool {
	at := 0
	for _, one := range append(d.edits, edit{from: len(d.text)}) {
		for _, found := range action.FindAllStringSubmatch(d.text[at:one.from], -1) {
			if found[1] == "."+name {
				return true
			}
		}
		at = one.to
	}
	return false
}
