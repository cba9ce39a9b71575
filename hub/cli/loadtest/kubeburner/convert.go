// Package kubeburner makes a LoadTest of a configuration of kube-burner. What the two do not have in common is named: nothing that a
// configuration asks for is changed silently.
package kubeburner

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// The bounds of a LoadTest.
const (
	mostNamespaces, mostTemplates, mostSteps, mostPhases = 100, 16, 32, 8
	mostReplicas, mostQPS, mostName, mostTemplateName    = 10_000, 1000, 52, 28
	mostDuration                                         = 24 * time.Hour
)

// timeoutByDefault is kube-burner's.
const timeoutByDefault = 4 * time.Hour

// conversion is one configuration that is being read.
type conversion struct {
	files fs.FS
	load  *v1alpha1.Load
	jobs  []*job
	notes []Note
	// waitAtEnd is that all jobs are waited for when the last one is over.
	waitAtEnd bool
	// verifies is that the number of objects is checked after each job.
	verifies bool
	// spent is how long all requests take, and pauses.
	spent time.Duration
}

// Convert reads a configuration, whose templates are in files. It is an error if the file is something else, or nothing is left to do;
// what is left out otherwise is in the notes.
func Convert(config []byte, files fs.FS) (*Result, error) {
	raw, err := readFormat(config)
	if err != nil {
		return nil, err
	}
	c := &conversion{files: files, verifies: true, load: &v1alpha1.Load{Namespaces: 1}}
	top := settings{c, "", raw}
	jobs := top.readList("jobs")
	for i, s := range jobs {
		c.jobs = append(c.jobs, newJob(i, s))
	}
	c.spreadNamespaces()
	c.readGlobal(top.readSection("global"))
	for i, s := range jobs {
		c.readJob(c.jobs[i], s)
	}
	top.nameRest()
	c.nameTemplates()
	c.linkReferences(c.documentsOfAll())
	for _, j := range c.jobs {
		c.addSteps(j)
	}
	c.nameRefused()
	result := &Result{Notes: c.notes}
	if len(c.load.Steps) == 0 {
		sortNotes(result.Notes)
		return result, errors.New("nothing is left of the configuration that a LoadTest can do")
	}
	c.finishTest()
	sortNotes(c.notes)
	result.Notes = c.notes
	result.Test = &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: nameOf(c.jobs[0].name, "imported", mostName)}}
	result.Test.Spec.ClusterSelector, result.Test.Spec.Load = &metav1.LabelSelector{}, c.load
	return result, nil
}

func (c *conversion) documentsOfAll() (all []*document) {
	for _, j := range c.jobs {
		all = append(all, j.documents...)
	}
	return all
}

// nameTemplates gives each document the name of its template. Each has one of its own: the number of an object in its template says
// which iteration and replica it is.
func (c *conversion) nameTemplates() {
	taken := map[string]bool{}
	for _, d := range c.documentsOfAll() {
		base := nameOf(strings.TrimSuffix(path.Base(d.file), path.Ext(d.file)), "object", mostTemplateName)
		if base[0] >= '0' && base[0] <= '9' {
			base = "o" + base
		}
		name := base
		for number := 2; taken[name]; number++ {
			name = fmt.Sprintf("%s-%d", base, number)
		}
		taken[name] = true
		d.template = name
	}
	kept := 0
	for _, d := range c.documentsOfAll() {
		if d.refused != "" {
			continue
		}
		if kept++; kept > mostTemplates {
			d.refuseDocument("%s: a LoadTest has %d templates at most", d.file, mostTemplates)
		}
		if d.countPerNamespace() > mostReplicas {
			d.refuseDocument("%s: %d objects in each of %d namespaces are more than %d, which a LoadTest makes at most", d.file, d.countPerNamespace(), c.load.Namespaces, mostReplicas)
		}
	}
}

// nameRefused names the documents whose objects are left out.
func (c *conversion) nameRefused() {
	for _, d := range c.documentsOfAll() {
		if d.refused == "" {
			continue
		}
		kind := "objects"
		if d.kind != "" {
			kind = d.kind + " objects"
		}
		c.addNote(LeftOut, d.path, "%d %s: %s", d.countPerNamespace()*int(c.load.Namespaces), kind, d.refused)
	}
}

// finishTest adds what holds for the whole test.
func (c *conversion) finishTest() {
	names := c.collectNames(c.documentsOfAll())
	for _, d := range c.documentsOfAll() {
		if d.refused != "" || d.step < 0 {
			continue
		}
		text := d.translatedText()
		c.load.Templates = append(c.load.Templates, v1alpha1.LoadTemplate{Name: d.template, Object: text})
		if mentions := d.findMentions(names); len(mentions) > 0 {
			c.addNote(Changed, d.path, "%s mentions %s in a text: Services have other names here, and the text is left as it is", d.file, strings.Join(mentions, ", "))
		}
	}
	if len(c.load.Steps) > mostSteps {
		c.addNote(LeftOut, "jobs", "a LoadTest has %d steps at most: %d are left out, from %s on", mostSteps, len(c.load.Steps)-mostSteps, c.load.Steps[mostSteps].Name)
		c.load.Steps = c.load.Steps[:mostSteps]
	}
	if c.spent > c.load.Timeout.Duration {
		c.addNote(Changed, "global.timeout", "the requests and pauses take %s, which is longer than the timeout of %s: the run will fail, as kube-burner would", c.spent.Round(time.Second), c.load.Timeout.Duration)
	}
	if c.verifies {
		c.load.Thresholds = append(c.load.Thresholds, v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors, Quantile: v1alpha1.LoadP99, MaxPercent: new(int32)})
	}
	used := map[string]bool{}
	for _, step := range c.load.Steps {
		for _, phase := range step.Phases {
			used[phase.Template] = true
		}
	}
	c.load.Templates = slices.DeleteFunc(c.load.Templates, func(t v1alpha1.LoadTemplate) bool { return !used[t.Name] })
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// nameOf makes a name of a text.
func nameOf(text, otherwise string, most int) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(text), "-"), "-")
	name = strings.Trim(name[:min(len(name), most)], "-")
	if name == "" {
		return otherwise
	}
	return name
}
