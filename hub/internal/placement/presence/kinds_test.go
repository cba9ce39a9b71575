package presence

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const patience = 30 * time.Second

// A hub that runs learns that the kinds are installed, that they change, and that they are gone.
// Claim: Only the Placement's own decisions choose clusters. Broken: the label, the namespace, the time of the deletion are not looked at. Also: hub/internal/placement TestDecisionsAreCompleteByTheClustersInThem, hub/internal/placement TestAPlacementThatIsBeingDeletedIsNotFound.
func TestKindsComeAndGo(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	kinds := &Kinds{}
	_, err := kinds.Cached()
	g.Expect(err).To(MatchError(placement.ErrStarting))
	run, err := manager.New(testenv.Server().Config, manager.Options{Scheme: scheme.New(), Metrics: server.Options{BindAddress: "0"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kinds.SetupWithManager(run)).To(Succeed())
	news := kinds.News()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run.Start(ctx) }()
	defer func() { cancel(); g.Eventually(ended).Should(Receive(BeNil())) }()
	absent := func() error { _, err := kinds.Cached(); return err }
	g.Eventually(absent).Should(MatchError(placement.ErrNotInstalled))
	g.Expect(func() error { _, err := kinds.Live(); return err }()).To(MatchError(placement.ErrNotInstalled))

	for range 2 {
		g.Expect(testenv.Placements.Install(ctx, testenv.Server().Client)).To(Succeed())
		g.Eventually(absent).Should(Succeed())
		for len(news) > 0 {
			<-news
		}
		known := scheme.New()
		g.Expect(placement.AddToScheme(known)).To(Succeed())
		api, err := client.New(testenv.Server().Config, client.Options{Scheme: known})
		g.Expect(err).NotTo(HaveOccurred())
		ref := v1alpha1.PlacementReference{Namespace: "default", Name: "workers"}
		chosen := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
		g.Eventually(func() error { return api.Create(ctx, chosen) }).Should(Succeed())
		decision := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
			Namespace: ref.Namespace, Name: "d", Labels: map[string]string{clusterv1beta1.PlacementLabel: ref.Name, clusterv1beta1.DecisionGroupNameLabel: "canary"},
		}}
		g.Eventually(func() error { return api.Create(ctx, decision) }).Should(Succeed())
		decision.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: "c1"}, {ClusterName: ""}}
		g.Expect(api.Status().Update(ctx, decision)).To(Succeed())
		for i, other := range []metav1.ObjectMeta{
			{Namespace: ref.Namespace, Labels: map[string]string{clusterv1beta1.PlacementLabel: "others"}},
			{Namespace: "kube-public", Labels: map[string]string{clusterv1beta1.PlacementLabel: ref.Name}},
		} {
			other.Name = fmt.Sprintf("other-%d", i)
			unrelated := &clusterv1beta1.PlacementDecision{ObjectMeta: other}
			g.Expect(api.Create(ctx, unrelated)).To(Succeed())
			unrelated.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: "c2"}}
			g.Expect(api.Status().Update(ctx, unrelated)).To(Succeed())
		}
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
		for range 2 { // The Placement, and its decision.
			g.Eventually(func(g Gomega) {
				changed := <-news
				g.Expect(Concerns(changed.Object, &ref)).To(BeTrue())
				g.Expect(Concerns(changed.Object, &v1alpha1.PlacementReference{Namespace: "default", Name: "others"})).To(BeFalse())
				g.Expect(Concerns(changed.Object, nil)).To(BeFalse())
			}).Should(Succeed())
		}
		g.Expect(testenv.Placements.Uninstall(ctx, testenv.Server().Client)).To(Succeed())
		g.Eventually(absent).Should(MatchError(placement.ErrNotInstalled))
	}
}

// A client that asks which kinds there are finds out by itself that these are not.
func TestAUserReadsThePlacementsToo(t *testing.T) {
	g := NewWithT(t)
	known := scheme.New()
	g.Expect(placement.AddToScheme(known)).To(Succeed())
	api, err := client.New(testenv.Server().Config, client.Options{Scheme: known})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = placement.Read(t.Context(), api, v1alpha1.PlacementReference{Namespace: "default", Name: "workers"})
	g.Expect(err).To(MatchError(placement.ErrNotInstalled))
}
