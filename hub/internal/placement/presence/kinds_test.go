package presence

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/foreignkinds"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const patience = 30 * time.Second

// Claim: Only the Placement's own decisions choose clusters. Broken: the label, the namespace, the time of the deletion are not looked at. Also: hub/internal/placement TestDecisionsAreCompleteByTheClustersInThem, hub/internal/placement TestAPlacementThatIsBeingDeletedIsNotFound.
func TestPlacementsAreReadAndFollowed(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	g.Expect(testenv.Placements.Install(t.Context(), testenv.Server().Client)).To(Succeed())
	known := scheme.New()
	g.Expect(placement.AddToScheme(known)).To(Succeed())
	run, err := manager.New(testenv.Server().Config, manager.Options{Scheme: known, Metrics: server.Options{BindAddress: "0"}})
	g.Expect(err).NotTo(HaveOccurred())
	kinds, news := newKinds(t, run), make(chan v1alpha1.PlacementReference, 1000)
	_, err = kinds.Cached()
	g.Expect(err).To(MatchError(placement.ErrStarting))
	watching := kinds.Watch(builder.ControllerManagedBy(run).Named("test"), func(_ context.Context, changed v1alpha1.PlacementReference) []reconcile.Request {
		news <- changed
		return nil
	})
	g.Expect(watching.Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run.Start(ctx) }()
	defer func() { cancel(); g.Eventually(ended).Should(Receive(BeNil())) }()

	api, err := client.New(testenv.Server().Config, client.Options{Scheme: known})
	g.Expect(err).NotTo(HaveOccurred())
	ref := v1alpha1.PlacementReference{Namespace: "default", Name: "workers"}
	chosen := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	g.Eventually(news).Should(Receive(Equal(v1alpha1.PlacementReference{})), "all have been read")
	g.Eventually(func() error { return api.Create(ctx, chosen) }).Should(Succeed())
	g.Eventually(news).Should(Receive(Equal(ref)), "the Placement")
	decision := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: ref.Namespace, Name: "d", Labels: map[string]string{clusterv1beta1.PlacementLabel: ref.Name, clusterv1beta1.DecisionGroupNameLabel: "canary"},
	}}
	g.Eventually(func() error { return api.Create(ctx, decision) }).Should(Succeed())
	g.Eventually(news).Should(Receive(Equal(ref)), "its decision")
	decision.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: "c1"}, {ClusterName: ""}}
	g.Expect(api.Status().Update(ctx, decision)).To(Succeed())
	g.Eventually(news).Should(Receive(Equal(ref)), "what is decided")
	for i, other := range []metav1.ObjectMeta{
		{Namespace: ref.Namespace, Labels: map[string]string{clusterv1beta1.PlacementLabel: "others"}},
		{Namespace: "kube-public", Labels: map[string]string{clusterv1beta1.PlacementLabel: ref.Name}},
	} {
		other.Name = fmt.Sprintf("other-%d", i)
		unrelated := &clusterv1beta1.PlacementDecision{ObjectMeta: other}
		g.Expect(api.Create(ctx, unrelated)).To(Succeed())
		unrelated.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: "c2"}}
		g.Expect(api.Status().Update(ctx, unrelated)).To(Succeed())
		of := v1alpha1.PlacementReference{Namespace: other.Namespace, Name: other.Labels[clusterv1beta1.PlacementLabel]}
		g.Eventually(news).Should(Receive(Equal(of)))
		g.Expect(Concerns(of, &ref)).To(BeFalse())
	}
	g.Expect(Concerns(ref, &ref)).To(BeTrue())
	g.Expect(Concerns(ref, nil)).To(BeFalse())
	g.Expect(Concerns(v1alpha1.PlacementReference{}, &ref)).To(BeTrue())
	for _, get := range []func() (client.Reader, error){kinds.Cached, kinds.Live} {
		g.Eventually(func(g Gomega) {
			reader, err := get()
			g.Expect(err).NotTo(HaveOccurred())
			found, err := placement.Read(ctx, reader, ref)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.Groups).To(Equal(map[string]string{"c1": "canary"}))
			g.Expect(found.Complete()).To(BeFalse(), "the Placement does not say so yet")
		}).Should(Succeed())
	}
}

func newKinds(t *testing.T, run manager.Manager) *Kinds {
	t.Helper()
	g := NewWithT(t)
	var installed *foreignkinds.Installed
	g.Eventually(func(g Gomega) {
		var err error
		installed, err = foreignkinds.Find(t.Context(), testenv.Server().Config)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(installed.Has(foreignkinds.Placements, foreignkinds.PlacementDecisions)).To(BeTrue())
	}).WithTimeout(patience).Should(Succeed())
	kinds, err := New(run, installed)
	g.Expect(err).NotTo(HaveOccurred())
	return kinds
}

func TestKindsThatAreNotInstalledAreNotRead(t *testing.T) {
	g, kinds := NewWithT(t), &Kinds{}
	for _, get := range []func() (client.Reader, error){kinds.Cached, kinds.Live} {
		_, err := get()
		g.Expect(err).To(MatchError(placement.ErrNotInstalled))
	}
	g.Expect(kinds.Watch(nil, nil)).To(BeNil(), "nothing is watched")
}

// A client that asks which kinds there are finds out by itself that these are not.
func TestAUserReadsThePlacementsToo(t *testing.T) {
	g := NewWithT(t)
	g.Expect(testenv.Placements.Uninstall(t.Context(), testenv.Server().Client)).To(Succeed())
	known := scheme.New()
	g.Expect(placement.AddToScheme(known)).To(Succeed())
	api, err := client.New(testenv.Server().Config, client.Options{Scheme: known})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = placement.Read(t.Context(), api, v1alpha1.PlacementReference{Namespace: "default", Name: "workers"})
	g.Expect(err).To(MatchError(placement.ErrNotInstalled))
}
