package csrapprover

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

// ask is a request as it is made; the zero value of a field is what is right for cluster a.
type ask struct {
	name, signer    string
	template        x509.CertificateRequest
	key             crypto.Signer
	encode          func(der []byte) []byte
	usages          []certificatesv1.KeyUsage
	expiration      *int32
	user            string
	groups          []string
	conditions      []certificatesv1.CertificateSigningRequestCondition
	withoutUsages   bool
	withoutLifetime bool
}

var (
	goodKey = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	anHour  = int32(3600)
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func inPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func subject(cluster string) pkix.Name {
	return pkix.Name{CommonName: v1alpha1.AgentUserPrefix + cluster, Organization: []string{v1alpha1.AgentGroupPrefix + cluster}}
}

func (a ask) csr() *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "hollowfleet-agent-a"}}
	if a.name != "" {
		csr.Name = a.name
	}
	csr.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
	if a.signer != "" {
		csr.Spec.SignerName = a.signer
	}
	if a.template.Subject.String() == "" {
		a.template.Subject = subject("a")
	}
	if a.key == nil {
		a.key = goodKey
	}
	if a.encode == nil {
		a.encode = inPEM
	}
	csr.Spec.Request = a.encode(must(x509.CreateCertificateRequest(rand.Reader, &a.template, a.key)))
	csr.Spec.Usages = a.usages
	if a.usages == nil && !a.withoutUsages {
		csr.Spec.Usages = certrequest.RequiredUsages
	}
	csr.Spec.ExpirationSeconds = a.expiration
	if a.expiration == nil && !a.withoutLifetime {
		csr.Spec.ExpirationSeconds = &anHour
	}
	csr.Spec.Username, csr.Spec.Groups = a.user, a.groups
	if a.user == "" {
		csr.Spec.Username = "system:bootstrap:abc123"
	}
	if a.groups == nil {
		csr.Spec.Groups = []string{"system:bootstrappers", v1alpha1.JoinGroupPrefix + "a", "system:authenticated"}
	}
	csr.Status.Conditions = a.conditions
	return csr
}

func clusterA(acceptance v1alpha1.Acceptance, policy v1alpha1.AcceptancePolicy) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.ClusterSpec{Acceptance: acceptance, AcceptancePolicy: policy}}
}

func accepted() *v1alpha1.Cluster {
	return clusterA(v1alpha1.AcceptanceAccepted, v1alpha1.AcceptanceManual)
}

func named(cn string, organizations ...string) ask {
	return ask{template: x509.CertificateRequest{Subject: pkix.Name{CommonName: cn, Organization: organizations}}}
}

func extension(id asn1.ObjectIdentifier, value []byte) ask {
	return ask{template: x509.CertificateRequest{ExtraExtensions: []pkix.Extension{{Id: id, Value: value}}}}
}

func requests(user string, groups ...string) ask { return ask{user: user, groups: groups} }

const (
	agentA, groupA, joinA = v1alpha1.AgentUserPrefix + "a", v1alpha1.AgentGroupPrefix + "a", v1alpha1.JoinGroupPrefix + "a"
	token                 = "system:bootstrap:abc123"
)

func TestWhatIsRightIsApproved(t *testing.T) {
	requests := map[string]struct {
		ask    ask
		reason string
	}{
		"a join token of the cluster":             {ask{}, ReasonJoined},
		"a join token, its group told twice":      {requests(token, joinA, joinA), ReasonJoined},
		"the agent itself":                        {requests(agentA, groupA, "system:authenticated"), ReasonRenewed},
		"usages with key encipherment":            {ask{usages: certrequest.AllowedUsages}, ReasonJoined},
		"the shortest lifetime":                   {ask{expiration: new(int32(600))}, ReasonJoined},
		"the longest lifetime":                    {ask{expiration: new(int32(2592000))}, ReasonJoined},
		"a key on P-384":                          {ask{key: must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))}, ReasonJoined},
		"an RSA key of 3072 bits":                 {ask{key: must(rsa.GenerateKey(rand.Reader, 3072))}, ReasonJoined},
		"an Ed25519 key":                          {ask{key: ed25519.NewKeyFromSeed(make([]byte, 32))}, ReasonJoined},
		"white space around the one PEM block":    {ask{encode: func(der []byte) []byte { return append([]byte("\n \n"), append(inPEM(der), "\n\n"...)...) }}, ReasonJoined},
		"a group that has nothing to do with us":  {requests(token, joinA, "system:bootstrappers:kubeadm:default-node-token"), ReasonJoined},
		"a group that only sounds like one of us": {requests(agentA, groupA, "hollowfleet.io:clusters:b"), ReasonRenewed},
	}
	for name, test := range requests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			decision := Decide(test.ask.csr(), Objects{Cluster: accepted()})
			g.Expect(decision.Verdict).To(Equal(Approve), decision.Message)
			g.Expect(decision.Reason).To(Equal(test.reason))
			g.Expect(decision.Cluster).To(Equal("a"))
		})
	}
}

func TestWhatCanNeverBeRightIsDenied(t *testing.T) {
	tests := map[string]struct {
		ask ask
		// names is what the message must name.
		reason, names string
	}{
		"the name of another cluster":               {ask{name: "hollowfleet-agent-ab"}, ReasonWrongSubject, `want exactly "hollowfleet.io:agent:ab"`},
		"a name that no Cluster can have":           {ask{name: "hollowfleet-agent-a_b"}, ReasonWrongName, "metadata.name"},
		"a name without a cluster":                  {ask{name: "hollowfleet-agent-"}, ReasonWrongName, "metadata.name"},
		"common name of a longer cluster":           {named(agentA+"b", groupA), ReasonWrongSubject, "common name"},
		"common name with a colon and more":         {named(agentA+":x", groupA), ReasonWrongSubject, "common name"},
		"common name with a space behind":           {named(agentA+" ", groupA), ReasonWrongSubject, "common name"},
		"common name with a zero byte behind":       {named(agentA+"\x00", groupA), ReasonWrongSubject, "common name"},
		"common name in capitals":                   {named(strings.ToUpper(agentA), groupA), ReasonWrongSubject, "common name"},
		"common name of an administrator":           {named("kubernetes-admin", groupA), ReasonWrongSubject, "common name"},
		"no common name":                            {named("", groupA), ReasonWrongSubject, "common name"},
		"organization of a longer cluster":          {named(agentA, groupA+"b"), ReasonWrongSubject, "organizations"},
		"organization system:masters":               {named(agentA, "system:masters"), ReasonWrongSubject, "organizations"},
		"another organization beside the right one": {named(agentA, groupA, "system:masters"), ReasonWrongSubject, "organizations"},
		"the organization of another cluster too":   {named(agentA, groupA, v1alpha1.AgentGroupPrefix+"b"), ReasonWrongSubject, "organizations"},
		"the same organization twice":               {named(agentA, groupA, groupA), ReasonWrongSubject, "organizations"},
		"no organization":                           {named(agentA), ReasonWrongSubject, "organizations"},
		"an attribute beside name and organization": {ask{template: x509.CertificateRequest{Subject: pkix.Name{
			CommonName: agentA, Organization: []string{groupA}, OrganizationalUnit: []string{"x"}}}}, ReasonWrongSubject, "3 attributes"},
		"an attribute that Go has no field for": {ask{template: x509.CertificateRequest{Subject: pkix.Name{
			CommonName: agentA, Organization: []string{groupA},
			ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, Value: "root"}}}}},
			ReasonWrongSubject, "3 attributes"},

		"a DNS name":       {ask{template: x509.CertificateRequest{DNSNames: []string{"hub.example"}}}, ReasonExtensions, "hub.example"},
		"an IP address":    {ask{template: x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}}}, ReasonExtensions, "10.0.0.1"},
		"a URI":            {ask{template: x509.CertificateRequest{URIs: []*url.URL{must(url.Parse("spiffe://x/y"))}}}, ReasonExtensions, "spiffe://x/y"},
		"an email address": {ask{template: x509.CertificateRequest{EmailAddresses: []string{"a@b.example"}}}, ReasonExtensions, "a@b.example"},
		"an alternative name of a kind that Go does not know": {extension(asn1.ObjectIdentifier{2, 5, 29, 17},
			must(asn1.Marshal([]asn1.RawValue{{Class: 2, Tag: 8, Bytes: []byte{6, 1, 42}}}))), ReasonExtensions, "2.5.29.17"},
		"the extension of a certificate authority": {extension(asn1.ObjectIdentifier{2, 5, 29, 19}, []byte{0x30, 3, 1, 1, 0xff}), ReasonExtensions, "2.5.29.19"},
		"an unknown extension":                     {extension(asn1.ObjectIdentifier{1, 2, 3, 4}, []byte{5, 0}), ReasonExtensions, "1.2.3.4"},

		"an RSA key of 2048 bits": {ask{key: must(rsa.GenerateKey(rand.Reader, 2048))}, ReasonWeakKey, "2048"},
		"a key on P-224":          {ask{key: must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))}, ReasonWeakKey, "224"},

		"no usages":             {ask{withoutUsages: true}, ReasonWrongUsages, "missing"},
		"no client auth":        {ask{usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature}}, ReasonWrongUsages, `"client auth" is missing`},
		"no digital signature":  {ask{usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}}, ReasonWrongUsages, `"digital signature" is missing`},
		"server auth too":       {ask{usages: append([]certificatesv1.KeyUsage{certificatesv1.UsageServerAuth}, certrequest.RequiredUsages...)}, ReasonWrongUsages, "server auth"},
		"any usage":             {ask{usages: []certificatesv1.KeyUsage{certificatesv1.UsageAny}}, ReasonWrongUsages, `"any"`},
		"no lifetime":           {ask{withoutLifetime: true}, ReasonWrongExpiration, "is missing"},
		"a lifetime too short":  {ask{expiration: new(int32(599))}, ReasonWrongExpiration, "599"},
		"a lifetime too long":   {ask{expiration: new(int32(31536001))}, ReasonWrongExpiration, "31536001"},
		"a lifetime below zero": {ask{expiration: new(int32(-3600))}, ReasonWrongExpiration, "-3600"},
		"not a PEM block":       {ask{encode: func(der []byte) []byte { return der }}, ReasonWrongRequest, "not a PEM block"},
		"nothing at all":        {ask{encode: func([]byte) []byte { return nil }}, ReasonWrongRequest, "not a PEM block"},
		"two PEM blocks":        {ask{encode: func(der []byte) []byte { return append(inPEM(der), inPEM(der)...) }}, ReasonWrongRequest, "beside"},
		"text before the block": {ask{encode: func(der []byte) []byte { return append([]byte("hello\n"), inPEM(der)...) }}, ReasonWrongRequest, "beside"},
		"text behind the block": {ask{encode: func(der []byte) []byte { return append(inPEM(der), "hello"...) }}, ReasonWrongRequest, "beside"},
		"headers in the block": {ask{encode: func(der []byte) []byte {
			return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Headers: map[string]string{"X": "y"}, Bytes: der})
		}}, ReasonWrongRequest, "beside"},
		"a block of another type": {ask{encode: func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }}, ReasonWrongRequest, "CERTIFICATE REQUEST"},
		"a block cut short":       {ask{encode: func(der []byte) []byte { return inPEM(der[:len(der)/2]) }}, ReasonWrongRequest, "spec.request"},
		"a signature of another key": {ask{encode: func(der []byte) []byte {
			der = append([]byte(nil), der...)
			der[len(der)-1] ^= 1
			return inPEM(der)
		}}, ReasonWrongRequest, "spec.request"},

		"a join token of another cluster":              {requests(token, v1alpha1.JoinGroupPrefix+"b"), ReasonWrongRequester, "is for b,"},
		"a join token of a longer cluster":             {requests(token, joinA+"b"), ReasonWrongRequester, "is for ab,"},
		"a join token of a shorter cluster":            {requests(token, v1alpha1.JoinGroupPrefix), ReasonWrongRequester, "spec.groups"},
		"a join token of two clusters":                 {requests(token, joinA, v1alpha1.JoinGroupPrefix+"b"), ReasonWrongRequester, "is for a, b,"},
		"a bootstrap token of no cluster":              {requests(token, "system:bootstrappers"), ReasonWrongRequester, "is for no cluster,"},
		"a join token with the group of an agent":      {requests(token, joinA, groupA), ReasonWrongRequester, "auth-extra-groups"},
		"a user name that is no bootstrap token's":     {requests("system:bootstrap:abc123x", joinA), ReasonWrongRequester, "neither a join token"},
		"a user with the group of a join token":        {requests("jane", joinA), ReasonWrongRequester, `"jane"`},
		"a user with the group of the agent":           {requests("jane", groupA), ReasonWrongRequester, `"jane"`},
		"an administrator":                             {requests("admin", "system:masters"), ReasonWrongRequester, `"admin"`},
		"the agent of a longer cluster":                {requests(agentA+"b", groupA+"b"), ReasonWrongRequester, "neither a join token"},
		"the agent with the group of another":          {requests(agentA, v1alpha1.AgentGroupPrefix+"b"), ReasonWrongRequester, "is an agent of b,"},
		"the agent with the group of another too":      {requests(agentA, groupA, v1alpha1.AgentGroupPrefix+"b"), ReasonWrongRequester, "is an agent of a, b,"},
		"the agent without its group":                  {requests(agentA, "system:authenticated"), ReasonWrongRequester, "is an agent of no cluster,"},
		"the agent with the group of a join token too": {requests(agentA, groupA, joinA), ReasonWrongRequester, "not of Cluster a only"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			// Whatever is wrong stays wrong when the Cluster is not accepted, or not there.
			for _, cluster := range []*v1alpha1.Cluster{accepted(), clusterA(v1alpha1.AcceptancePending, ""), nil} {
				decision := Decide(test.ask.csr(), Objects{Cluster: cluster})
				g.Expect(decision.Verdict).To(Equal(Deny), decision.Message)
				g.Expect(decision.Reason).To(Equal(test.reason), decision.Message)
				g.Expect(decision.Message).To(ContainSubstring(test.names))
			}
		})
	}
}

func TestTheClusterHasTheLastWord(t *testing.T) {
	deleting := accepted()
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	other := accepted()
	other.Name = "ab"
	tests := map[string]struct {
		cluster *v1alpha1.Cluster
		verdict Verdict
		reason  string
	}{
		"accepted":                        {accepted(), Approve, ReasonJoined},
		"pending":                         {clusterA(v1alpha1.AcceptancePending, v1alpha1.AcceptanceManual), Wait, ReasonAwaitingAcceptance},
		"pending without a policy":        {clusterA(v1alpha1.AcceptancePending, ""), Wait, ReasonAwaitingAcceptance},
		"pending, by policy":              {clusterA(v1alpha1.AcceptancePending, v1alpha1.AcceptanceAuto), Approve, ReasonJoined},
		"denied":                          {clusterA(v1alpha1.AcceptanceDenied, v1alpha1.AcceptanceManual), Deny, ReasonClusterDenied},
		"denied, whatever the policy":     {clusterA(v1alpha1.AcceptanceDenied, v1alpha1.AcceptanceAuto), Deny, ReasonClusterDenied},
		"being removed":                   {deleting, Deny, ReasonClusterDeleting},
		"not there":                       {nil, Wait, ReasonClusterNotFound},
		"another one, given by a mistake": {other, Wait, ReasonClusterNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			decision := Decide(ask{}.csr(), Objects{Cluster: test.cluster})
			g.Expect(decision.Verdict).To(Equal(test.verdict), decision.Message)
			g.Expect(decision.Reason).To(Equal(test.reason))
			g.Expect(decision.Message).NotTo(BeEmpty())
		})
	}
}

func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	for name, request := range map[string]ask{
		"another name":               {name: "jane"},
		"almost our name":            {name: "hollowfleet-agents-a"},
		"our name inside":            {name: "x-hollowfleet-agent-a"},
		"another signer":             {signer: certificatesv1.KubeAPIServerClientKubeletSignerName},
		"a signer of another domain": {signer: "example.com/kubernetes.io/kube-apiserver-client"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Decide(request.csr(), Objects{Cluster: accepted()}).Verdict).To(Equal(Leave))
		})
	}
}

func TestOpen(t *testing.T) {
	g := NewWithT(t)
	g.Expect(certrequest.Open(ask{}.csr())).To(BeTrue())
	for _, decided := range []certificatesv1.RequestConditionType{
		certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed,
	} {
		conditions := []certificatesv1.CertificateSigningRequestCondition{{Type: decided}}
		g.Expect(certrequest.Open(ask{conditions: conditions}.csr())).To(BeFalse(), string(decided))
	}
}

// However the names in a request are put together, it is approved for the one cluster that all of them name.
func TestOnlyOneClusterIsEverNamed(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "ab", "b", "a-b", "a:b", "a.b", "", "A"})
	rapid.Check(t, func(t *rapid.T) {
		request, cn, organization, who, cluster := names.Draw(t, "request"), names.Draw(t, "cn"), names.Draw(t, "o"), names.Draw(t, "who"), names.Draw(t, "cluster")
		joins := rapid.Bool().Draw(t, "joins")
		made := ask{name: v1alpha1.AgentRequestPrefix + request, template: x509.CertificateRequest{Subject: pkix.Name{
			CommonName: v1alpha1.AgentUserPrefix + cn, Organization: []string{v1alpha1.AgentGroupPrefix + organization}}}}
		made.user, made.groups = v1alpha1.AgentUserPrefix+who, []string{v1alpha1.AgentGroupPrefix + who}
		if joins {
			made.user, made.groups = token, []string{v1alpha1.JoinGroupPrefix + who}
		}
		extra := rapid.SliceOfN(rapid.SampledFrom([]string{groupA, joinA, v1alpha1.AgentGroupPrefix + "ab", "system:authenticated"}), 0, 2).Draw(t, "extra")
		made.groups = append(made.groups, extra...)
		given := accepted()
		given.Name = cluster
		decision := Decide(made.csr(), Objects{Cluster: given})
		if decision.Verdict != Approve {
			return
		}
		if request == "" || request != cn || request != organization || request != who || request != cluster {
			t.Fatalf("approved %q for CN %q, O %q, requested by %q, Cluster %q", request, cn, organization, who, cluster)
		}
		for _, group := range made.groups {
			for _, prefix := range []string{v1alpha1.AgentGroupPrefix, v1alpha1.JoinGroupPrefix} {
				if named, ours := strings.CutPrefix(group, prefix); ours && named != request {
					t.Fatalf("approved %q for a requester with group %q", request, group)
				}
			}
		}
	})
}

// Whatever bytes stand in a request, nothing panics and nothing but a whole request is approved.
func TestNoiseIsNeverApproved(t *testing.T) {
	good := ask{}.csr().Spec.Request
	rapid.Check(t, func(t *rapid.T) {
		csr := ask{}.csr()
		noise := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "noise")
		at := rapid.IntRange(0, len(good)-1).Draw(t, "at")
		csr.Spec.Request = append(append(append([]byte(nil), good[:at]...), noise...), good[at:]...)
		if decision := Decide(csr, Objects{Cluster: accepted()}); decision.Verdict == Approve && strings.TrimSpace(string(noise)) != "" {
			t.Fatalf("approved with %q at %d", noise, at)
		}
	})
}
