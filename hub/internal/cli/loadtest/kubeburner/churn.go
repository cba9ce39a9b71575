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
	older := s.truth("churn", false)
	inner := s.section("churnConfig")
	for was, is := range map[string]string{"churnPercent": "percent", "churnDuration": "duration", "churnDelay": "delay", "churnCycles": "cycles", "churnDeletionStrategy": "deletionStrategy"} {
		if value := s.take(was); value != nil && older {
			inner.left[is] = value
		}
	}
	if older && !inner.has("duration") && !inner.has("cycles") {
		inner.left["duration"] = churnDuration.String()
	}
	if older && !inner.has("percent") {
		inner.left["percent"] = float64(churnPercent)
	}
	if older && !inner.has("delay") {
		inner.left["delay"] = churnDelay.String()
	}
	return inner
}

// readChurn reads how a job replaces objects; nil if it does not.
func (c *conversion) readChurn(s settings) *churning {
	inner := churnSettings(s)
	percent, cycles := inner.count("percent", 0), inner.count("cycles", 0)
	duration, delay := inner.duration("duration"), inner.duration("delay")
	mode := inner.text("mode")
	inner.take("deletionStrategy")
	inner.nameRest()
	if duration == 0 && cycles == 0 {
		return nil // As in kube-burner.
	}
	if mode != "objects" {
		c.note(Changed, inner.path, "objects are replaced one by one, and not with their namespaces")
	}
	if duration == 0 {
		duration = time.Duration(cycles) * max(delay, time.Minute)
		c.note(Changed, inner.at("cycles"), "a LoadTest has a duration in place of %d rounds: %s", cycles, duration)
	} else if cycles > 0 {
		c.note(Changed, inner.at("cycles"), "objects are replaced for %s, however many rounds that are", duration)
	}
	if delay > 0 {
		c.note(Changed, inner.at("delay"), "a round begins when the objects of the one before are there, without a pause of %s", delay)
	}
	if percent < 1 || percent > 100 {
		c.note(Changed, inner.at("percent"), "%d becomes %d: want 1 to 100", percent, min(max(percent, 1), 100))
	}
	if duration > mostDuration {
		c.note(Changed, inner.at("duration"), "%s becomes %s, which is the longest of a LoadTest", duration, mostDuration)
	}
	return &churning{inner.path, int32(min(max(percent, 1), 100)), min(duration, mostDuration)}
}

// churn adds a step that replaces the objects of a job. Those that others name are left alone: new ones have new names.
func (c *conversion) churn(j *job) {
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
			c.note(LeftOut, j.churned.path, "the objects of %s are not replaced: those of %s name them, and new ones have new names", d.file, by.file)
			continue
		}
		if len(documents) == mostPhases {
			c.note(LeftOut, j.churned.path, "the objects of %s are not replaced: %d kinds at most are replaced side by side", d.file, mostPhases)
			continue
		}
		documents = append(documents, d)
		counts = append(counts, d.count()*int(c.load.Namespaces))
	}
	if len(documents) == 0 {
		return
	}
	tunings := c.shares(j.path, j.qps, counts)
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
	c.step(j.stepName+"-churn", phases)
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
