package hubidentity

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

var errAway = errors.New("the target is away")

// env is a Verifier with a hub and a store, one API server both, which the test asks to look.
type env struct {
	*testenv.Env
	name string
	// away: the store cannot be reached. instances is what the cluster has.
	away      bool
	instances int

	verifier *Verifier
	last     *v1alpha1.Cluster
}

func newEnv(t *testing.T) *env {
	t.Helper()
	b := &env{Env: agenttest.NewEnv(t)}
	b.Clock.SetTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	b.name = agenttest.Namespace(t, b.Client)
	b.ExpectApplied(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: b.name}})
	b.restart()
	return b
}

// restart starts with a new process.
func (b *env) restart() {
	b.T.Helper()
	refuse := func() error {
		if b.away {
			return errAway
		}
		return nil
	}
	store := interceptor.NewClient(b.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			return errors.Join(refuse(), c.Get(ctx, key, o, options...))
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if b.away {
				return errAway
			}
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if b.away {
				return errAway
			}
			return c.Update(ctx, o, options...)
		},
	})
	b.last = nil
	verifier, err := New(Deps{
		Cluster: b.name, Store: NewStore(store, b.name, b.name), Hub: b.Client,
		Last:    b,
		Changed: func() {},
		Runtime: poll.Runtime{Clock: b.Clock, Log: logr.Discard()}, Metrics: NewMetrics(prometheus.NewRegistry()),
	})
	b.Expect(err).NotTo(HaveOccurred())
	verifier.SetInstanceCounter(func(context.Context) (int, error) { return b.instances, nil })
	b.verifier = verifier
}

func (b *env) lease() *coordinationv1.Lease {
	b.T.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: v1alpha1.AgentLeaseName}}
	b.Expect(client.IgnoreNotFound(b.Client.Get(b.T.Context(), client.ObjectKeyFromObject(lease), lease))).To(Succeed())
	return lease
}

// renew does what the reporter does: read if it has just started, and write.
func (b *env) renew(read bool) {
	b.T.Helper()
	lease := b.lease()
	if read {
		b.Expect(b.verifier.CheckLease(b.T.Context(), lease)).To(Succeed())
	}
	b.Clock.Step(10 * time.Second)
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(b.Clock.Now()))
	b.verifier.Renewing(b.T.Context(), lease)
	if lease.ResourceVersion == "" {
		b.ExpectApplied(lease)
	} else {
		b.ExpectApplied(lease)
	}
	b.verifier.Renewed(lease)
}

// turnBack lets the Lease show a renewal that is so much older.
func (b *env) turnBack(by time.Duration) {
	b.T.Helper()
	lease := b.lease()
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(lease.Spec.RenewTime.Add(-by)))
	lease.Annotations = nil
	b.ExpectApplied(lease)
}

func (b *env) look() { b.verifier.attemptCheck(b.T.Context()) }

// acknowledge does what a person does about a finding, and looks.
func (b *env) acknowledge() {
	b.T.Helper()
	finding, known := b.verifier.Finding()
	b.Expect(known).To(BeTrue())
	b.Expect(finding).NotTo(BeEmpty())
	cluster := b.last.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, v1alpha1.AcknowledgeHubAnnotation, finding)
	b.last = cluster
	b.look()
	b.Expect(b.reason()).To(BeEmpty())
}

// reason is why the agent may not work for the hub.
func (b *env) reason() string {
	why, _ := b.verifier.Blocked()
	return why.Reason
}

func (b *env) machine() *v1alpha1.Machine {
	b.T.Helper()
	machine := agenttest.Machine(b.name, "m1")
	machine.Finalizers = nil
	machine.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}
	b.ExpectApplied(machine)
	return machine
}

// lose lets the hub lose its Machine, which no agent has let go.
func (b *env) lose() {
	b.T.Helper()
	b.Expect(b.Client.Delete(b.T.Context(), agenttest.Machine(b.name, "m1"))).To(Succeed())
}

// lookLater lets time pass until the hub is looked at again though nothing has happened.
func (b *env) lookLater() {
	b.T.Helper()
	b.Clock.Step(restingEvery)
	b.look()
}

// known is an env whose agent works for its hub, with one Machine and its instance.
func known(t *testing.T) *env {
	t.Helper()
	b := newEnv(t)
	b.machine()
	b.instances = 1
	b.renew(true)
	b.look()
	b.Expect(b.reason()).To(BeEmpty())
	b.renew(false)
	b.look()
	return b
}

func (b *env) kept() bool {
	b.T.Helper()
	_, kept := b.lease().Annotations[v1alpha1.ShownRenewalAnnotation]
	return kept
}

// Cluster implements clients.ClusterCache.
func (b *env) Cluster() *v1alpha1.Cluster { return b.last }

// Seen implements clients.ClusterCache.
func (b *env) Seen(cluster *v1alpha1.Cluster) { b.last = cluster }
