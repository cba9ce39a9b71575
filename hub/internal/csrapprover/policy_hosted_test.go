package csrapprover

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

// forB is the request of the agent of a for the agent of the simulated cluster b, changed.
func forB(change func(*ask)) ask {
	made := ask{
		name: "hollowfleet-agent-a.b", user: agentA, groups: []string{groupA, "system:authenticated"},
		template: x509.CertificateRequest{Subject: subject("b")},
	}
	if change != nil {
		change(&made)
	}
	return made
}

// simulatedB is what the hub has when a hosts the simulated cluster b, changed.
func simulatedB(change func(*Objects)) Objects {
	objects := Objects{
		Host:   accepted(),
		Hosted: &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "1"}},
	}
	objects.Cluster = accepted()
	objects.Cluster.Name, objects.Cluster.Annotations = "b", map[string]string{v1alpha1.SimulatedClusterAnnotation: "a/1"}
	if change != nil {
		change(&objects)
	}
	return objects
}

func TestAHostsAgentGetsTheCertificateOfWhatItHosts(t *testing.T) {
	g := NewWithT(t)
	decision := Decide(forB(nil).csr(), simulatedB(nil))
	g.Expect(decision.Verdict).To(Equal(Approve), decision.Message)
	g.Expect(decision.Reason).To(Equal(ReasonHosted))
	g.Expect(decision.Cluster).To(Equal("b"))
	g.Expect(decision.Message).To(ContainSubstring("Cluster a"))
}

// TestAHostsAgentGetsNoOtherCertificate has a host's agent, as stolen as may be, ask for more than the first certificate of what the
// hub made for its SimulatedClusters.
// Claim: A host's agent asks only for what it hosts. Broken: the proof in the Cluster is not compared; the requester is compared by prefix.
func TestAHostsAgentGetsNoOtherCertificate(t *testing.T) {
	for name, test := range map[string]struct {
		change        func(*ask)
		reason, names string
	}{
		"of a longer host":                     {func(a *ask) { a.user, a.groups = agentA+"b", []string{groupA + "b"} }, ReasonWrongRequester, "is not the agent of Cluster a"},
		"by a longer name":                     {func(a *ask) { a.name = "hollowfleet-agent-ab.b" }, ReasonWrongRequester, "is not the agent of Cluster ab"},
		"of a host with the group of a longer": {func(a *ask) { a.groups = []string{groupA + "b"} }, ReasonWrongRequester, "is an agent of ab,"},
		"with another agent's group too":       {func(a *ask) { a.groups = append(a.groups, v1alpha1.AgentGroupPrefix+"b") }, ReasonWrongRequester, "is an agent of a, b,"},
		"with the group of a join token too":   {func(a *ask) { a.groups = append(a.groups, joinA) }, ReasonWrongRequester, "not of Cluster a only"},
		"without a group":                      {func(a *ask) { a.groups = []string{"system:authenticated"} }, ReasonWrongRequester, "is an agent of no cluster,"},
		"of the simulated cluster itself": {func(a *ask) {
			a.user, a.groups = v1alpha1.AgentUserPrefix+"b", []string{v1alpha1.AgentGroupPrefix + "b"}
		}, ReasonWrongRequester, "is not the agent of Cluster a"},
		"with a join token of the host":             {func(a *ask) { a.user, a.groups = token, []string{joinA} }, ReasonWrongRequester, "is not the agent of Cluster a"},
		"with a join token of the cluster":          {func(a *ask) { a.user, a.groups = token, []string{v1alpha1.JoinGroupPrefix + "b"} }, ReasonWrongRequester, "is not the agent of Cluster a"},
		"with a token of a ServiceAccount":          {func(a *ask) { a.user, a.groups = "system:serviceaccount:a:hollowfleet-agent", nil }, ReasonWrongRequester, "spec.credential Certificate"},
		"of a person":                               {func(a *ask) { a.user, a.groups = "jane", []string{groupA} }, ReasonWrongRequester, `"jane"`},
		"for its own identity":                      {func(a *ask) { a.template.Subject = subject("a") }, ReasonWrongSubject, `want exactly "hollowfleet.io:agent:b"`},
		"for a longer cluster's":                    {func(a *ask) { a.template.Subject = subject("bb") }, ReasonWrongSubject, "common name"},
		"for another organization":                  {func(a *ask) { a.template.Subject.Organization = []string{"system:masters"} }, ReasonWrongSubject, "organizations"},
		"for its own organization too":              {func(a *ask) { a.template.Subject.Organization = append(a.template.Subject.Organization, groupA) }, ReasonWrongSubject, "organizations"},
		"for a server":                              {func(a *ask) { a.template.DNSNames = []string{"hub.example"} }, ReasonExtensions, "hub.example"},
		"for two years":                             {func(a *ask) { a.expiration = new(int32(2 * 31536000)) }, ReasonWrongExpiration, "spec.expirationSeconds"},
		"for no use":                                {func(a *ask) { a.withoutUsages = true }, ReasonWrongUsages, "missing"},
		"by a name with two dots":                   {func(a *ask) { a.name = "hollowfleet-agent-a.b.c" }, ReasonWrongName, "metadata.name"},
		"by a name with two dots in a row":          {func(a *ask) { a.name = "hollowfleet-agent-a..b" }, ReasonWrongName, "metadata.name"},
		"by a name without a host":                  {func(a *ask) { a.name = "hollowfleet-agent-.b" }, ReasonWrongName, "metadata.name"},
		"by a name without a cluster":               {func(a *ask) { a.name = "hollowfleet-agent-a." }, ReasonWrongName, "metadata.name"},
		"by the name of the cluster's own":          {func(a *ask) { a.name = "hollowfleet-agent-b" }, ReasonWrongRequester, "neither a join token nor the agent of Cluster b"},
		"by its own name":                           {func(a *ask) { a.name = "hollowfleet-agent-a" }, ReasonWrongSubject, `want exactly "hollowfleet.io:agent:a"`},
		"by the name with host and cluster swapped": {func(a *ask) { a.name = "hollowfleet-agent-b.a" }, ReasonWrongSubject, `want exactly "hollowfleet.io:agent:a"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			// Whatever is wrong stays wrong when there is nothing yet.
			for _, objects := range []Objects{simulatedB(nil), {}} {
				decision := Decide(forB(test.change).csr(), objects)
				g.Expect(decision.Verdict).To(Equal(Deny), decision.Message)
				g.Expect(decision.Reason).To(Equal(test.reason), decision.Message)
				g.Expect(decision.Message).To(ContainSubstring(test.names))
			}
		})
	}
}

func TestWhatTheHubHasMadeHasTheLastWord(t *testing.T) {
	gone := &metav1.Time{Time: time.Unix(1, 0)}
	proof := func(value string) func(*Objects) {
		return func(o *Objects) { o.Cluster.Annotations[v1alpha1.SimulatedClusterAnnotation] = value }
	}
	for name, test := range map[string]struct {
		change  func(*Objects)
		verdict Verdict
		reason  string
		names   string
	}{
		"no SimulatedCluster and no Cluster":    {func(o *Objects) { o.Hosted, o.Cluster = nil, nil }, Wait, ReasonSimulatedNotFound, "a/b"},
		"the SimulatedCluster is seen later":    {func(o *Objects) { o.Hosted = nil }, Wait, ReasonSimulatedNotFound, "a/b"},
		"the Cluster is not made yet":           {func(o *Objects) { o.Cluster = nil }, Wait, ReasonClusterNotFound, `"b"`},
		"the host is seen later":                {func(o *Objects) { o.Host = nil }, Wait, ReasonClusterNotFound, `"a"`},
		"a real Cluster":                        {func(o *Objects) { o.Hosted, o.Cluster.Annotations = nil, nil }, Deny, ReasonNotHosted, "not one that Cluster a hosts"},
		"a real Cluster, of a taken name":       {func(o *Objects) { o.Cluster.Annotations = nil }, Deny, ReasonNotHosted, `not "a/1"`},
		"another host's":                        {func(o *Objects) { o.Hosted = nil; proof("ab/1")(o) }, Deny, ReasonNotHosted, "not one that Cluster a hosts"},
		"another host's, of a taken name":       {proof("ab/1"), Deny, ReasonNotHosted, `is "ab/1", not "a/1"`},
		"a copy of the SimulatedCluster":        {func(o *Objects) { o.Hosted.UID = "2" }, Deny, ReasonNotHosted, `is "a/1", not "a/2"`},
		"a proof that only starts so":           {proof("a/12"), Deny, ReasonNotHosted, `is "a/12"`},
		"a proof without a UID":                 {proof("a/"), Deny, ReasonNotHosted, `is "a/"`},
		"another SimulatedCluster by a mistake": {func(o *Objects) { o.Hosted.Name = "bb" }, Wait, ReasonSimulatedNotFound, "a/b"},
		"one of another namespace by a mistake": {func(o *Objects) { o.Hosted.Namespace = "ab" }, Wait, ReasonSimulatedNotFound, "a/b"},
		"another Cluster by a mistake":          {func(o *Objects) { o.Cluster.Name = "bb" }, Wait, ReasonClusterNotFound, `"b"`},
		"another host by a mistake":             {func(o *Objects) { o.Host.Name = "ab" }, Wait, ReasonClusterNotFound, `"a"`},
		"the SimulatedCluster is being removed": {func(o *Objects) { o.Hosted.DeletionTimestamp = gone }, Deny, ReasonClusterDeleting, "SimulatedCluster a/b"},
		"the Cluster is being removed":          {func(o *Objects) { o.Cluster.DeletionTimestamp = gone }, Deny, ReasonClusterDeleting, "Cluster b"},
		"the Cluster leaves":                    {func(o *Objects) { o.Cluster.Annotations[v1alpha1.LeavingAnnotation] = "x" }, Deny, ReasonClusterDeleting, "Cluster b"},
		"the Cluster is denied":                 {func(o *Objects) { o.Cluster.Spec.Acceptance = v1alpha1.AcceptanceDenied }, Deny, ReasonClusterDenied, "Cluster b"},
		"the Cluster is not accepted yet":       {func(o *Objects) { o.Cluster.Spec.Acceptance = v1alpha1.AcceptancePending }, Wait, ReasonAwaitingAcceptance, "Cluster b"},
		"the host is being removed":             {func(o *Objects) { o.Host.DeletionTimestamp = gone }, Deny, ReasonClusterDeleting, "Cluster a"},
		"the host is denied":                    {func(o *Objects) { o.Host.Spec.Acceptance = v1alpha1.AcceptanceDenied }, Deny, ReasonClusterDenied, "Cluster a"},
		"the host is not accepted yet":          {func(o *Objects) { o.Host.Spec.Acceptance = v1alpha1.AcceptancePending }, Wait, ReasonAwaitingAcceptance, "Cluster a"},
		"the host is simulated itself": {func(o *Objects) {
			o.Host.Annotations = map[string]string{v1alpha1.SimulatedClusterAnnotation: "c/3"}
		}, Deny, ReasonHostSimulated, "Cluster a"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			decision := Decide(forB(nil).csr(), simulatedB(test.change))
			g.Expect(decision.Verdict).To(Equal(test.verdict), decision.Message)
			g.Expect(decision.Reason).To(Equal(test.reason), decision.Message)
			g.Expect(decision.Message).To(ContainSubstring(test.names))
		})
	}
}

// A join of a simulated cluster is one like any other: its key is recorded, and a second one is told. But no token is spent by it.
func TestAHostedJoinCountsAsOne(t *testing.T) {
	g := NewWithT(t)
	objects := simulatedB(nil)
	decision := Decide(forB(nil).csr(), objects)
	g.Expect(approvesJoin(decision)).To(BeTrue())
	g.Expect(JoinsAgain(decision, objects.Cluster, "1")).To(BeFalse())
	objects.Cluster.Status.JoinKey = "1"
	g.Expect(JoinsAgain(decision, objects.Cluster, "1")).To(BeFalse(), "the same key")
	g.Expect(JoinsAgain(decision, objects.Cluster, "2")).To(BeTrue())
	_, spent := SpentToken(forB(func(a *ask) { a.user = token }).csr(), objects.Cluster)
	g.Expect(spent).To(BeFalse())
}

// However the names are put together, a host's request is approved only if name, requester, host, SimulatedCluster, proof and identity
// agree.
func TestOnlyOneHostAndOneClusterAreEverNamed(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "ab", "b", "a-b", "a.b", ""})
	rapid.Check(t, func(t *rapid.T) {
		host, name := names.Draw(t, "host"), names.Draw(t, "name")
		// Mostly all agree, else none would ever be right.
		draw := func(label, right string) string {
			if rapid.IntRange(0, 7).Draw(t, label+" is right") > 0 {
				return right
			}
			return names.Draw(t, label)
		}
		identity, who, group, hostObject := draw("identity", name), draw("who", host), draw("group", host), draw("hostObject", host)
		namespace, hosted, cluster, proof := draw("namespace", host), draw("hosted", name), draw("cluster", name), draw("proof", host)
		made := forB(func(a *ask) {
			a.name = certrequest.NameOfHostedAgent(host, name)
			a.template.Subject = pkix.Name{CommonName: v1alpha1.AgentUserPrefix + identity, Organization: []string{v1alpha1.AgentGroupPrefix + identity}}
			a.user, a.groups = v1alpha1.AgentUserPrefix+who, []string{v1alpha1.AgentGroupPrefix + group}
		})
		decision := Decide(made.csr(), simulatedB(func(o *Objects) {
			o.Host.Name, o.Hosted.Namespace, o.Hosted.Name, o.Cluster.Name = hostObject, namespace, hosted, cluster
			o.Cluster.Annotations[v1alpha1.SimulatedClusterAnnotation] = proof + "/1"
		}))
		agree := host == who && host == group && host == hostObject && host == namespace && host == proof && name == identity && name == hosted && name == cluster &&
			host != "" && name != "" && !strings.Contains(host+name, ".")
		if (decision.Verdict == Approve) != agree {
			t.Fatalf("%s: %+v", made.name, decision)
		}
	})
}
