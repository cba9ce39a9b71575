package joining_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/joining"
)

func TestTokensAreBootstrapTokensOfOneCluster(t *testing.T) {
	g := NewWithT(t)
	expires := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 3600))
	seen := map[string]bool{}
	for range 1000 {
		token := joining.NewToken(expires)
		g.Expect(token.String()).To(MatchRegexp(`^[a-z0-9]{6}\.[a-z0-9]{16}$`))
		g.Expect(seen).NotTo(HaveKey(token.ID))
		seen[token.ID] = true
	}
	token := joining.NewToken(expires)
	secret := token.Object("c1")
	g.Expect(secret.Namespace + "/" + secret.Name).To(Equal("kube-system/bootstrap-token-" + token.ID))
	g.Expect(secret.Type).To(Equal(corev1.SecretTypeBootstrapToken))
	g.Expect(secret.Labels).To(HaveKeyWithValue(v1alpha1.ClusterNameLabel, "c1"))
	g.Expect(secret.StringData).To(HaveKeyWithValue("expiration", "2026-01-02T02:04:05Z"))
	g.Expect(secret.StringData).To(HaveKeyWithValue("auth-extra-groups", "system:bootstrappers:hollowfleet:c1"))
	g.Expect(secret.StringData).NotTo(HaveKey("usage-bootstrap-signing"))
}

func TestServerOfAKubeconfig(t *testing.T) {
	for name, test := range map[string]struct {
		config rest.Config
		want   joining.Server
		err    string
	}{
		"all given": {
			config: rest.Config{Host: "https://hub:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca"), ServerName: "kubernetes"}},
			want:   joining.Server{URL: "https://hub:6443", CA: []byte("ca"), TLSName: "kubernetes"},
		},
		"an authority that the system knows": {config: rest.Config{Host: "https://hub"}, want: joining.Server{URL: "https://hub"}},
		"unverified":                         {config: rest.Config{Host: "https://hub", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, err: "does not verify"},
		"in the clear":                       {config: rest.Config{Host: "http://hub"}, err: "want https://HOST:PORT"},
		"no scheme":                          {config: rest.Config{Host: "hub"}, err: "want https://HOST:PORT"},
		"an authority's file that is gone":   {config: rest.Config{Host: "https://hub", TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"}}, err: "reading the hub's certificate authority"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server, err := joining.ServerOf(&test.config)
			if test.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(test.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(server).To(Equal(test.want))
		})
	}
}

func TestLoopback(t *testing.T) {
	for url, want := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://localhost": true, "https://[::1]:6443": true, "https://10.0.0.1:6443": false, "https://hub": false,
	} {
		NewWithT(t).Expect(joining.Server{URL: url}.Loopback()).To(Equal(want), url)
	}
}

func TestKubeconfigCanBeUsed(t *testing.T) {
	g := NewWithT(t)
	content, err := joining.Server{URL: "https://hub:6443", CA: []byte("ca"), TLSName: "kubernetes"}.Kubeconfig("c1", "abcdef.0123456789abcdef")
	g.Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Host).To(Equal("https://hub:6443"))
	g.Expect(config.BearerToken).To(Equal("abcdef.0123456789abcdef"))
	g.Expect(config.ServerName).To(Equal("kubernetes"))
	g.Expect(string(config.CAData)).To(Equal("ca"))
}

func TestNamesThatCannotBeUsed(t *testing.T) {
	for _, name := range []string{"", "A", "a.b", "a:b", "-a", "a-", strings.Repeat("a", 64), "default", "kube-system", "openshift-x", "hollowfleet", "hollowfleet-system"} {
		NewWithT(t).Expect(joining.CheckName(name)).NotTo(Succeed(), name)
	}
	for _, name := range []string{"a", "c1", "eu-west-1", strings.Repeat("a", 63), "kube"} {
		NewWithT(t).Expect(joining.CheckName(name)).To(Succeed(), name)
	}
}
