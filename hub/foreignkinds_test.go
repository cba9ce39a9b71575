package hub_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// foreign are the resources of other projects' kinds.
var foreign = []string{"managedclusters", "placements", "placementdecisions", "clusterprofiles"}

// holder is the hub that holds the Lease, or none.
func (r *env) holder() string {
	lease := &coordinationv1.Lease{}
	err := r.Client.Get(r.T.Context(), client.ObjectKey{Namespace: v1alpha1.HubNamespace, Name: v1alpha1.HubLeaseName}, lease)
	r.Expect(client.IgnoreNotFound(err)).To(Succeed())
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// Claim: An unreadable foreign kind holds up nothing else. Broken: they are in the cache of the hub, for all of which each controller waits.
func TestForeignKindsThatCannotBeReadHoldUpNothingElse(t *testing.T) {
	asked := make(chan string, 1000)
	var readable atomic.Bool
	r := start(t, func(options *hub.Options) {
		options.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				if path := request.URL.Path; !readable.Load() && !strings.Contains(path, "customresourcedefinitions") {
					for _, resource := range foreign {
						if strings.HasSuffix(path, "/"+resource) {
							select {
							case asked <- resource:
							default:
							}
							return nil, apierrors.NewInternalError(context.DeadlineExceeded)
						}
					}
				}
				return next.RoundTrip(request)
			})
		})
	})
	r.Eventually(r.holder).WithTimeout(time.Minute).ShouldNot(BeEmpty())
	first := r.holder()
	r.Expect(testenv.ManagedClusters.Install(t.Context(), r.Client)).To(Succeed())
	r.Expect(testenv.ClusterProfiles.Install(t.Context(), r.Client)).To(Succeed())
	r.Expect(testenv.Placements.Install(t.Context(), r.Client)).To(Succeed())
	t.Cleanup(func() {
		for _, kinds := range []testenv.Kinds{testenv.ManagedClusters, testenv.ClusterProfiles, testenv.Placements} {
			if err := kinds.Uninstall(context.Background(), r.Client); err != nil {
				t.Error(err)
			}
		}
	})
	seen := map[string]bool{}
	for len(seen) < len(foreign)-1 { // Decisions may not have been asked for yet.
		select {
		case resource := <-asked:
			seen[resource] = true
		case <-time.After(time.Minute):
			t.Fatalf("the hub has asked for %v only", seen)
		}
	}
	r.Expect(r.holder()).NotTo(Equal(first), "a hub that starts again is elected again")
	r.Eventually(func() int { return r.get(r.health, "/readyz") }).WithTimeout(time.Minute).Should(Equal(http.StatusOK))
	deployment := r.deployment(2)
	r.become(deployment, 2)
	labels := map[string]string{"app": "x"}
	fleet := &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name()}, Spec: v1alpha1.MachineFleetSpec{
		ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"no": "cluster"}},
		Template:        v1alpha1.MachineDeploymentTemplate{Spec: v1alpha1.MachineDeploymentTemplateSpec{Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels)}},
	}}
	r.ExpectApplied(fleet)
	r.Eventually(func() int64 {
		r.ExpectExists(fleet)
		return fleet.Status.ObservedGeneration
	}).WithTimeout(time.Minute).Should(Equal(fleet.Generation))

	readable.Store(true)
	r.Eventually(func() int { return r.Writes.Counts()["POST managedclusters"] }).WithTimeout(time.Minute).Should(BeNumerically(">", 0), "they are read as soon as they can be")
}

// A hub whose work cannot be ended within the grace period must not run beside the next one.
func TestWorkThatDoesNotEndEndsTheHub(t *testing.T) {
	g := testenv.NewEnv(t)
	g.Expect(install()).To(Succeed())
	release, blocked := make(chan struct{}), make(chan struct{}, 100)
	defer close(release)
	config := rest.CopyConfig(testenv.Server().Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if strings.HasSuffix(request.URL.Path, "/namespaces") && request.Method == http.MethodPost {
				blocked <- struct{}{}
				<-release
			}
			return next.RoundTrip(request)
		})
	})
	ended := make(chan error, 1)
	go func() { ended <- hub.Run(t.Context(), hub.Options{Config: config, ShutdownTimeout: time.Second}) }()
	g.ExpectApplied(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name()}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}})
	g.Eventually(blocked).WithTimeout(time.Minute).Should(Receive())
	g.Expect(testenv.ClusterProfiles.Install(t.Context(), g.Client)).To(Succeed())
	t.Cleanup(func() {
		if err := testenv.ClusterProfiles.Uninstall(context.Background(), g.Client); err != nil {
			t.Error(err)
		}
	})
	g.Eventually(ended).WithTimeout(time.Minute).Should(Receive(MatchError(ContainSubstring("failed waiting for all runnables to end"))))
}

func TestAHubThatIsEndedWhileItStartsReturnsNil(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	config := rest.CopyConfig(testenv.Server().Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			cancel()
			return next.RoundTrip(request)
		})
	})
	NewWithT(t).Expect(hub.Run(ctx, hub.Options{Config: config})).To(Succeed())
}
