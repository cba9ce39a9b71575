package clientcert

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// traffic makes requests without a pause until its stop, and counts those that fail.
type traffic struct {
	done, failed atomic.Int64
	watched      atomic.Int64
	first        atomic.Pointer[error]
	stop         func()
}

func (l *traffic) fail(err error) {
	l.failed.Add(1)
	l.first.CompareAndSwap(nil, &err)
}

// newTraffic reads the Cluster as the agent from several goroutines, and watches it from another, through one client
// whose credential source keeps.
func newTraffic(b *env, source clients.Source) *traffic {
	b.T.Helper()
	config, err := clients.Rotating(source, b.Server.Config.Host, "load")
	b.Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	scheme, err := clients.Scheme()
	b.Expect(err).NotTo(HaveOccurred())
	agent, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: clients.Mapper()})
	b.Expect(err).NotTo(HaveOccurred())
	l := &traffic{}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for ctx.Err() == nil {
				err := agent.Get(ctx, client.ObjectKey{Name: b.cluster}, &v1alpha1.Cluster{})
				if err != nil && ctx.Err() == nil {
					l.fail(err)
				}
				l.done.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	group.Go(func() { l.watch(ctx, agent, b.cluster) })
	l.stop = sync.OnceFunc(func() { cancel(); group.Wait() })
	b.T.Cleanup(l.stop)
	return l
}

// watch holds one watch open over all rotations.
func (l *traffic) watch(ctx context.Context, agent client.WithWatch, cluster string) {
	watcher, err := agent.Watch(ctx, &v1alpha1.ClusterList{}, client.MatchingFields{metav1.ObjectNameField: cluster})
	if err != nil {
		l.fail(err)
		return
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-watcher.ResultChan():
			if !ok {
				if ctx.Err() == nil {
					l.fail(errors.New("the watch was broken"))
				}
				return
			}
			l.watched.Add(1)
		}
	}
}

func (l *traffic) expectNoFailure(b *env) {
	b.T.Helper()
	l.stop()
	if l.failed.Load() > 0 {
		b.T.Errorf("%d of %d requests failed, the first with %v", l.failed.Load(), l.done.Load(), *l.first.Load())
	}
	b.T.Logf("%d requests, %d failed", l.done.Load(), l.failed.Load())
}

// A certificate of one hour is renewed again and again, signed by the real signer, while requests continue.
func TestRotationFailsNoRequest(t *testing.T) {
	const rotations = 8
	b := newEnv(t)
	b.join()
	b.approveAll()
	// Without the bootstrap kubeconfig it asks with its own certificate each time. The agent's clock runs ahead of
	// the hub's more and more, and in the end every certificate is one that has expired already by it.
	b.Expect(os.Remove(b.path)).To(Succeed())
	l := newTraffic(b, b.manager)
	b.Eventually(l.watched.Load).Should(BeNumerically(">", 0))

	// The first one is not renewed before a quarter of its lifetime is left, and it is when a fifth is.
	first := b.manager.present
	lifetime := first.NotAfter.Sub(first.NotBefore)
	b.Clock.SetTime(first.NotAfter.Add(-lifetime*25/100 - time.Second))
	b.Consistently(func() float64 { return b.counted(resultIssued) }).WithTimeout(time.Second).Should(Equal(1.0))
	b.Clock.SetTime(first.NotAfter.Add(-lifetime * 20 / 100))
	keys := map[string]bool{string(first.Key): true}
	for n := 2; n <= rotations+1; n++ {
		b.soon(func() bool { return b.counted(resultIssued) == float64(n) }, "rotation %d", n)
		var key []byte
		b.Eventually(func() bool { key = b.stored(privateKeyKey); return keys[string(key)] }).Should(BeFalse(), "a new key each time")
		keys[string(key)] = true
		b.Expect(b.request().Spec.Username).To(Equal(v1alpha1.AgentUserPrefix+b.cluster), "asked for with its own certificate")
		before := l.done.Load()
		b.Eventually(l.done.Load).WithTimeout(agenttest.Wait).Should(BeNumerically(">", before+100), "requests continue")
		b.Clock.SetTime(b.manager.heldNow().RenewAt)
	}
	// The watch that started with the first certificate still brings events.
	before := l.watched.Load()
	b.accept()
	b.Eventually(l.watched.Load).WithTimeout(agenttest.Wait).Should(BeNumerically(">", before))
	l.expectNoFailure(b)
}

func TestACertificateThatIsNotRenewedInTimeIsAskedForUntilItComes(t *testing.T) {
	b := newEnv(t)
	b.join()
	b.Clock.SetTime(b.manager.heldNow().RenewAt)
	b.decide(certificatesv1.CertificateDenied, "Later", "not now")
	b.soon(func() bool { return b.counted(resultDenied) == 1 }, "a denial")
	config, _, err := b.manager.Current()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(b.get(config)).To(Succeed(), "the current one is used meanwhile")
	b.approveAll()
	b.pass(5*time.Minute, 5*time.Second, func() bool { return b.counted(resultIssued) == 2 }, "a new credential")
}

// serving replaces the API server's certificate, as a rotation of its authority does, and waits until it is used.
func serving(b *env, certificate, key []byte) {
	b.T.Helper()
	pki := filepath.Join(b.Server.Cluster.Dir(), "pki")
	b.Expect(os.WriteFile(filepath.Join(pki, "kube-apiserver.key"), key, 0o600)).To(Succeed())
	b.Expect(os.WriteFile(filepath.Join(pki, "kube-apiserver.crt"), certificate, 0o600)).To(Succeed())
	b.Eventually(func() ([]byte, error) { return presented(b.Server.Config.Host) }).WithTimeout(2*agenttest.Wait).
		Should(Equal(leafOf(b, certificate)), "the API server takes the new certificate")
}

// anyone accepts every identity.
func anyone(context.Context, *rest.Config) error { return nil }

func TestRotatedAuthorityOfTheHub(t *testing.T) {
	b := newEnv(t)
	b.join()
	token := b.manager.bootstrap.token
	followed := filepath.Join(b.dir, kubeconfigKey)
	files, err := NewFiles(followed, b.Clock, logr.Discard(), anyone)
	b.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = files.Run(ctx) }()
	loads := []*traffic{newTraffic(b, b.manager), newTraffic(b, files)}

	pki := filepath.Join(b.Server.Cluster.Dir(), "pki")
	oldCertificate, err := os.ReadFile(filepath.Join(pki, "kube-apiserver.crt"))
	b.Expect(err).NotTo(HaveOccurred())
	oldKey, err := os.ReadFile(filepath.Join(pki, "kube-apiserver.key"))
	b.Expect(err).NotTo(HaveOccurred())
	second := newAuthority(t)
	oldCA, both := b.Server.Config.CAData, append(append(bytes.Clone(b.Server.Config.CAData), '\n'), second.pem...)
	trusts := func(ca []byte) {
		t.Helper()
		b.bootstrapWith(token, ca)
		b.soon(func() bool {
			own, _, _ := b.manager.Current()
			other, _, _ := files.Current()
			return bytes.Equal(own.CAData, ca) && bytes.Equal(other.CAData, ca)
		}, "both follow the authorities; the one through what the other stores")
		for _, l := range loads {
			before := l.done.Load()
			b.Eventually(l.done.Load).WithTimeout(agenttest.Wait).Should(BeNumerically(">", before+100))
		}
	}

	trusts(both)
	certificate, key := second.server(t)
	serving(b, certificate, key)
	trusts(second.pem)
	trusts(both)
	serving(b, oldCertificate, oldKey)
	trusts(oldCA)
	for _, l := range loads {
		l.expectNoFailure(b)
	}

	// An authority that the server's certificate is not of is refused, and said.
	b.stop()
	b.bootstrapWith(token, second.pem)
	b.dir = filepath.Join(t.TempDir(), "another")
	b.run()
	b.expectWaiting("certificate signed by unknown authority")
	b.bootstrapWith(token, oldCA)
	b.approveAll()
	b.soon(b.ready, "a credential")
}

func TestHalfWrittenFilesAreNotFollowed(t *testing.T) {
	b := newEnv(t)
	b.join()
	b.stop()
	log := &buffer{}
	files, err := NewFiles(filepath.Join(b.dir, kubeconfigKey), b.Clock, logr.Discard(), anyone)
	b.Expect(err).NotTo(HaveOccurred())
	_, version, err := files.Current()
	b.Expect(err).NotTo(HaveOccurred())
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(os.WriteFile(filepath.Join(b.dir, privateKeyKey), key, 0o600)).To(Succeed())
	err = files.followChange(t.Context())
	b.Expect(err).To(MatchError(ContainSubstring("private key does not match public key")))
	_, same, err := files.Current()
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(same).To(Equal(version), "what was read last is used: %s", log)
}
