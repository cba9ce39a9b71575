package kubeburner

import (
	"slices"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// readCreate reads what a job makes.
func (c *conversion) readCreate(j *job, s settings) {
	j.qps = c.readRate(s)
	for _, object := range s.readList("objects") {
		j.documents = append(j.documents, c.readDocuments(j, object)...)
	}
	if len(j.documents) == 0 {
		c.addNote(LeftOut, s.path, "the job makes no objects")
	}
	podWait := s.readBool("podWait", false)
	j.waits = s.readBool("waitWhenFinished", true)
	switch {
	case c.waitAtEnd:
		j.waits = true
		c.addNote(Changed, "global.waitWhenFinished", "each job waits for its own objects, and not all of them at the end")
	case !j.waits && podWait:
		j.waits = true
		c.addNote(Changed, s.pathOf("podWait"), "the objects of all iterations are waited for together, and not those of each iteration before the next")
	}
	for _, watcher := range s.readList("watchers") {
		c.addNote(LeftOut, watcher.path, "a LoadTest makes no watches")
	}
	j.churned = c.readChurn(s)
}

// waitedFor are kinds of which a LoadTest waits until they are ready. Others are ready when they are there.
var waitedFor = []string{"Pod", "Deployment", "StatefulSet", "Job"}

// notWaitedFor are kinds of which kube-burner does.
var notWaitedFor = []string{
	"DaemonSet", "ReplicaSet", "ReplicationController", "PersistentVolumeClaim", "Build", "BuildConfig", "VirtualMachine", "VirtualMachineInstance",
	"VirtualMachineInstanceReplicaSet", "VolumeSnapshot", "DataVolume", "DataSource",
}

// convertCreation adds steps that make the objects of all iterations of a job, spread over the namespaces, and one for its churn.
func (c *conversion) convertCreation(j *job) {
	kept := slices.DeleteFunc(slices.Clone(j.documents), func(d *document) bool { return d.refused != "" })
	c.explainPlaces(j, kept)
	// What is waited for is made last: it may need the rest.
	slices.SortStableFunc(kept, func(a, b *document) int { return creationRank(a) - creationRank(b) })
	if steps := (len(kept) + mostPhases - 1) / mostPhases; steps > 1 {
		c.addNote(Changed, j.path, "%d kinds of objects are made in %d steps one after the other, because %d at most are made side by side", len(kept), steps, mostPhases)
	}
	for len(kept) > 0 {
		first := len(kept) % mostPhases
		if first == 0 {
			first = mostPhases
		}
		c.createStep(j, kept[:first])
		kept = kept[first:]
	}
	c.convertChurn(j)
}

func creationRank(d *document) int {
	if d.wait && slices.Contains(waitedFor, d.kind) {
		return 1
	}
	return 0
}

func (c *conversion) createStep(j *job, documents []*document) {
	var counts []int
	for _, d := range documents {
		counts = append(counts, d.countPerNamespace()*int(c.load.Namespaces))
	}
	tunings := c.shareRate(j.path, j.qps, counts)
	var phases []v1alpha1.LoadPhase
	for i, d := range documents {
		phase := v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Template: d.template, Replicas: int32(d.countPerNamespace()), Tuning: tunings[i], Wait: v1alpha1.LoadWaitNone}
		if j.waits && d.wait {
			phase.Wait = v1alpha1.LoadWaitReady
			if slices.Contains(notWaitedFor, d.kind) {
				c.addNote(Changed, d.path, "a LoadTest waits until each %s is there, and not until it is ready", d.kind)
			}
		}
		phases = append(phases, phase)
		d.step = len(c.load.Steps)
		c.spent += secondsToDuration(float64(counts[i]) / float64(tunings[i].QPS) / float64(len(documents)))
	}
	c.addStep(j.stepName, phases)
}

// byConsent are kinds that agents have a right to, and make only where the cluster's administrator has allowed it.
var byConsent = []string{"PersistentVolumeClaim", "HorizontalPodAutoscaler", "Ingress"}

// explainPlaces names how objects are spread in another way than kube-burner does.
func (c *conversion) explainPlaces(j *job, documents []*document) {
	n := int(c.load.Namespaces)
	iterations := j.perNamespace * n
	asked := (j.iterations + j.inEach - 1) / j.inEach
	switch {
	case asked > n && j.namespaced:
		c.addNote(Changed, j.path, "%d namespaces become %d, which is what a LoadTest has at most, with the objects of %d iterations in each", asked, n, j.perNamespace)
	case asked != n:
		c.addNote(Changed, j.path, "the objects of kube-burner's %d namespaces are spread over %d, because all steps of a LoadTest have the same namespaces", asked, n)
	case n > 1 && j.inEach > 1:
		c.addNote(Changed, j.path, "the namespaces are filled by turns, and not one after the other")
	}
	if iterations != j.iterations {
		c.addNote(Changed, j.pathOf("jobIterations"), "%d iterations do not spread evenly over %d namespaces: %d are made", j.iterations, n, iterations)
	}
	for _, d := range documents {
		if n > 1 && d.usesVariable("Iteration") {
			c.addNote(Changed, d.path, "{{.Iteration}} of %s counts from 0 in each namespace", d.file)
		}
		if d.scalarAt("metadata", "namespace") != nil {
			c.addNote(Changed, d.path, "metadata.namespace of %s is replaced: a load test makes objects in namespaces of its own only", d.file)
		}
		mayMake := rights()[d.groupResource()]
		if !mayMake {
			c.addNote(Needs, d.path, "the agent has no right to a %s of %s by config/rbac/agent-load-tests: see Rights in docs/load-tests.md", d.kind, d.apiVersion)
		}
		if !mayMake || slices.Contains(byConsent, d.kind) {
			c.addNote(Needs, d.path, "a %s may reach beyond the namespaces of a run: an administrator of each cluster has to allow it with loadTests.kinds of the agent's chart", d.kind)
		}
	}
}
