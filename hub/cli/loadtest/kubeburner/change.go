package kubeburner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// selection is the objects of earlier jobs that a job reads, patches or deletes.
type selection struct {
	path, kind string
	labels     map[string]string
}

// readChange reads which objects a job reads, patches or deletes.
func (c *conversion) readChange(j *job, s settings) {
	j.qps = c.readRate(s)
	j.waits = s.readBool("waitForDeletion", true)
	s.takeValue("waitWhenFinished")
	s.takeValue("podWait")
	for _, object := range s.readList("objects") {
		one := selection{path: object.path, kind: object.readText("kind"), labels: map[string]string{}}
		object.takeValue("apiVersion")
		selector := object.readSection("labelSelector")
		for _, name := range slices.Sorted(maps.Keys(selector.left)) {
			one.labels[name] = selector.readText(name)
		}
		if len(one.labels) == 0 {
			c.addNote(Changed, object.path, "without a labelSelector kube-burner means every %s of the cluster: here those are meant that the test made", one.kind)
		}
		if j.action == v1alpha1.LoadPatch {
			c.addNote(Changed, object.path, "an annotation is written, and not what %s says", object.readText("objectTemplate"))
			object.takeValue("patchType")
			object.takeValue("inputVars")
		}
		object.nameRest()
		j.selections = append(j.selections, one)
	}
}

// convertChanges adds a step for each entry of a job that reads, patches or deletes objects: kube-burner does one after the other.
func (c *conversion) convertChanges(j *job) {
	for _, one := range j.selections {
		documents, gone := c.selectDocuments(one)
		switch {
		case len(documents) > mostPhases:
			c.addNote(LeftOut, one.path, "%d templates are meant, and %d at most are used side by side", len(documents), mostPhases)
			continue
		case len(documents) > 0:
			c.changeStep(j, documents)
		case gone:
			c.addNote(Ignored, one.path, "all of them have been deleted by then, in kube-burner too")
		default:
			c.addNote(LeftOut, one.path, "no earlier job makes a %s with these labels that is not left out; those that a controller makes, such as the pods of a Deployment, cannot be chosen", one.kind)
		}
	}
}

// selectDocuments finds the documents whose objects are meant and still there. Gone tells that others were meant, which were deleted.
func (c *conversion) selectDocuments(one selection) (documents []*document, gone bool) {
	for _, j := range c.jobs {
		for index, d := range j.documents {
			if d.kind != one.kind || d.refused != "" || d.step < 0 {
				continue
			}
			switch is, some := d.hasLabels(one.labels, index); {
			case some && !is:
				c.addNote(LeftOut, one.path, "the labels are those of some objects of %s, and a LoadTest chooses all of a template", d.file)
			case is && d.deleted:
				gone = true
			case is:
				documents = append(documents, d)
			}
		}
	}
	return documents, gone
}

// hasLabels reports whether all objects of a document have labels, those included that kube-burner itself gives them, or some.
func (d *document) hasLabels(wanted map[string]string, position int) (all, some bool) {
	all = true
	for index := range d.countPerNamespace() {
		have := map[string]string{}
		for _, prefix := range []string{"kube-burner.io/", "kube-burner-"} {
			have[prefix+"job"], have[prefix+"index"], have[prefix+"uuid"], have[prefix+"runid"] = d.job.name, strconv.Itoa(position), exampleID, exampleID
		}
		for _, one := range d.listScalars() {
			if len(one.keys) == 3 && one.keys[0] == "metadata" && one.keys[1] == "labels" {
				have[one.keys[2]] = d.fillForIndex(d.text[one.from:one.to], index)
			}
		}
		fits := true
		for name, value := range wanted {
			fits = fits && have[name] == value
		}
		all, some = all && fits, some || fits
	}
	return all, some
}

func (c *conversion) changeStep(j *job, documents []*document) {
	iterations := j.iterations
	if j.action == v1alpha1.LoadDelete {
		iterations = 1 // As in kube-burner.
	}
	var counts []int
	for _, d := range documents {
		counts = append(counts, d.countPerNamespace()*int(c.load.Namespaces)*iterations)
	}
	tunings := c.shareRate(j.path, j.qps, counts)
	var phases []v1alpha1.LoadPhase
	var longest time.Duration
	for i, d := range documents {
		phase := v1alpha1.LoadPhase{Action: j.action, Template: d.template, Tuning: tunings[i], Wait: v1alpha1.LoadWaitNone}
		took := secondsToDuration(float64(counts[i]) / float64(tunings[i].QPS))
		longest = max(longest, took)
		if j.action == v1alpha1.LoadDelete {
			d.deleted = true
			if j.waits {
				phase.Wait = v1alpha1.LoadWaitGone
			}
		} else {
			if took > mostDuration {
				c.addNote(Changed, j.path, "%d requests take %s, and the longest of a LoadTest is %s: the rest is not made", counts[i], took, mostDuration)
			}
			phase.Duration = &metav1.Duration{Duration: min(max(took, time.Millisecond), mostDuration)}
		}
		phases = append(phases, phase)
	}
	c.spent += min(longest, mostDuration)
	c.addStep(j.stepName, phases)
}

// secondsToDuration is a number of them, in whole milliseconds.
func secondsToDuration(number float64) time.Duration {
	return time.Duration(number*1000+1e-6) * time.Millisecond
}

func (j *job) pathOf(name string) string { return fmt.Sprintf("%s.%s", j.path, name) }
