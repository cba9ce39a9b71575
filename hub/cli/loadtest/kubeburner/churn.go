package kubeburner

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// What kube-burner used where older configurations set churn, and nothing more.
const (
	churnPercent  = 10
	churnDuration = time.Hour
	churnDelay    = 5 * time.Minute
)

// churning is how a job replaces its objects when they are there.
type churning struct {
	path     string
	percent  int32
	duration time.Duration
}

// churnSettings are those of a job, with the names and defaults that older releases of kube-burner had.
func churnSettings(s settings) settings {
	older := s.readBool("churn", false)
	inner := s.readSection("churnConfig")
	for was, is := range map[string]string{"churnPercent": "percent", "churnDuration": "duration", "churnDelay": "delay", "churnCycles": "cycles", "churnDeletionStrategy": "deletionStrategy"} {
		if value := s.takeValue(was); value != nil && older {
			inner.left[is] = value
		}
	}
	if older && !inner.hasValue("duration") && !inner.hasValue("cycles") {
		inner.left["duration"] = churnDuration.String()
	}
	if older && !inner.hasValue("percent") {
		inner.left["percent"] = float64(churnPercent)
	}
	if older && !inner.hasValue("delay") {
		inner.left["delay"] = churnDelay.String()
	}
	return inner
}

// readChurn reads how a job replaces objects; nil if it does not.
func (c *conversion) readChurn(s settings) *churning {
	inner := churnSettings(s)
	percent, cycles := inner.readCount("percent", 0), inner.readCount("cycles", 0)
	duration, delay := inner.readDuration("duration"), inner.readDuration("delay")
	mode := inner.readText("mode")
	inner.takeValue("deletionStrategy")
	inner.nameRest()
	if duration == 0 && cycles == 0 {
		return nil // As in kube-burner.
	}
	if mode != "objects" {
		c.addNote(Changed, inner.path, "objects are replaced one by one, and not with their namespaces")
	}
	if duration == 0 {
		duration = time.Duration(cycles) * max(delay, time.Minute)
		c.addNote(Changed, inner.pathOf("cycles"), "a LoadTest has a duration in place of %d rounds: %s", cycles, duration)
	} else if cycles > 0 {
		c.addNote(Changed, inner.pathOf("cycles"), "objects are replaced for %s, however many rounds that are", duration)
	}
	if delay > 0 {
		c.addNote(Changed, inner.pathOf("delay"), "a round starts when the objects of the one before are there, without a pause of %s", delay)
	}
	if percent < 1 || percent > 100 {
		c.addNote(Changed, inner.pathOf("percent"), "%d becomes %d: want 1 to 100", percent, min(max(percent, 1), 100))
	}
	if duration > mostDuration {
		c.addNote(Changed, inner.pathOf("duration"), "%s becomes %s, which is the longest of a LoadTest", duration, mostDuration)
	}
	return &churning{inner.path, int32(min(max(percent, 1), 100)), min(duration, mostDuration)}
}

// convertChurn adds a step that replaces the objects of a job. Those that others name are left alone: new ones have new names.
func (c *conversion) convertChurn(j *job) {
	if j.churned == nil {
		return
	}
	var documents []*document
	var counts []int
	for _, d := range j.documents {
		if d.refused != "" || !d.churn || d.template == "" {
			continue
		}
		if by := c.namedBy(d); by != nil {
			c.addNote(LeftOut, j.churned.path, "the objects of %s are not replaced: those of %s name them, and new ones have new names", d.file, by.file)
			continue
		}
		if len(documents) == mostPhases {
			c.addNote(LeftOut, j.churned.path, "the objects of %s are not replaced: %d kinds at most are replaced side by side", d.file, mostPhases)
			continue
		}
		documents = append(documents, d)
		counts = append(counts, d.countPerNamespace()*int(c.load.Namespaces))
	}
	if len(documents) == 0 {
		return
	}
	tunings := c.shareRate(j.path, j.qps, counts)
	var phases []v1alpha1.LoadPhase
	for i, d := range documents {
		phase := v1alpha1.LoadPhase{
			Action: v1alpha1.LoadChurn, Template: d.template, ChurnPercent: j.churned.percent, Duration: &metav1.Duration{Duration: j.churned.duration},
			Tuning: tunings[i], Wait: v1alpha1.LoadWaitNone,
		}
		if j.waits && d.wait {
			phase.Wait = v1alpha1.LoadWaitReady
		}
		phases = append(phases, phase)
	}
	c.spent += j.churned.duration
	c.addStep(j.stepName+"-churn", phases)
}

// namedBy is a document whose objects name those of another; nil if there is none.
func (c *conversion) namedBy(named *document) *document {
	for _, j := range c.jobs {
		for _, d := range j.documents {
			for _, needed := range d.needs {
				if needed == named && d.refused == "" {
					return d
				}
			}
		}
	}
	return nil
}
