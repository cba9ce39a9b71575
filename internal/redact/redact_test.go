package redact

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const key = "-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\nc2VjcmV0\n-----END RSA PRIVATE KEY-----"

// Claim: Credentials are taken out of logs. Broken: the end of a key whose beginning is cut off stays.
func TestCredentialsAreTakenOut(t *testing.T) {
	for name, test := range map[string]struct{ text, secret, keeps string }{
		"a bearer token":                  {"Authorization: Bearer abcdefgh12345678 was refused", "abcdefgh12345678", "was refused"},
		"a token of a ServiceAccount":     {`got eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl from it`, "eyJpc3M", "from it"},
		"a bootstrap token":               {"joining with 07401b.f395accd246ae52d now", "f395accd246ae52d", "joining with"},
		"a token in JSON":                 {`{"token":"s3cr3t-value","user":"x"}`, "s3cr3t-value", `"user":"x"`},
		"a token in JSON in JSON":         {`{\"token\":\"s3cr3t-value\",\"user\":\"x\"}`, "s3cr3t-value", `user`},
		"a token in klog":                 {`I1129 "Started" accessToken="s3cr3t-value" node="a"`, "s3cr3t-value", `node="a"`},
		"a token in YAML":                 {"users:\n- user:\n    token: s3cr3t-value\n", "s3cr3t-value", "users:"},
		"a password":                      {"db.password=hunter2 host=a", "hunter2", "host=a"},
		"a password in a URL":             {"GET https://admin:hunter2@host/path", "hunter2", "host/path"},
		"a private key":                   {"before\n" + key + "\nafter", "c2VjcmV0", "after"},
		"a private key in one line":       {"before " + strings.ReplaceAll(key, "\n", `\n`) + " after", "c2VjcmV0", "after"},
		"a key without its end":           {"before\n-----BEGIN PRIVATE KEY-----\nc2VjcmV0", "c2VjcmV0", "before"},
		"a key without its beginning":     {"c2VjcmV0\nc2VjcmV0\n-----END RSA PRIVATE KEY-----\nafter", "c2VjcmV0", "after"},
		"such a key, and a whole one":     {"c2VjcmV0\n-----END RSA PRIVATE KEY-----\nbetween\n" + key + "\nafter", "c2VjcmV0", "between"},
		"a key in a kubeconfig":           {"client-key-data: " + base64.StdEncoding.EncodeToString([]byte(key)) + "\nname: a", "LS0tLS1", "name: a"},
		"a key in a Secret":               {"tls.key: " + base64.StdEncoding.EncodeToString([]byte(key)) + "\nname: a", "LS0tLS1", "name: a"},
		"a password of a Secret in a log": {"data: map[PASSWORD:hunter2 user:x]", "hunter2", "data:"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := Text(test.text)
			g.Expect(got).NotTo(ContainSubstring(test.secret))
			g.Expect(got).To(And(ContainSubstring(Mark), ContainSubstring(test.keeps)))
			g.Expect(Text(got)).To(Equal(got), "what was taken out stays out")
		})
	}
}

func TestWhatIsNoCredentialStays(t *testing.T) {
	for _, text := range []string{
		"", "I1129 15:00:00.000000 1 kubelet.go:1 \"Starting kubelet\" version=\"v1.37.1\"", `Secret="hollowfleet/workers-a" not found`,
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "https://127.0.0.1:6443/api/v1/nodes/local-0-podhost", "registry.k8s.io/pause:3.10",
	} {
		NewWithT(t).Expect(Text(text)).To(Equal(text))
	}
}

func TestCredentialsAreTakenOutOfValues(t *testing.T) {
	g := NewWithT(t)
	var object any
	g.Expect(json.Unmarshal([]byte(`{"metadata":{"name":"a","annotations":{"x":"Authorization: Bearer abcdef","dbPassword":"hunter2"}},"list":["token=s3cr3t",7,true,null]}`), &object)).To(Succeed())
	got, err := json.Marshal(Value(object))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(got)).To(Equal(`{"list":["token=[redacted]",7,true,null],"metadata":{"annotations":{"dbPassword":"[redacted]","x":"Authorization: Bearer [redacted]"},"name":"a"}}`))
}
