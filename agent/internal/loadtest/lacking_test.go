package loadtest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/template"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// workload is an object with a number of replicas, of which some exist.
func workload(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	NewWithT(t).Expect(o.UnmarshalJSON([]byte(text))).To(Succeed())
	return o
}

func TestPodsThatObjectsLack(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		pods   int64
		why    string
	}{
		"none of three":             {`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":3}}`, 3, ""},
		"one, which is the default": {`{"apiVersion":"apps/v1","kind":"StatefulSet"}`, 1, ""},
		"two of three, for a reason": {`{"apiVersion":"apps/v1","kind":"ReplicaSet","spec":{"replicas":3},"status":{"replicas":1,"conditions":[` +
			`{"type":"Available","status":"True","message":"x"},{"type":"ReplicaFailure","status":"True","message":"exceeded quota"}]}}`, 2, "exceeded quota"},
		"a reason of before":      {`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":1},"status":{"replicas":1,"conditions":[{"type":"ReplicaFailure","status":"False","message":"x"}]}}`, 0, ""},
		"more than it asks for":   {`{"apiVersion":"v1","kind":"ReplicationController","spec":{"replicas":1},"status":{"replicas":2}}`, 0, ""},
		"none is asked for":       {`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":0}}`, 0, ""},
		"it is paused":            {`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":3,"paused":true}}`, 0, ""},
		"Nodes without a pod":     {`{"apiVersion":"apps/v1","kind":"DaemonSet","status":{"desiredNumberScheduled":5,"currentNumberScheduled":2}}`, 3, ""},
		"a DaemonSet without one": {`{"apiVersion":"apps/v1","kind":"DaemonSet"}`, 0, ""},
		"another kind":            {`{"apiVersion":"example.com/v1","kind":"Deployment","spec":{"replicas":3}}`, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object := workload(t, c.object)
			kind := object.GroupVersionKind().GroupKind()
			pods, why := countLacking(kind, object)
			g.Expect([]any{pods, why}).To(Equal([]any{c.pods, c.why}))
			small, err := shrinkObject(object)
			g.Expect(err).NotTo(HaveOccurred())
			pods, why = countLacking(kind, small.(*unstructured.Unstructured))
			g.Expect([]any{pods, why}).To(Equal([]any{c.pods, c.why}), "the watch keeps what says so")
		})
	}
}

// A quota that refuses 8 of 10 pods of a Deployment leaves two fast pods, and they are not all.
// Claim: Pods that were never created count as never Ready. Broken: no lack is recorded; what was deleted is forgotten; the watch is not asked. Also: TestPodsThatObjectsLack, TestPodsOfADeploymentThatAQuotaRefusesAreUnready, TestShortfalls.
// Edge case: A run passed with two of ten pods of a Deployment.
func TestPodsThatWereNeverCreatedMeetNoThreshold(t *testing.T) {
	g := NewWithT(t)
	at := func(second int) time.Time { return time.Unix(1000+int64(second), 0) }
	e := &engine{book: newBook(), recorder: newRecorder()}
	e.pods, e.nodes = newPodTracker("run", e.recorder.recordTime), newNodeTracker(e.recorder.recordTime)
	template := &template.Template{Name: "t"}
	template.Kind.Group, template.Kind.Kind = deploymentKind.Group, deploymentKind.Kind
	add := func(second int, pods int64) *object {
		o := e.book.registerObject(template, "a", false)
		e.book.noteLack(o.placeOf(), pods, "", at(second))
		e.book.markCreated(o, at(second))
		return o
	}
	short, whole, deleted, young := add(0, 10), add(0, 5), add(0, 3), add(11, 2)
	e.book.noteLack(short.placeOf(), 9, "", at(1))
	e.book.noteLack(short.placeOf(), 8, "exceeded quota", at(2))
	e.book.noteLack(whole.placeOf(), 0, "", at(1))
	_, was := e.book.markDeleting(deleted, at(12))
	g.Expect(was).To(BeTrue())
	e.book.removeObject(deleted.placeOf())
	refused := e.book.registerObject(template, "a", false) // Its creation was not answered.
	e.book.noteLack(refused.placeOf(), 100, "", at(0))
	for _, name := range []string{"x", "y"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(at(0))}, Spec: corev1.PodSpec{NodeName: "n"}}
		e.pods.observePod(pod, at(0), 0)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(1))}}
		e.pods.observePod(pod, at(1), 0)
	}
	within := []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP50, Max: &metav1.Duration{Duration: time.Minute}}}
	g.Expect(e.recorder.evaluateThresholds(within)).To(ConsistOf(HaveField("Met", true)), "while the run continues, they may still come")
	e.recordUnfinished(nil, at(15))
	g.Expect(e.recorder.evaluateThresholds(within)).To(ConsistOf(And(HaveField("Met", false), HaveField("Count", BeEquivalentTo(15)), HaveField("Unfinished", BeEquivalentTo(13)))))
	g.Expect(e.recorder.measured[measure.Key{Measurement: v1alpha1.LoadPodReady, Unfinished: true}].Max()).To(BeNumerically("~", (15 * time.Second).Microseconds(), 20_000))
	g.Expect(e.pods.unreadyReasons()).To(ConsistOf(And(HaveField("Reason", notCreated), HaveField("Count", BeEquivalentTo(13)))))
	_, lacking := e.pods.countStuck()
	g.Expect(lacking).To(BeEquivalentTo(11), "those of %s have been missing for 4s only", young.name)
}

// A quota refuses four of six pods of a Deployment, whose own creation succeeds.
func TestPodsOfADeploymentThatAQuotaRefusesAreUnready(t *testing.T) {
	b := newEnv(t)
	object := "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 6\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n" +
		"    spec: {containers: [{name: c, image: x}]}\n"
	run := b.create("lacking", object, func(spec *v1alpha1.LoadTestRunSpec) { spec.WithStartTime = true },
		[]v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: "thing", Replicas: 1, Tuning: v1alpha1.LoadTuning{QPS: 100}}}, waits(neverReadyAfter+2*time.Second))
	b.reaches(run, v1alpha1.LoadTestRunPhasePrepared)
	b.limit(run, "count/pods", "2")
	b.begin(run)
	status := b.over(run)
	b.Expect(measuredIn(status, v1alpha1.LoadPodReady, "")).To(BeEquivalentTo(6), status.Message)
	b.Expect(status.Progress.PodsCreated).To(BeEquivalentTo(2))
	b.Expect(status.Unready).To(ContainElement(And(HaveField("Reason", notCreated), HaveField("Count", BeEquivalentTo(4)), HaveField("Message", ContainSubstring("exceeded quota")))))
	b.Expect(status.Shortfalls).To(ConsistOf(ContainSubstring("6 of 6 pods were never Ready in 10s or more")))
	b.Expect(status.Verdict).To(BeElementOf(v1alpha1.LoadMissed, v1alpha1.LoadInvalid))
}

// What somebody else removed answers fast, and is no load.
// Claim: Objects that vanish during a run are named. Broken: a phase asks for them again and again.
// Edge case: A run passed whose objects had been deleted by somebody else.
func TestObjectsThatVanishAreNotReadAgain(t *testing.T) {
	t.Parallel()
	for _, action := range []v1alpha1.LoadAction{v1alpha1.LoadGet, v1alpha1.LoadPatch} {
		t.Run(string(action), func(t *testing.T) {
			b := newEnv(t)
			b.stop()
			var once sync.Once
			b.refuse = func(request *http.Request) bool {
				if path := request.URL.Path; request.Method != http.MethodPost && strings.Contains(path, "/load-") && strings.Contains(path, "/configmaps/thing-") {
					once.Do(func() {
						namespace := strings.Split(path, "/")[4]
						if err := b.admin.DeleteAllOf(context.Background(), &corev1.ConfigMap{}, client.InNamespace(namespace)); err != nil {
							t.Error(err)
						}
					})
				}
				return false
			}
			b.start()
			status := b.over(b.create("vanished", configMap, nil, creates(3), []v1alpha1.LoadPhase{repeats(action, 2*time.Second)}))
			b.Expect(status.Shortfalls).To(ConsistOf(ContainSubstring("requests were not made, because there was no object for them")), status.Message)
			b.Expect(status.Progress.Skipped).To(BeNumerically(">", 20))
			b.Expect(status.Verdict).To(BeElementOf(v1alpha1.LoadMissed, v1alpha1.LoadInvalid))
		})
	}
}
