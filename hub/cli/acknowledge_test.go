package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// find plays the agent: it has found something about the hub, or nothing any more.
func (f *env) find(finding string) {
	f.T.Helper()
	cluster := f.cluster()
	before := cluster.DeepCopy()
	cluster.Status.UnacknowledgedHub = finding
	cluster.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ClusterAgentFrozenCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHubRestored,
		Message: "the hub has gone back in time", LastTransitionTime: metav1.Now(),
	}}
	f.Expect(f.Client.Status().Patch(f.T.Context(), cluster, client.MergeFrom(before))).To(Succeed())
}

func TestAcknowledgeIsForWhatTheAgentHasFound(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME --accept=now")
	f.fails(4, "needs no acknowledgement", "cluster acknowledge NAME --yes")
	f.find("0123456789ab")
	f.fails(2, "needs --yes", "cluster acknowledge NAME")
	f.Expect(f.cluster().Annotations).NotTo(HaveKey(v1alpha1.AcknowledgeHubAnnotation))

	r := f.hollow("cluster acknowledge NAME --yes --wait=false")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(MatchRegexp(`^cluster.hollowfleet.io/` + f.name + ` acknowledged by \S+ \(finding 0123456789ab\)\n$`))
	f.Expect(r.errOut).To(And(
		ContainSubstring("Finding 0123456789ab of the agent of cluster "+f.name+": HubRestored\n  the hub has gone back in time"),
		ContainSubstring("This hub has 0 Machines")))
	f.Expect(f.cluster().Annotations).To(And(
		HaveKeyWithValue(v1alpha1.AcknowledgeHubAnnotation, "0123456789ab"),
		HaveKeyWithValue(v1alpha1.AcknowledgeHubUserAnnotation, Not(BeEmpty()))))
}

func TestAcknowledgeTellsMoreWhenWide(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME --accept=now")
	f.find("1")
	f.Expect(f.succeeds("cluster acknowledge NAME --yes --wait=false -o wide")).NotTo(ContainSubstring("Acknowledged before"))
	f.find("2")
	f.Expect(f.succeeds("cluster acknowledge NAME --yes --wait=false -o wide")).To(MatchRegexp(`(?s)^\S+ acknowledged by admin \(finding 2\)
  Finding: +2
  Reason: +HubRestored
  Frozen since: +20\d\d-\S+Z
  Acknowledged by: +admin
  Acknowledged before: +1 by admin
  Agent frozen now: +True \(HubRestored\)
`))
}

func TestAcknowledgeWaitsForTheAgent(t *testing.T) {
	f := newEnv(t)
	f.succeeds("cluster join NAME --accept=now")
	f.find("1")
	late := f.hollow("cluster acknowledge NAME --yes --timeout 100ms")
	f.Expect(late.code).To(Equal(5))
	f.Expect(late.errOut).To(ContainSubstring("has not confirmed it within 100ms"))

	answers := func(finding string) <-chan struct{} {
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			g := NewWithT(t)
			g.Eventually(func() map[string]string { return f.cluster().Annotations }).WithTimeout(time.Minute).
				Should(HaveKeyWithValue(v1alpha1.AcknowledgeHubAnnotation, f.cluster().Status.UnacknowledgedHub))
			f.find(finding)
		}()
		return answered
	}
	f.find("2")
	answered := answers("")
	cluster := &v1alpha1.Cluster{}
	f.Expect(json.Unmarshal([]byte(f.succeeds("cluster ack NAME -y -o json")), cluster)).To(Succeed())
	<-answered
	f.Expect(cluster.Kind).To(Equal("Cluster"))
	f.Expect(cluster.Annotations).To(HaveKeyWithValue(v1alpha1.AcknowledgeHubAnnotation, "2"))
	f.Expect(cluster.Status.UnacknowledgedHub).To(BeEmpty())

	f.find("3")
	answered = answers("4")
	other := f.hollow("cluster acknowledge NAME --yes")
	<-answered
	f.Expect(other.code).To(Equal(4))
	f.Expect(other.errOut).To(ContainSubstring("has reported another finding in the meantime (4)"))
}

func TestAcknowledgeRefusesBadUsage(t *testing.T) {
	f := newEnv(t)
	f.fails(3, "does not exist", "cluster acknowledge NAME --yes")
	f.fails(2, "want exactly one name", "cluster acknowledge")
	f.succeeds("cluster join NAME")
	f.fails(2, "xml", "cluster acknowledge NAME --yes -o xml")
	f.Expect(f.completes("cluster acknowledge", "")).To(ContainElement(f.name))
}
