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

// countPerNamespace is how many objects there are in each namespace.
func (d *document) countPerNamespace() int { return d.iterations * d.replicas }

func (d *document) refuseDocument(format string, args ...any) {
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

// readDocuments reads the template of an entry of objects. A file that cannot be read is one document that is refused.
func (c *conversion) readDocuments(j *job, s settings) []*document {
	made := document{path: s.path, job: j, step: -1, iterations: j.perNamespace}
	made.file = s.readText("objectTemplate")
	made.replicas = s.readCount("replicas", 1)
	made.wait, made.churn = s.readBool("wait", true), s.readBool("churn", true)
	inputs := s.readSection("inputVars").left
	if once := s.readBool("runOnce", false); once {
		made.iterations = 1
		if c.load.Namespaces > 1 {
			c.addNote(Changed, s.pathOf("runOnce"), "%d are made in each of %d namespaces, and not in one of them", made.replicas, c.load.Namespaces)
		}
	}
	s.nameRest()
	if made.replicas < 1 {
		c.addNote(Ignored, s.pathOf("replicas"), "%d: kube-burner makes no such objects either", made.replicas)
		return nil
	}
	text, err := c.readTemplate(made.file)
	if err != nil {
		made.refuseDocument("%v", err)
		return []*document{&made}
	}
	var all []*document
	for _, part := range between.Split(text, -1) {
		if strings.TrimSpace(withoutComments(part)) == "" {
			continue
		}
		one := made
		one.parseText(part, inputs)
		all = append(all, &one)
	}
	if len(all) == 0 {
		made.refuseDocument("%s: there is nothing in it", made.file)
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

// readTemplate reads a template file.
func (c *conversion) readTemplate(file string) (string, error) {
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

// parseText reads the text of a document. One that cannot be translated is refused, and still has a kind and a name where they are known.
func (d *document) parseText(text string, inputs map[string]any) {
	d.text = action.ReplaceAllStringFunc(text, func(whole string) string {
		found := variable.FindStringSubmatch(action.FindStringSubmatch(whole)[1])
		if found == nil {
			return d.unknownVariable(whole)
		}
		if value, given := inputs[found[1]]; given {
			switch value.(type) {
			case map[string]any, []any:
				d.refuseDocument("%s has %s, whose value in inputVars is not a single one: only texts, numbers, true and false are filled in", d.file, whole)
				return whole
			}
			return plainText(value)
		}
		if _, known := variables[found[1]]; !known {
			return d.unknownVariable(whole)
		}
		return whole
	})
	d.masked = action.ReplaceAllStringFunc(d.text, func(whole string) string { return strings.Repeat("x", len(whole)) })
	if strings.Contains(d.masked, "{{") {
		d.refuseDocument("%s has an action of more than one line, which import does not translate", d.file)
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
	d.judgeParsed(err)
}

// judgeParsed refuses a document that was not parsed, or is not an object of a kind that a run makes.
func (d *document) judgeParsed(err error) {
	switch {
	case d.refused != "":
	case err != nil:
		d.refuseDocument("%s is not YAML: %v", d.file, err)
	case d.root == nil:
		d.refuseDocument("%s is not an object", d.file)
	case hasAlias(d.root):
		d.refuseDocument("%s has YAML aliases, which a template of a LoadTest may not have: write out what they stand for", d.file)
	case d.kind == "" || d.apiVersion == "":
		d.refuseDocument("%s has no kind or no apiVersion", d.file)
	default:
		d.checkFields()
	}
}

func (d *document) unknownVariable(whole string) string {
	d.refuseDocument("%s has %s: import translates .Iteration, .Replica, .JobName, .UUID, .RunID and inputVars, and no functions or conditions", d.file, whole)
	return whole
}

// plainText is a value as a template has it.
func plainText(value any) string {
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

// fillVariables is a part of the text as kube-burner fills it in.
func (d *document) fillVariables(text string, iteration, replica int) string {
	return action.ReplaceAllStringFunc(text, func(whole string) string {
		found := variable.FindStringSubmatch(action.FindStringSubmatch(whole)[1])
		if found == nil || variables[found[1]] == nil {
			return whole
		}
		return variables[found[1]](d, iteration, replica)
	})
}

// fillForIndex is a part of the text for the object with an index in its namespace.
func (d *document) fillForIndex(text string, index int) string {
	return d.fillVariables(text, index/d.replicas, index%d.replicas+1)
}

// translateVariable is what a variable of kube-burner becomes in the LoadTest. Objects of a namespace are made by their index from 0, all
// of one iteration before those of the next.
func (d *document) translateVariable(name string) string {
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

// translatedText is the text as the LoadTest has it.
func (d *document) translatedText() string {
	var out strings.Builder
	at := 0
	for _, one := range d.edits {
		out.WriteString(d.translateText(d.text[at:one.from]))
		out.WriteString(one.text)
		at = one.to
	}
	out.WriteString(d.translateText(d.text[at:]))
	return strings.TrimPrefix(out.String(), "\n")
}

func (d *document) translateText(text string) string {
	return action.ReplaceAllStringFunc(text, func(whole string) string {
		return d.translateVariable(variable.FindStringSubmatch(action.FindStringSubmatch(whole)[1])[1])
	})
}

// usesVariable reports whether the text has a variable outside of what is edited.
func (d *document) usesVariable(name string) bool {
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
