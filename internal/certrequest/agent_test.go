package certrequest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

func TestNamesAreReadAsTheyWereWritten(t *testing.T) {
	for name, want := range map[string]struct {
		host, cluster string
		ours          bool
	}{
		certrequest.NameOfAgent("a"):              {"", "a", true},
		certrequest.NameOfHostedAgent("a", "b"):   {"a", "b", true},
		certrequest.NameOfHostedAgent("ab", "c"):  {"ab", "c", true},
		certrequest.NameOfHostedAgent("a", "b-c"): {"a", "b-c", true},
		"hollowfleet-agent-a.b.c":                 {"a", "b.c", true},
		"hollowfleet-agent-.b":                    {"", "b", true},
		"hollowfleet-agent-a.":                    {"a", "", true},
		"hollowfleet-agents-a.b":                  {"", "", false},
		"csr-x":                                   {"", "", false},
	} {
		host, cluster, ours := certrequest.ParseName(name)
		g := NewWithT(t)
		g.Expect(ours).To(Equal(want.ours), name)
		g.Expect(host).To(Equal(want.host), name)
		g.Expect(cluster).To(Equal(want.cluster), name)
	}
}

func TestARequestIsThatOfTheAgent(t *testing.T) {
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	csr, err := certrequest.NewForAgent(certrequest.NameOfHostedAgent("a", "b"), "b", key, time.Hour)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(csr.Name).To(Equal("hollowfleet-agent-a.b"))
	g.Expect(csr.Spec.SignerName).To(Equal(certificatesv1.KubeAPIServerClientSignerName))
	g.Expect(csr.Spec.ExpirationSeconds).To(HaveValue(BeEquivalentTo(3600)))
	g.Expect(certrequest.CheckUsages(csr.Spec.Usages)).To(Succeed())
	parsed, err := certrequest.Parse(csr.Spec.Request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parsed.Subject.CommonName).To(Equal("hollowfleet.io:agent:b"))
	g.Expect(parsed.Subject.Organization).To(Equal([]string{"hollowfleet.io:cluster:b"}))
	g.Expect(parsed.PublicKey).To(Equal(key.Public()))
}

func TestTheLongestNameIsAName(t *testing.T) {
	longest := "a23456789012345678901234567890123456789012345678901234567890123"
	NewWithT(t).Expect(validation.IsDNS1123Subdomain(certrequest.NameOfHostedAgent(longest, longest))).To(BeEmpty())
}
