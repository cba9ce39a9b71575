package clientcert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// olderKubeconfig is what an agent of 9b97cca wrote for people, with SERVER for the hub's API server.
const olderKubeconfig = `apiVersion: v1
clusters:
- cluster:
    server: SERVER
  name: hub
contexts:
- context:
    cluster: hub
    user: agent
  name: hub
current-context: hub
kind: Config
users:
- name: agent
  user:
    client-certificate: tls.crt
    client-key: tls.key
`

// The files of an agent of 9b97cca, by the names that they had then.
func TestTheCredentialOfAnOlderAgentIsUsed(t *testing.T) {
	b := newEnv(t)
	b.run()
	b.accept()
	b.approve()
	b.soon(b.ready, "a credential")
	b.Eventually(func() []byte { return b.stored(kubeconfigKey) }).ShouldNot(BeEmpty())
	b.stop()
	requested := b.request().UID

	older := map[string]string{
		"holder": "1d4af8ca-5c19-4c1f-b1fb-adc92411179b/65024/9988200\nanother-machine\n", "lock": "",
		"kubeconfig": strings.Replace(olderKubeconfig, "SERVER", b.Server.Config.Host, 1),
		"tls.crt":    string(b.stored(certificateKey)), "tls.key": string(b.stored(privateKeyKey)),
	}
	b.dir = filepath.Join(t.TempDir(), "credential")
	b.Expect(os.Mkdir(b.dir, 0o700)).To(Succeed())
	for name, content := range older {
		b.Expect(os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600)).To(Succeed())
	}
	b.run()
	b.soon(b.ready, "the credential that is there")
	config, _, err := b.manager.Current()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(string(config.CertData)).To(Equal(older["tls.crt"]))
	b.Expect(b.get(config)).To(Succeed())
	b.Expect(b.request().UID).To(Equal(requested), "it asks for no other")
	b.Expect(os.ReadFile(filepath.Join(b.dir, "tls.key"))).To(BeEquivalentTo(older["tls.key"]))
}
