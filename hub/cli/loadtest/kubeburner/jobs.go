package kubeburner

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// job is one job of a configuration.
type job struct {
	path, name, kind, stepName string
	// namespace is the beginning of the names of its namespaces.
	namespace string
	// In kube-burner there are inEach of the iterations in each namespace; in the LoadTest there are perNamespace.
	iterations, inEach, perNamespace int
	namespaced                       bool
	qps                              float64
	waits                            bool
	pause                            time.Duration
	churned                          *churning
	documents                        []*document
	action                           v1alpha1.LoadAction
	selections                       []selection
}

// actions are those of the types of jobs that use objects of earlier ones.
var actions = map[string]v1alpha1.LoadAction{"delete": v1alpha1.LoadDelete, "patch": v1alpha1.LoadPatch, "read": v1alpha1.LoadGet}

// newJob reads what decides how many namespaces there are.
func newJob(number int, s settings) *job {
	j := &job{path: s.path, name: s.readText("name"), kind: s.readText("jobType"), namespace: s.readText("namespace")}
	if j.kind == "" {
		j.kind = "create"
	}
	j.stepName = nameOf(j.name, fmt.Sprintf("job-%d", number+1), mostName-2)
	j.action = actions[j.kind]
	j.iterations = s.readCount("jobIterations", 1)
	if j.iterations < 1 {
		s.c.addNote(LeftOut, s.path, "jobIterations: %d: kube-burner refuses the job too", j.iterations)
		j.kind, j.action = "", ""
	}
	j.namespaced = s.readBool("namespacedIterations", true)
	j.inEach = max(s.readCount("iterationsPerNamespace", 1), 1)
	if !j.namespaced {
		j.inEach = max(j.iterations, 1)
	}
	return j
}

// spreadNamespaces decides how many namespaces there are, as many as the job has that has most: they are the same for all steps.
func (c *conversion) spreadNamespaces() {
	for _, j := range c.jobs {
		if j.kind == "create" {
			c.load.Namespaces = max(c.load.Namespaces, int32(min((j.iterations+j.inEach-1)/j.inEach, mostNamespaces)))
		}
	}
	for _, j := range c.jobs {
		n := int(c.load.Namespaces)
		j.perNamespace = (j.iterations + n - 1) / n
	}
}

// readJob reads the rest of a job.
func (c *conversion) readJob(j *job, s settings) {
	// A LoadTest makes namespaces of its own, which are empty before, and takes no notice of who made what.
	s.takeValue("cleanup")
	s.takeValue("preCreateNamespaces")
	if verifies, fails := s.readBool("verifyObjects", true), s.readBool("errorOnVerify", true); !verifies || !fails {
		c.verifies = false
	}
	if s.readBool("gc", false) {
		c.addNote(Changed, s.pathOf("gc"), "what the job makes is removed when the whole test is over, and not when the job is")
	}
	if j.pause = s.readDuration("jobPause"); j.pause > mostDuration {
		c.addNote(Changed, s.pathOf("jobPause"), "%s becomes %s, which is the longest of a LoadTest", j.pause, mostDuration)
		j.pause = mostDuration
	}
	switch {
	case j.kind == "create":
		c.readCreate(j, s)
	case j.action != "":
		c.readChange(j, s)
	case j.kind != "":
		c.addNote(LeftOut, j.path, "jobs of the type %q are not supported", j.kind)
		return
	default:
		return
	}
	s.nameRest()
}

// addSteps adds the steps of a job.
func (c *conversion) addSteps(j *job) {
	switch {
	case j.kind == "create":
		c.convertCreation(j)
	case j.action != "":
		c.convertChanges(j)
	}
	if j.pause > 0 {
		c.spent += j.pause
		c.addStep(j.stepName+"-pause", []v1alpha1.LoadPhase{{Action: v1alpha1.LoadWait, Duration: &metav1.Duration{Duration: j.pause}}})
	}
}

func (c *conversion) addStep(name string, phases []v1alpha1.LoadPhase) {
	if len(phases) == 0 {
		return
	}
	taken := map[string]bool{}
	for _, step := range c.load.Steps {
		taken[step.Name] = true
	}
	unique := name
	for number := 2; taken[unique]; number++ {
		unique = fmt.Sprintf("%s-%d", name, number)
	}
	c.load.Steps = append(c.load.Steps, v1alpha1.LoadStep{Name: unique, Iterations: 1, Phases: phases})
}
