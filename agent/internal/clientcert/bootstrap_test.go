package clientcert

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
)

// A server that poses as the hub would get the token, and could give the agent orders.
// Edge case: Bootstrap by http was possible.
func TestABootstrapKubeconfigNamesAServerThatShowsWhoItIs(t *testing.T) {
	for name, test := range map[string]struct {
		cluster clientcmdapi.Cluster
		want    string
	}{
		"in the clear":     {clientcmdapi.Cluster{Server: "http://hub.example:8080"}, "want https://HOST:PORT"},
		"without a scheme": {clientcmdapi.Cluster{Server: "hub.example:6443"}, "want https://HOST:PORT"},
		"unverified":       {clientcmdapi.Cluster{Server: "https://hub.example", InsecureSkipTLSVerify: true}, "insecure-skip-tls-verify"},
		"verified":         {clientcmdapi.Cluster{Server: "https://hub.example"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, path := NewWithT(t), filepath.Join(t.TempDir(), "bootstrap.kubeconfig")
			config := newKubeconfig(&test.cluster, &clientcmdapi.AuthInfo{Token: "abcdef.0123456789abcdef"})
			g.Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
			read, err := readBootstrap(path, "c1")
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			g.Expect(read.token).To(BeEmpty())
			g.Expect(read.cluster).To(BeNil(), "nothing is sent there")
		})
	}
}

func FuzzBootstrapKubeconfig(f *testing.F) {
	for _, seed := range []string{
		"", "apiVersion: v1\nkind: Config\n", "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n",
		"apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- {name: a, context: {cluster: a, user: a}}\nclusters:\n" +
			"- {name: a, cluster: {server: 'https://hub:6443'}}\nusers:\n- {name: a, user: {token: abcdef.0123456789abcdef}}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := readBootstrap(path, "c1")
		if err == nil && (read.cluster == nil || read.token == "" || checkServer(read.cluster) != nil) {
			t.Errorf("accepted without a server or a token: %+v", read)
		}
		_ = serverOf(content)
	})
}

func FuzzTokens(f *testing.F) {
	payload := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:c1:hollowfleet-agent","iat":1,"exp":2}`))
	for _, seed := range []string{"", "abcdef.0123456789abcdef", "a.b.c", "h." + payload + ".s", "..", "h.bnVsbA.s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		of, err := kindOf(token, "c1")
		switch {
		case err != nil:
		case of == certificate && !joinToken.MatchString(token):
			t.Errorf("%q counts as a join token", token)
		case of == serviceAccountToken:
			if read, err := parseToken(token); err != nil || read.Subject != accountUser("c1") {
				t.Errorf("%q counts as a token of the agent's ServiceAccount", token)
			}
		}
		if read, err := fromToken("c1", token); err == nil && read.NotAfter.Unix() == 0 {
			t.Errorf("%q is taken although it never expires", token)
		}
	})
}

func FuzzKeysAndCertificates(f *testing.F) {
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		f.Fatal(err)
	}
	request, err := newRequest("c1", key, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(request.Spec.Request, key)
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"), []byte("-----BEGIN EC PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, request, key []byte) {
		_ = isMadeWithKey(request, key)
		if _, err := fromCertificate("c1", request, key); err == nil {
			t.Errorf("%q is taken for a certificate", request)
		}
		_, _, _ = Contents{certificateKey: request, privateKeyKey: key, pendingKey: key}.readCredential("c1")
	})
}
