package kubeburner

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// mostBytes is how long a template may be.
const mostBytes = 16384

var (
	action   = regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`)
	variable = regexp.MustCompile(`^\.([A-Za-z_][A-Za-z0-9_]*)$`)
	// objectName is the name of an object in its template.
	objectName = regexp.MustCompile(`(?m)^metadata:[^\n]*\n(?:[ \t]+[^\n]*\n)*?[ \t]+name:[ \t]*([^\n]+)$`)
)

// template reads the template of an object, translates it, and returns its name. One that cannot be translated is named.
func (c *conversion) template(object settings) (string, bool) {
	file := object.text("objectTemplate")
	inputs := object.section("inputVars").left
	text, err := c.read(file)
	if err != nil {
		c.note("%s: %v: the objects are left out", object.at("objectTemplate"), err)
		return "", false
	}
	translated, refused := translate(text, inputs)
	if refused != "" {
		c.note("%s: %s has %s, which is not supported: the objects are left out", object.at("objectTemplate"), file, refused)
		return "", false
	}
	kind, err := kindOf(translated)
	if err != nil {
		c.note("%s: %s: %v: the objects are left out", object.at("objectTemplate"), file, err)
		return "", false
	}
	for _, template := range c.load.Templates {
		if template.Object == translated {
			return template.Name, true
		}
	}
	if len(c.load.Templates) == mostTemplates {
		c.note("%s: a LoadTest has %d templates at most: the objects are left out", object.path, mostTemplates)
		return "", false
	}
	name := nameOf(strings.TrimSuffix(path.Base(file), path.Ext(file)), "object", 28)
	if name[0] >= '0' && name[0] <= '9' {
		name = "o" + name
	}
	for number := 2; c.kinds[name] != ""; number++ {
		name = fmt.Sprintf("%s-%d", strings.TrimRight(strings.TrimSuffix(name, fmt.Sprintf("-%d", number-1)), "-"), number)
	}
	c.kinds[name] = kind
	c.load.Templates = append(c.load.Templates, v1alpha1.LoadTemplate{Name: name, Object: translated})
	if found := objectName.FindStringSubmatch(translated); found != nil && strings.Contains(found[1], "{{") {
		c.named = append(c.named, [2]string{strings.Trim(found[1], `"' `), name + "-{{.Index}}"})
	}
	return name, true
}

// read reads a template file.
func (c *conversion) read(file string) (string, error) {
	if strings.Contains(file, "://") {
		return "", fmt.Errorf("%q is not read from the network", file)
	}
	text, err := fs.ReadFile(c.files, path.Clean(file))
	if err != nil {
		return "", err
	}
	if len(text) > mostBytes {
		return "", fmt.Errorf("%q is longer than %d bytes", file, mostBytes)
	}
	return string(text), nil
}

// translate writes variables of kube-burner as those of a LoadTest, and constants as they are. It returns what it does not know.
func translate(text string, inputs map[string]any) (translated, refused string) {
	translated = action.ReplaceAllStringFunc(text, func(whole string) string {
		expression := action.FindStringSubmatch(whole)[1]
		found := variable.FindStringSubmatch(expression)
		if found == nil {
			refused = whole
			return whole
		}
		if value, is := inputs[found[1]]; is {
			return fmt.Sprint(value)
		}
		switch strings.ToLower(found[1]) {
		case "iteration", "replica":
			return "{{.Index}}"
		case "uuid", "runid", "jobname":
			return "{{.Run}}"
		}
		refused = whole
		return whole
	})
	return translated, refused
}

// kindOf is the kind of a template's object. More than one object is an error.
func kindOf(text string) (string, error) {
	var object struct {
		Kind string `json:"kind"`
	}
	if strings.Contains(strings.TrimPrefix(strings.TrimSpace(text), "---"), "\n---") {
		return "", fmt.Errorf("it has more than one object")
	}
	if err := yaml.Unmarshal([]byte(action.ReplaceAllString(text, "0")), &object); err != nil {
		return "", err
	}
	if object.Kind == "" {
		return "", fmt.Errorf("it has no kind")
	}
	return object.Kind, nil
}
