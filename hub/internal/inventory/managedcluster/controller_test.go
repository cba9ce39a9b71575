package managedcluster

import (
	"context"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/hub/internal/foreignkinds"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

var install sync.Once

func TestMain(m *testing.M) { testenv.Main(m) }

// env is one name, a controller that is called by hand, and a client that counts its writes.
type env struct {
	*testenv.Env
	// named is a Cluster that has nothing but its name.
	named *v1alpha1.Cluster
	logic *Controller
}

func newEnv(t *testing.T) *env {
	t.Helper()
	f := &env{Env: testenv.NewEnv(t), named: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name()}}}
	install.Do(func() { f.Expect(testenv.ManagedClusters.Install(t.Context(), f.Server.Client)).To(Succeed()) })
	known := scheme.New()
	f.Expect(clusterv1.Install(known)).To(Succeed())
	var err error
	f.Client, err = client.NewWithWatch(f.Server.Config, client.Options{Scheme: known})
	f.Expect(err).NotTo(HaveOccurred())
	counted := f.Writes.Count(f.Client)
	f.logic, err = New(Deps{
		Access: inventory.Access{Clusters: counted, Objects: counted, Client: counted}, Recorder: f.Recorder, Clock: f.Clock,
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = f.logic
	return f
}

// settle lets the controller act until it writes no more.
func (f *env) settle() reconcile.Result {
	f.T.Helper()
	for range 4 {
		result := f.ExpectReconciled(f.named)
		if f.Writes.Total() == 0 {
			return result
		}
	}
	f.T.Fatal("the controller does not come to rest")
	return reconcile.Result{}
}

func (f *env) cluster() *v1alpha1.Cluster {
	f.T.Helper()
	cluster := healthy(f.named.Name)
	status := cluster.Status
	f.ExpectApplied(cluster)
	cluster.Status = status
	for i := range cluster.Status.Conditions {
		cluster.Status.Conditions[i].LastTransitionTime = metav1.NewTime(start)
	}
	f.ExpectStatusApplied(cluster)
	return cluster
}

// foreign creates a ManagedCluster as Open Cluster Management's agent does.
func (f *env) foreign(labels map[string]string) *clusterv1.ManagedCluster {
	f.T.Helper()
	managed := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.named.Name, Labels: labels}}
	f.ExpectApplied(managed)
	return managed
}

func (f *env) accept(managed *clusterv1.ManagedCluster) {
	f.T.Helper()
	managed.Spec.HubAcceptsClient = true
	f.ExpectApplied(managed)
	meta.SetStatusCondition(&managed.Status.Conditions, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue, Reason: "HubClusterAdminAccepted",
	})
	f.ExpectStatusApplied(managed)
}

func (f *env) managed() *clusterv1.ManagedCluster {
	f.T.Helper()
	managed := &clusterv1.ManagedCluster{}
	err := f.Client.Get(f.T.Context(), client.ObjectKey{Name: f.named.Name}, managed)
	if apierrors.IsNotFound(err) {
		return nil
	}
	f.Expect(err).NotTo(HaveOccurred())
	return managed
}

func (f *env) read() *v1alpha1.Cluster {
	f.T.Helper()
	cluster := &v1alpha1.Cluster{}
	err := f.Client.Get(f.T.Context(), client.ObjectKey{Name: f.named.Name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil
	}
	f.Expect(err).NotTo(HaveOccurred())
	return cluster
}

func TestClusterIsMirroredAndThenNotWrittenAgain(t *testing.T) {
	f := newEnv(t)
	cluster := f.cluster()
	f.ExpectReconciled(f.named)
	f.Expect(f.Writes.Counts()).To(Equal(map[string]int{"create ManagedCluster": 1, "patch ManagedCluster/status": 1, "patch ManagedCluster": 1}))
	f.settle()
	shown := f.managed()
	f.Expect(shown.Labels).To(HaveKeyWithValue("env", "test"))
	f.Expect(shown.Labels).To(HaveKeyWithValue(v1alpha1.ManagedByLabel, v1alpha1.ManagedByHub))
	f.Expect(shown.Labels).NotTo(HaveKey(v1alpha1.ImportLabel))
	f.Expect(shown.Spec.HubAcceptsClient).To(BeFalse())
	f.Expect(shown.Status.Version.Kubernetes).To(Equal("v1.37.1"))
	f.Expect(shown.Status.Capacity).To(HaveKeyWithValue(clusterv1.ResourceCPU, resource.MustParse("8")))
	f.Expect(meta.IsStatusConditionTrue(shown.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)).To(BeTrue())
	f.Expect(shown.ManagedFields).To(HaveEach(HaveField("Manager", "hollowfleet-hub")))

	for _, state := range []metav1.ConditionStatus{metav1.ConditionUnknown, metav1.ConditionTrue} {
		say(cluster, v1alpha1.ClusterAgentConnectedCondition, state)
		f.ExpectStatusApplied(cluster)
		f.ExpectReconciled(f.named)
		f.Expect(f.Writes.Counts()).To(Equal(map[string]int{"patch ManagedCluster": 1, "patch ManagedCluster/status": 1}))
		f.settle()
		shown = f.managed()
		f.Expect(meta.FindStatusCondition(shown.Status.Conditions, clusterv1.ManagedClusterConditionAvailable).Status).To(Equal(state))
		if state == metav1.ConditionUnknown {
			f.Expect(shown.Spec.Taints).To(ConsistOf(taint(clusterv1.ManagedClusterTaintUnreachable)))
		} else {
			f.Expect(shown.Spec.Taints).To(BeEmpty())
		}
	}
	f.Expect(f.read().Labels).To(Equal(cluster.Labels), "the Cluster is the user's")
	f.Expect(f.Events()).To(BeEmpty())
}

func TestCapacityIsWrittenNowAndThen(t *testing.T) {
	f := newEnv(t)
	cluster := f.cluster()
	f.settle()
	cluster.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("9")
	f.ExpectStatusApplied(cluster)
	f.Expect(f.settle().RequeueAfter).To(Equal(reconciler.StatusInterval))
	f.Expect(f.managed().Status.Capacity).To(HaveKeyWithValue(clusterv1.ResourceCPU, resource.MustParse("8")))
	f.Clock.Step(reconciler.StatusInterval)
	f.Expect(f.settle().RequeueAfter).To(BeZero())
	f.Expect(f.managed().Status.Capacity).To(HaveKeyWithValue(clusterv1.ResourceCPU, resource.MustParse("9")))
}

func TestMirrorGoesWithItsCluster(t *testing.T) {
	f := newEnv(t)
	cluster := f.cluster()
	f.settle()
	f.ExpectDeleted(cluster)
	f.settle()
	f.Expect(f.managed()).To(BeNil())
}

// TestMirrorStaysIfTheCacheKnowsNoCluster has a cache that is behind.
func TestMirrorStaysIfTheCacheKnowsNoCluster(t *testing.T) {
	f := newEnv(t)
	f.cluster()
	f.settle()
	f.logic.Clusters = emptyReader{f.Client}
	f.settle()
	f.Expect(f.managed()).NotTo(BeNil())
}

// emptyReader finds nothing.
type emptyReader struct{ client.Reader }

func (emptyReader) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("clusters").GroupResource(), key.Name)
}

func TestManagedClusterOfSomebodyElseIsNotTakenOver(t *testing.T) {
	f := newEnv(t)
	foreign := f.foreign(map[string]string{"theirs": "x"})
	f.cluster()
	f.settle()
	f.settle()
	f.Expect(f.managed().ResourceVersion).To(Equal(foreign.ResourceVersion), "it was written")
	condition := meta.FindStatusCondition(f.read().Status.Conditions, v1alpha1.ClusterMirroredCondition)
	f.Expect(condition).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonManagedClusterConflict)))
	f.Expect(f.Events()).To(HaveExactElements(HavePrefix("Warning "+v1alpha1.ReasonManagedClusterConflict)), "told once")

	f.ExpectDeleted(foreign)
	f.settle()
	f.Expect(f.managed().Labels).To(HaveKey(v1alpha1.ManagedByLabel))
	f.Expect(meta.FindStatusCondition(f.read().Status.Conditions, v1alpha1.ClusterMirroredCondition)).To(BeNil())

	f.ExpectDeleted(f.read())
	f.settle()
	f.Expect(f.managed()).To(BeNil())
}

func TestForeignManagedClusterOutlivesTheCluster(t *testing.T) {
	f := newEnv(t)
	foreign := f.foreign(nil)
	cluster := f.cluster()
	f.settle()
	f.ExpectDeleted(cluster)
	f.settle()
	f.Expect(f.managed().ResourceVersion).To(Equal(foreign.ResourceVersion))
}

func TestMirrorThatIsAcceptedIsLeftToOpenClusterManagement(t *testing.T) {
	f := newEnv(t)
	cluster := f.cluster()
	f.settle()
	f.accept(f.managed())
	f.settle()
	left := f.managed()
	f.Expect(left.Labels).NotTo(HaveKey(v1alpha1.ManagedByLabel))
	f.Expect(f.Events()).To(HaveExactElements(HavePrefix("Warning MirrorReleased"), HavePrefix("Warning "+v1alpha1.ReasonManagedClusterConflict)))
	f.ExpectDeleted(cluster)
	f.settle()
	f.Expect(f.managed().ResourceVersion).To(Equal(left.ResourceVersion), "it is written or deleted")
}

func TestAcceptedManagedClusterIsTakenOnIfAskedFor(t *testing.T) {
	f := newEnv(t)
	managed := f.foreign(map[string]string{"env": "prod", "cluster.open-cluster-management.io/clusterset": "default"})
	f.settle()
	f.accept(managed)
	f.settle()
	f.Expect(f.read()).To(BeNil(), "it was not asked for")
	managed.Labels[v1alpha1.ImportLabel] = "true"
	f.ExpectApplied(managed)
	f.settle()
	cluster := f.read()
	f.Expect(cluster.Spec.Acceptance).To(Equal(v1alpha1.AcceptancePending))
	f.Expect(cluster.Spec.AcceptancePolicy).To(Equal(v1alpha1.AcceptanceManual))
	f.Expect(cluster.Labels).To(Equal(map[string]string{"env": "prod", v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub}))
	f.Expect(cluster.Annotations).To(HaveKeyWithValue(v1alpha1.ImportedFromAnnotation, foreignkinds.ManagedClusters.Definition+"/"+f.named.Name))
	f.Expect(f.managed().ResourceVersion).To(Equal(managed.ResourceVersion), "the origin was written")
	f.Expect(f.Events()).To(HaveExactElements(And(HavePrefix("Normal Imported"), ContainSubstring("Label namespace "+f.named.Name))))

	cluster.Labels["mine"] = "x"
	f.ExpectApplied(cluster)
	managed.Labels["env"], managed.Labels["more"] = "test", "y"
	f.ExpectApplied(managed)
	f.settle()
	f.Expect(f.read().Labels).To(Equal(map[string]string{"env": "test", "more": "y", "mine": "x", v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub}))

	delete(managed.Labels, v1alpha1.ImportLabel)
	f.ExpectApplied(managed)
	f.settle()
	f.ExpectDeleted(managed)
	f.settle()
	f.settle()
	f.Expect(f.read().DeletionTimestamp).To(BeNil())
	f.Expect(f.managed()).To(BeNil(), "what came from there is not mirrored back")
	f.Expect(f.Events()).To(HaveExactElements(HavePrefix("Normal ImportEnded"), HavePrefix("Warning ImportOriginGone")))
}

func TestManagedClusterThatIsNotAcceptedIsNotTakenOn(t *testing.T) {
	f := newEnv(t)
	f.foreign(map[string]string{v1alpha1.ImportLabel: "true"})
	f.settle()
	f.Expect(f.read()).To(BeNil())
}

func TestImportUnderANameThatNoClusterCanHaveIsRefusedOnce(t *testing.T) {
	f := newEnv(t)
	f.named.Name = "kube-" + f.named.Name
	f.accept(f.foreign(map[string]string{v1alpha1.ImportLabel: "true"}))
	for range 2 {
		f.ExpectReconciled(f.named)
	}
	f.Expect(f.read()).To(BeNil())
	f.Expect(f.Events()).To(HaveExactElements(And(HavePrefix("Warning ImportRefused"), ContainSubstring("reserved"))))
}

func TestForgetTakesTheConditionAway(t *testing.T) {
	f := newEnv(t)
	f.foreign(nil)
	f.cluster()
	f.settle()
	f.Expect(meta.FindStatusCondition(f.read().Status.Conditions, v1alpha1.ClusterMirroredCondition)).NotTo(BeNil())
	f.Expect(removeConditions(t.Context(), f.Client)).To(Succeed())
	f.Expect(meta.FindStatusCondition(f.read().Status.Conditions, v1alpha1.ClusterMirroredCondition)).To(BeNil())
	f.Expect(f.read().Status.Conditions).To(HaveLen(3), "the others stay")
}

// Edge case: Refused mirrors were only logged. Also: TestTheHubMayJoinTheDefaultClusterSet; test/integration/ocm "should create and change mirrors, which are put into the default ManagedClusterSet", "should say what the webhooks refuse and what to do, and recover".
func TestAMirrorThatIsRefusedIsToldAndTriedAgain(t *testing.T) {
	f := newEnv(t)
	f.cluster()
	limited := rest.CopyConfig(f.Server.Config)
	limited.Impersonate = rest.ImpersonationConfig{UserName: "hub-without-rights"}
	without, err := client.NewWithWatch(limited, client.Options{Scheme: f.Client.Scheme()})
	f.Expect(err).NotTo(HaveOccurred())
	allowed := f.logic.Client
	f.logic.Client = interceptor.NewClient(f.Client, interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return without.Create(ctx, object, options...)
		},
	})
	for range 2 {
		result := f.ExpectReconciled(f.named)
		f.Expect(result.RequeueAfter).To(Equal(refusedRetry))
	}
	cluster := &v1alpha1.Cluster{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.named.Name}, cluster)).To(Succeed())
	mirrored := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterMirroredCondition)
	f.Expect(mirrored).To(HaveValue(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonMirrorRefused),
		HaveField("Message", ContainSubstring("hub-without-rights")))))
	f.Expect(f.Events()).To(HaveExactElements(HavePrefix("Warning "+v1alpha1.ReasonMirrorRefused)), "told once")

	f.logic.Client = allowed
	f.settle()
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.named.Name}, &clusterv1.ManagedCluster{})).To(Succeed())
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.named.Name}, cluster)).To(Succeed())
	f.Expect(meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterMirroredCondition)).To(BeNil())
}

func TestTheHubMayJoinTheDefaultClusterSet(t *testing.T) {
	f := newEnv(t)
	f.Expect(config.Apply(t.Context(), f.Client, config.RBAC, "rbac/hub")).To(Succeed())
	may := func(set string) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "hub", Groups: []string{"hollowfleet:hub"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: clusterv1.GroupName, Resource: "managedclustersets", Subresource: "join", Name: set, Verb: "create",
			},
		}}
		err := f.Client.Create(t.Context(), review)
		return review.Status.Allowed, err
	}
	f.Eventually(func() (bool, error) { return may("default") }).WithTimeout(time.Minute).Should(BeTrue(), "Open Cluster Management's webhook asks for it")
	f.Expect(may("another")).To(BeFalse())
}
