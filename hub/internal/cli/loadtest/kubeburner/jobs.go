package kubeburner

import (
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// job adds the steps of a job.
func (c *conversion) job(number int, s settings) {
	name := nameOf(s.text("name"), fmt.Sprintf("job-%d", number+1), 50)
	// What a LoadTest does in any case: namespaces of its own, which nothing else is in, and requests that are checked.
	for _, known := range []string{"namespace", "cleanup", "gc", "preCreateNamespaces", "skipIndexing", "verifyObjects", "errorOnVerify", "namespacedIterations", "iterationsPerNamespace"} {
		if known == "gc" && s.peekFalse("gc") {
			c.load.CleanupPolicy = v1alpha1.LoadCleanupKeep
		}
		s.take(known)
	}
	pause := s.duration("jobPause", c)
	switch kind := s.text("jobType"); kind {
	case "", "create":
		c.create(name, s)
	case "delete":
		c.others(name, s, v1alpha1.LoadDelete)
	case "patch":
		c.others(name, s, v1alpha1.LoadPatch)
	case "read":
		c.others(name, s, v1alpha1.LoadGet)
	default:
		c.note("%s.jobType: %q is not supported: the job is left out", s.path, kind)
		return
	}
	if pause > 0 {
		wait := v1alpha1.LoadPhase{Action: v1alpha1.LoadWait, Duration: &metav1.Duration{Duration: min(pause, 24*time.Hour)}}
		c.step(name+"-pause", wait)
	}
	c.rest(s)
}

func (c *conversion) step(name string, phases ...v1alpha1.LoadPhase) {
	for i := range c.load.Steps {
		if c.load.Steps[i].Name == name {
			name = nameOf(name, "", 50) + fmt.Sprintf("-%d", len(c.load.Steps)+1)
		}
	}
	if len(phases) > mostPhases {
		c.note("job %s: %d kinds of objects at a time are made at most: the last %d are left out", name, mostPhases, len(phases)-mostPhases)
		phases = phases[:mostPhases]
	}
	if len(phases) > 0 {
		c.load.Steps = append(c.load.Steps, v1alpha1.LoadStep{Name: name, Iterations: 1, Phases: phases})
	}
}

// create adds a step that makes the objects of all iterations, spread over the namespaces, and one for its churn.
func (c *conversion) create(name string, s settings) {
	iterations := max(s.number("jobIterations", 1, c), 1)
	objects := s.list("objects")
	tuning := c.rate(s, len(objects))
	wait := v1alpha1.LoadWaitReady
	podWait, _ := s.truth("podWait")
	if whenFinished, set := s.truth("waitWhenFinished"); set && !whenFinished && !podWait {
		wait = v1alpha1.LoadWaitNone
	}
	var phases, churned []v1alpha1.LoadPhase
	for _, object := range objects {
		replicas := max(object.number("replicas", 1, c), 1)
		if once, _ := object.truth("runOnce"); once {
			replicas /= iterations
		}
		all := math.Ceil(iterations * replicas)
		perNamespace := math.Ceil(all / float64(c.load.Namespaces))
		if exact := perNamespace * float64(c.load.Namespaces); exact != all {
			c.note("%s: %.0f objects do not spread evenly over %d namespaces: %.0f are made", object.path, all, c.load.Namespaces, exact)
		}
		if perNamespace > mostReplicas {
			c.note("%s: at most %d objects are made in a namespace", object.path, mostReplicas)
			perNamespace = mostReplicas
		}
		template, ok := c.template(object)
		if !ok {
			continue
		}
		made := v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Template: template, Replicas: int32(perNamespace), Tuning: tuning, Wait: wait}
		if waits, set := object.truth("wait"); set && !waits {
			made.Wait = v1alpha1.LoadWaitNone
		}
		phases = append(phases, made)
		if churn, set := object.truth("churn"); churn || !set {
			churned = append(churned, made)
		}
		c.rest(object)
	}
	c.step(name, phases...)
	c.churn(name, s, churned)
}

// churn adds a step that replaces objects, if the job has that.
func (c *conversion) churn(name string, s settings, phases []v1alpha1.LoadPhase) {
	inner := s.section("churnConfig")
	wanted := len(inner.left) > 0
	if old, _ := s.truth("churn"); old {
		wanted = true
	}
	for older, name := range map[string]string{"churnPercent": "percent", "churnDuration": "duration", "churnDelay": "delay", "churnCycles": "cycles", "churnDeletionStrategy": "mode"} {
		if value := s.take(older); value != nil {
			inner.left[name] = value
		}
	}
	percent, cycles := inner.number("percent", churnPercent, c), inner.number("cycles", 0, c)
	duration, delay := inner.duration("duration", c), inner.duration("delay", c)
	if mode := inner.text("mode"); wanted && mode != "" && mode != "objects" {
		c.note("%s: %q is not supported: objects are replaced, and not their namespaces", inner.at("mode"), mode)
	}
	if !wanted || len(phases) == 0 {
		return
	}
	switch {
	case duration == 0 && cycles > 0:
		duration = time.Duration(cycles) * max(delay, time.Minute)
		c.note("%s: a number of rounds is not supported: it goes on for %s", inner.at("cycles"), duration)
	case duration == 0:
		duration = churnDuration
	case cycles > 0:
		c.note("%s: not supported beside a duration", inner.at("cycles"))
	}
	if delay > 0 {
		c.note("%s: not supported: a round begins when the objects of the one before are there", inner.at("delay"))
	}
	for i := range phases {
		phases[i].Action, phases[i].Replicas, phases[i].ChurnPercent = v1alpha1.LoadChurn, 0, int32(min(max(percent, 1), 100))
		phases[i].Duration = &metav1.Duration{Duration: min(duration, 24*time.Hour)}
	}
	c.step(name+"-churn", phases...)
	c.rest(inner)
}

// others adds a step that deletes, patches or reads objects of earlier jobs, which are found by their kind.
func (c *conversion) others(name string, s settings, action v1alpha1.LoadAction) {
	iterations := max(s.number("jobIterations", 1, c), 1)
	objects := s.list("objects")
	tuning := c.rate(s, len(objects))
	waits, set := s.truth("waitForDeletion")
	s.take("waitWhenFinished")
	var phases []v1alpha1.LoadPhase
	taken := map[string]bool{}
	for _, object := range objects {
		kind := object.text("kind")
		object.take("apiVersion")
		if len(object.section("labelSelector").left) > 0 {
			c.note("%s: not supported: all objects of the kind %s that the test made are meant", object.at("labelSelector"), kind)
		}
		if action == v1alpha1.LoadPatch {
			c.note("%s: the patch of %q is not sent: an annotation is written", object.path, object.text("objectTemplate"))
			object.take("patchType")
		}
		replicas := max(object.number("replicas", 1, c), 1)
		found := false
		for _, template := range c.load.Templates {
			if c.kinds[template.Name] != kind {
				continue
			}
			found = true
			if taken[template.Name] {
				continue
			}
			taken[template.Name] = true
			phase := v1alpha1.LoadPhase{Action: action, Template: template.Name, Tuning: tuning, Wait: v1alpha1.LoadWaitNone}
			if action == v1alpha1.LoadDelete {
				if waits || !set {
					phase.Wait = v1alpha1.LoadWaitGone
				}
			} else {
				seconds := math.Ceil(iterations * replicas * c.made(template.Name) / float64(tuning.QPS))
				phase.Duration = &metav1.Duration{Duration: min(time.Duration(max(seconds, 1))*time.Second, 24*time.Hour)}
			}
			phases = append(phases, phase)
		}
		if !found {
			c.note("%s: no job before it makes objects of the kind %s: it is left out", object.path, kind)
		}
		c.rest(object)
	}
	c.step(name, phases...)
}

// made is how many objects of a template the steps so far make.
func (c *conversion) made(template string) float64 {
	count := int32(0)
	for _, step := range c.load.Steps {
		for _, phase := range step.Phases {
			if phase.Action == v1alpha1.LoadCreate && phase.Template == template {
				count += phase.Replicas * c.load.Namespaces
			}
		}
	}
	return float64(count)
}
