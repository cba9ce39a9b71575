package localfleet

import (
	"errors"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func kubeconfigFor(t *testing.T, server string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c1"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte("authority")}
	config.Contexts["c1"] = &clientcmdapi.Context{Cluster: "c1"}
	config.CurrentContext = "c1"
	path := filepath.Join(t.TempDir(), "agent.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// route is Cables between programs and API servers alone.
type route func(Link, string) (string, error)

func (r route) Route(link Link, address string) (string, error) { return r(link, address) }

func (route) ControlPlaneArgs(string, string) ([]string, error) { return nil, nil }

func TestRouteLeadsAKubeconfigElsewhere(t *testing.T) {
	g := NewWithT(t)
	path := kubeconfigFor(t, "https://127.0.0.1:1001")
	asked := Link{From: "c1", To: TargetServer}
	fleet := &Fleet{options: Options{Cables: route(func(link Link, address string) (string, error) {
		g.Expect(link).To(Equal(asked))
		g.Expect(address).To(Equal("127.0.0.1:1001"))
		return "127.0.0.1:2002", nil
	})}}
	routed, server, err := fleet.routedKubeconfig(asked, path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server).To(Equal("https://127.0.0.1:2002"))
	g.Expect(routed).NotTo(Equal(path))
	elsewhere, err := clientcmd.LoadFromFile(routed)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(elsewhere.Clusters["c1"]).To(HaveValue(And(
		HaveField("Server", "https://127.0.0.1:2002"), HaveField("CertificateAuthorityData", []byte("authority")))))
	direct, err := clientcmd.LoadFromFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(direct.Clusters["c1"].Server).To(Equal("https://127.0.0.1:1001"), "who reads that one is not led elsewhere")
}

func TestWithoutARouteAKubeconfigStays(t *testing.T) {
	g := NewWithT(t)
	path := kubeconfigFor(t, "https://127.0.0.1:1001")
	routed, server, err := new(Fleet).routedKubeconfig(Link{From: FromHub, To: HubServer}, path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(routed).To(Equal(path))
	g.Expect(server).To(Equal("https://127.0.0.1:1001"))
}

func TestARouteThatFailsIsNamed(t *testing.T) {
	g := NewWithT(t)
	fleet := &Fleet{options: Options{Cables: route(func(Link, string) (string, error) { return "", errors.New("no cable left") })}}
	_, _, err := fleet.routedKubeconfig(Link{From: "c1", To: HubServer}, kubeconfigFor(t, "https://127.0.0.1:1001"))
	g.Expect(err).To(MatchError(ContainSubstring("agent c1 to hub API server: no cable left")))
}
