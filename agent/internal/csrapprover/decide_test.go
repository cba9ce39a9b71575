package csrapprover

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/netip"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const bootstrapUser = "system:serviceaccount:hollowfleet:hollow-node-bootstrap"

// request makes the PEM of a certificate request.
func request(t *testing.T, template x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func subject(name string, organizations ...string) x509.CertificateRequest {
	return x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: organizations}}
}

// joining is what the hollow-node of Machine m1 asks with the token t1.
func joining(t *testing.T) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Request:    request(t, subject("system:node:m1", "system:nodes")),
		Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		Username:   bootstrapUser,
		Groups:     []string{"system:serviceaccounts", "system:authenticated"},
		Extra:      map[string]certificatesv1.ExtraValue{credentialIDKey: {"JTI=t1"}},
	}}
}

// renewing is what the node m1 asks for itself.
func renewing(t *testing.T) *certificatesv1.CertificateSigningRequest {
	csr := joining(t)
	csr.Spec.Username, csr.Spec.Groups = "system:node:m1", []string{"system:nodes", "system:authenticated"}
	csr.Spec.Extra = map[string]certificatesv1.ExtraValue{credentialIDKey: {"X509SHA256=abc"}}
	return csr
}

// serving is what the node m1 asks for its port.
func serving(t *testing.T) *certificatesv1.CertificateSigningRequest {
	csr := renewing(t)
	csr.Spec.SignerName = certificatesv1.KubeletServingSignerName
	csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	csr.Spec.Request = request(t, servingTemplate())
	return csr
}

func servingTemplate() x509.CertificateRequest {
	template := subject("system:node:m1", "system:nodes")
	template.DNSNames, template.IPAddresses = []string{"m1"}, []net.IP{net.IPv4(127, 64, 0, 5), net.IPv4(241, 64, 0, 5)}
	return template
}

func TestServingCertificates(t *testing.T) {
	type csr = *certificatesv1.CertificateSigningRequest
	with := func(change func(*x509.CertificateRequest)) func(*testing.T, csr, *Facts) {
		return func(t *testing.T, c csr, _ *Facts) {
			template := servingTemplate()
			change(&template)
			c.Spec.Request = request(t, template)
		}
	}
	for name, test := range map[string]struct {
		change func(*testing.T, csr, *Facts)
		want   Decision
	}{
		"its own":        {nil, ApproveServing},
		"one of its own": {with(func(r *x509.CertificateRequest) { r.IPAddresses, r.DNSNames = r.IPAddresses[:1], nil }), ApproveServing},
		"an RSA key's usages": {func(_ *testing.T, c csr, _ *Facts) {
			c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageKeyEncipherment)
		}, ApproveServing},

		"another node's address":    {with(func(r *x509.CertificateRequest) { r.IPAddresses[1] = net.IPv4(127, 64, 0, 6) }), OtherAddress},
		"another node's name":       {with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"m1", "m2"} }), OtherAddress},
		"a name with its own in it": {with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"m1.example.com"} }), OtherAddress},
		"any name":                  {with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"*"} }), OtherAddress},
		"a node without a pod":      {func(_ *testing.T, _ csr, f *Facts) { f.Addresses = nil }, OtherAddress},
		"no address":                {with(func(r *x509.CertificateRequest) { r.IPAddresses = nil }), WrongRequest},
		"a URI":                     {with(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "https", Host: "x"}} }), WrongRequest},
		"an e-mail address":         {with(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }), WrongRequest},
		"another node asks":         {func(_ *testing.T, c csr, _ *Facts) { c.Spec.Username = "system:node:m2" }, OtherRequestor},
		"the bootstrap token asks":  {func(_ *testing.T, c csr, _ *Facts) { c.Spec.Username = bootstrapUser }, OtherRequestor},
		"another identity":          {with(func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:m2" }), OtherRequestor},
		"no node's identity":        {with(func(r *x509.CertificateRequest) { r.Subject.CommonName = "m1" }), WrongRequest},
		"one organization more":     {with(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:nodes", "system:masters"} }), WrongRequest},
		"a client's usage": {func(_ *testing.T, c csr, _ *Facts) {
			c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageClientAuth)
		}, WrongRequest},
		"no server's usage":         {func(_ *testing.T, c csr, _ *Facts) { c.Spec.Usages = c.Spec.Usages[:1] }, WrongRequest},
		"no machine":                {func(_ *testing.T, _ csr, f *Facts) { f.MachineLive = false }, NoMachine},
		"a node of another machine": {func(_ *testing.T, _ csr, f *Facts) { f.NodeConflict = "a Node exists" }, NodeConflict},
		"a client's signer": {func(_ *testing.T, c csr, _ *Facts) {
			c.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
		}, WrongRequest},
	} {
		t.Run(name, func(t *testing.T) {
			own := []netip.Addr{netip.MustParseAddr("127.64.0.5"), netip.MustParseAddr("241.64.0.5")}
			c, facts := serving(t), Facts{BootstrapUser: bootstrapUser, MachineLive: true, TokenIDs: []string{"t1"}, Addresses: own}
			if test.change != nil {
				test.change(t, c, &facts)
			}
			if got, why := Decide(c, facts); got != test.want || why == "" {
				t.Errorf("Decide = %s (%s), want %s", got, why, test.want)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	type csr = *certificatesv1.CertificateSigningRequest
	tests := map[string]struct {
		base   func(*testing.T) csr
		change func(*testing.T, csr, *Facts)
		want   Decision
	}{
		"join":                       {joining, nil, ApproveJoin},
		"join with the token before": {joining, func(_ *testing.T, _ csr, f *Facts) { f.TokenIDs = []string{"t2", "t1"} }, ApproveJoin},
		"join with key encipherment": {joining, func(_ *testing.T, c csr, _ *Facts) {
			c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageKeyEncipherment)
		}, ApproveJoin},
		"renewal": {renewing, nil, ApproveRenewal},

		"another machine's token": {joining, func(_ *testing.T, c csr, _ *Facts) {
			c.Spec.Extra[credentialIDKey] = certificatesv1.ExtraValue{"JTI=t2"}
		}, OtherToken},
		"the beginning of the token": {joining, func(_ *testing.T, _ csr, f *Facts) { f.TokenIDs = []string{"t11"} }, OtherToken},
		"a machine without tokens":   {joining, func(_ *testing.T, _ csr, f *Facts) { f.TokenIDs = nil }, OtherToken},
		"no credential":              {joining, func(_ *testing.T, c csr, _ *Facts) { c.Spec.Extra = nil }, OtherToken},
		"two credentials": {joining, func(_ *testing.T, c csr, _ *Facts) {
			c.Spec.Extra[credentialIDKey] = certificatesv1.ExtraValue{"JTI=t1", "JTI=t2"}
		}, OtherToken},
		"a credential of another kind": {joining, func(_ *testing.T, c csr, _ *Facts) {
			c.Spec.Extra[credentialIDKey] = certificatesv1.ExtraValue{"X509SHA256=t1"}
		}, OtherToken},
		"an empty token ID": {joining, func(_ *testing.T, c csr, f *Facts) {
			c.Spec.Extra[credentialIDKey] = certificatesv1.ExtraValue{"JTI="}
			f.TokenIDs = []string{""}
		}, OtherToken},

		"a node that is not the machine's":            {joining, func(_ *testing.T, _ csr, f *Facts) { f.NodeConflict = "a Node exists" }, NodeConflict},
		"a renewal of such a node":                    {renewing, func(_ *testing.T, _ csr, f *Facts) { f.NodeConflict = "a Node exists" }, NodeConflict},
		"a join for a machine that cannot be decoded": {joining, func(_ *testing.T, _ csr, f *Facts) { f.MachineUndecodable = true }, MachineUndecodable},
		// Edge case: An undecodable Machine's Node could not renew.
		"a renewal for a machine that cannot be decoded": {renewing, func(_ *testing.T, _ csr, f *Facts) { f.MachineUndecodable = true }, ApproveRenewal},
		"no machine":              {joining, func(_ *testing.T, _ csr, f *Facts) { f.MachineLive = false }, NoMachine},
		"no machine to renew for": {renewing, func(_ *testing.T, _ csr, f *Facts) { f.MachineLive = false }, NoMachine},
		"another service account": {joining, func(_ *testing.T, c csr, _ *Facts) { c.Spec.Username = bootstrapUser + "-2" }, OtherRequestor},
		"another namespace's": {joining, func(_ *testing.T, c csr, _ *Facts) {
			c.Spec.Username = "system:serviceaccount:other:hollow-node-bootstrap"
		}, OtherRequestor},
		"a bootstrap token's user":     {joining, func(_ *testing.T, c csr, _ *Facts) { c.Spec.Username = "system:bootstrap:abcdef" }, OtherRequestor},
		"another node's renewal":       {renewing, func(_ *testing.T, c csr, _ *Facts) { c.Spec.Username = "system:node:m2" }, OtherRequestor},
		"a node that extends its name": {renewing, func(_ *testing.T, c csr, _ *Facts) { c.Spec.Username = "system:node:m11" }, OtherRequestor},
		"a node out of the group":      {renewing, func(_ *testing.T, c csr, _ *Facts) { c.Spec.Groups = []string{"system:authenticated"} }, OtherRequestor},

		"another organization":   {joining, asks(subject("system:node:m1", "system:masters")), WrongRequest},
		"one organization more":  {joining, asks(subject("system:node:m1", "system:nodes", "system:masters")), WrongRequest},
		"no organization":        {joining, asks(subject("system:node:m1")), WrongRequest},
		"no common name":         {joining, asks(subject("", "system:nodes")), WrongRequest},
		"a name that is no node": {joining, asks(subject("system:admin", "system:nodes")), WrongRequest},
		"an empty node":          {joining, asks(subject("system:node:", "system:nodes")), WrongRequest},
		"a prefix before":        {joining, asks(subject("x:system:node:m1", "system:nodes")), WrongRequest},
		"an organizational unit": {joining, asks(x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:m1", Organization: []string{"system:nodes"}, OrganizationalUnit: []string{"x"}}}), WrongRequest},
		"a DNS name":             {joining, asksWith(func(r *x509.CertificateRequest) { r.DNSNames = []string{"m1"} }), WrongRequest},
		"an IP address":          {joining, asksWith(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }), WrongRequest},
		"an e-mail address":      {joining, asksWith(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }), WrongRequest},
		"a URI":                  {joining, asksWith(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "https", Host: "x"}} }), WrongRequest},
		"server authentication": {joining, func(_ *testing.T, c csr, _ *Facts) {
			c.Spec.Usages = append(c.Spec.Usages, certificatesv1.UsageServerAuth)
		}, WrongRequest},
		"no client authentication": {joining, func(_ *testing.T, c csr, _ *Facts) { c.Spec.Usages = c.Spec.Usages[:1] }, WrongRequest},
		"no usages":                {joining, func(_ *testing.T, c csr, _ *Facts) { c.Spec.Usages = nil }, WrongRequest},
		"another signer":           {joining, func(_ *testing.T, c csr, _ *Facts) { c.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName }, WrongRequest},
		"no PEM":                   {joining, func(_ *testing.T, c csr, _ *Facts) { c.Spec.Request = []byte("x") }, WrongRequest},
		"a second PEM block":       {joining, func(_ *testing.T, c csr, _ *Facts) { c.Spec.Request = append(c.Spec.Request, c.Spec.Request...) }, WrongRequest},
		"a PEM of another type": {joining, func(_ *testing.T, c csr, _ *Facts) {
			c.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"})
		}, WrongRequest},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			csr, facts := test.base(t), Facts{BootstrapUser: bootstrapUser, MachineLive: true, TokenIDs: []string{"t1"}}
			if test.change != nil {
				test.change(t, csr, &facts)
			}
			got, why := Decide(csr, facts)
			if got != test.want {
				t.Errorf("Decide = %s (%s), want %s", got, why, test.want)
			}
			if why == "" {
				t.Error("the verdict says nothing")
			}
		})
	}
}

func asks(template x509.CertificateRequest) func(*testing.T, *certificatesv1.CertificateSigningRequest, *Facts) {
	return func(t *testing.T, c *certificatesv1.CertificateSigningRequest, _ *Facts) {
		c.Spec.Request = request(t, template)
	}
}

func asksWith(change func(*x509.CertificateRequest)) func(*testing.T, *certificatesv1.CertificateSigningRequest, *Facts) {
	template := subject("system:node:m1", "system:nodes")
	change(&template)
	return asks(template)
}

func TestABrokenSignatureIsWrong(t *testing.T) {
	csr := joining(t)
	block, _ := pem.Decode(csr.Spec.Request)
	block.Bytes[len(block.Bytes)-1] ^= 1
	csr.Spec.Request = pem.EncodeToMemory(block)
	if got, _ := Decide(csr, Facts{BootstrapUser: bootstrapUser, MachineLive: true, TokenIDs: []string{"t1"}}); got.Approves() {
		t.Errorf("Decide = %s for a request that its key has not signed", got)
	}
}
