package clientcert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
)

// Edge case: An administrator's kubeconfig was followed. Also: agent TestAnotherIdentityIsNotTakenWhileTheAgentRuns.
func TestAnotherIdentityIsNotFollowed(t *testing.T) {
	g, path := NewWithT(t), filepath.Join(t.TempDir(), "hub.kubeconfig")
	write := func(token string) {
		config := newKubeconfig(&clientcmdapi.Cluster{Server: "https://192.0.2.1"}, &clientcmdapi.AuthInfo{Token: token})
		g.Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
	}
	asked, away := 0, errors.New("the hub does not answer")
	write("own-1")
	files, err := NewFiles(path, clock.RealClock{}, logr.Discard(), func(_ context.Context, config *rest.Config) error {
		asked++
		switch config.BearerToken {
		case "own-2":
			return nil
		case "unknown":
			return away
		}
		return &IdentityError{"another identity"}
	})
	g.Expect(err).NotTo(HaveOccurred())
	used := func() string {
		config, _, err := files.Current()
		g.Expect(err).NotTo(HaveOccurred())
		return config.BearerToken
	}
	g.Expect(files.followChange(t.Context())).To(Succeed())
	g.Expect(asked).To(BeZero(), "nothing has changed")
	write("admin")
	for range 2 {
		g.Expect(files.followChange(t.Context())).To(MatchError(ContainSubstring("another identity")))
	}
	g.Expect(used()).To(Equal("own-1"))
	g.Expect(asked).To(Equal(1), "the hub is asked once about what it has refused")
	write("unknown")
	g.Expect(files.followChange(t.Context())).To(MatchError(away))
	g.Expect(files.followChange(t.Context())).To(MatchError(away))
	g.Expect(asked).To(Equal(3), "it is asked again until it answers")
	g.Expect(os.WriteFile(path, []byte("half"), 0o600)).To(Succeed())
	g.Expect(files.followChange(t.Context())).NotTo(Succeed())
	g.Expect(used()).To(Equal("own-1"))
	write("own-2")
	g.Expect(files.followChange(t.Context())).To(Succeed())
	g.Expect(used()).To(Equal("own-2"))
}
