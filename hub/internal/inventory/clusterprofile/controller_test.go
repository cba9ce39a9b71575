package clusterprofile

import (
	"context"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterprofilev1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

var install sync.Once

func TestMain(m *testing.M) { testenv.Main(m) }

const namespace = v1alpha1.HubNamespace

// env is one Cluster, a controller that is called by hand, and a client that counts its writes.
type env struct {
	*testenv.Env
	cluster *v1alpha1.Cluster
	logic   *Controller
}

func newEnv(t *testing.T) *env {
	t.Helper()
	f := &env{Env: testenv.NewEnv(t)}
	install.Do(func() { f.Expect(testenv.ClusterProfiles.Install(t.Context(), f.Server.Client)).To(Succeed()) })
	known := scheme.New()
	f.Expect(clusterprofilev1alpha1.AddToScheme(known)).To(Succeed())
	var err error
	f.Client, err = client.NewWithWatch(f.Server.Config, client.Options{Scheme: known})
	f.Expect(err).NotTo(HaveOccurred())
	counted := f.Writes.Count(f.Client)
	f.logic, err = New(Deps{
		Access:   inventory.Access{Clusters: counted, Objects: counted, Client: counted},
		Recorder: f.Recorder, Clock: f.Clock,
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = f.logic

	f.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name(), Labels: map[string]string{"env": "test", "app.kubernetes.io/instance": "argo"}}}
	f.ExpectApplied(f.cluster)
	f.cluster.Status.KubernetesVersion, f.cluster.Status.ClusterUID, f.cluster.Status.AgentVersion = "v1.37.1", "3f0a", "v0.1.0"
	f.cluster.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	for _, kind := range []string{v1alpha1.ClusterJoinedCondition, v1alpha1.ClusterAgentConnectedCondition, v1alpha1.ClusterTargetReachableCondition} {
		f.say(kind, metav1.ConditionTrue)
	}
	return f
}

func (f *env) say(kind string, status metav1.ConditionStatus) {
	f.T.Helper()
	f.ExpectConditionApplied(f.cluster, kind, status, v1alpha1.ReasonReady)
}

// settle lets the controller act until it writes no more.
func (f *env) settle() reconcile.Result {
	f.T.Helper()
	for range 3 {
		result := f.ExpectReconciled(f.cluster)
		if f.Writes.Total() == 0 {
			return result
		}
	}
	f.T.Fatal("the controller does not come to rest")
	return reconcile.Result{}
}

func (f *env) profile() *clusterprofilev1alpha1.ClusterProfile {
	f.T.Helper()
	profile := &clusterprofilev1alpha1.ClusterProfile{}
	err := f.Client.Get(f.T.Context(), client.ObjectKey{Namespace: namespace, Name: f.cluster.Name}, profile)
	if apierrors.IsNotFound(err) {
		return nil
	}
	f.Expect(err).NotTo(HaveOccurred())
	return profile
}

func values(profile *clusterprofilev1alpha1.ClusterProfile) map[string]string {
	values := map[string]string{}
	for _, property := range profile.Status.Properties {
		values[property.Name] = property.Value
	}
	return values
}

func TestClusterHasAProfileThatIsNotWrittenAgain(t *testing.T) {
	f := newEnv(t)
	f.ExpectReconciled(f.cluster)
	f.Expect(f.Writes.Counts()).To(Equal(map[string]int{"create ClusterProfile": 1, "patch ClusterProfile/status": 1, "patch ClusterProfile": 1}))
	f.settle()
	profile := f.profile()
	f.Expect(profile.Labels).To(Equal(map[string]string{
		"env": "test", v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub, v1alpha1.ClusterNameLabel: f.cluster.Name,
		clusterprofilev1alpha1.LabelClusterManagerKey: ManagerName,
	}))
	f.Expect(profile.Spec.DisplayName).To(Equal(f.cluster.Name))
	f.Expect(profile.Spec.ClusterManager.Name).To(Equal(ManagerName))
	f.Expect(profile.Status.Version.Kubernetes).To(Equal("v1.37.1"))
	f.Expect(values(profile)).To(Equal(map[string]string{idProperty: "3f0a", agentProperty: "v0.1.0", acceptedProperty: "false", cpuProperty: "8"}))
	for _, kind := range []string{clusterprofilev1alpha1.ClusterConditionControlPlaneHealthy, joinedCondition} {
		f.Expect(meta.IsStatusConditionTrue(profile.Status.Conditions, kind)).To(BeTrue(), kind)
	}

	f.say(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown)
	f.cluster.Status.ClusterUID = ""
	f.ExpectStatusApplied(f.cluster)
	f.settle()
	profile = f.profile()
	f.Expect(meta.FindStatusCondition(profile.Status.Conditions, clusterprofilev1alpha1.ClusterConditionControlPlaneHealthy).Status).To(Equal(metav1.ConditionUnknown))
	f.Expect(values(profile)).NotTo(HaveKey(idProperty))
}

func TestCapacityIsWrittenNowAndThen(t *testing.T) {
	f := newEnv(t)
	f.settle()
	f.cluster.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("9")
	f.ExpectStatusApplied(f.cluster)
	f.Expect(f.settle().RequeueAfter).To(Equal(reconciler.StatusInterval))
	f.Expect(values(f.profile())).To(HaveKeyWithValue(cpuProperty, "8"))
	f.Clock.Step(reconciler.StatusInterval)
	f.Expect(f.settle().RequeueAfter).To(BeZero())
	f.Expect(values(f.profile())).To(HaveKeyWithValue(cpuProperty, "9"))
}

func TestProfileIsRepairedAndLeavesWhatOthersWrite(t *testing.T) {
	f := newEnv(t)
	f.settle()
	profile := f.profile()
	profile.Labels["theirs"], profile.Labels["env"] = "x", "wrong"
	profile.Spec.DisplayName = "wrong"
	f.ExpectApplied(profile)
	profile.Status.Properties = append(profile.Status.Properties, clusterprofilev1alpha1.Property{Name: "theirs", Value: "x", LastObservedTime: metav1.Now()})
	f.ExpectStatusApplied(profile)
	f.settle()
	profile = f.profile()
	f.Expect(profile.Labels).To(And(HaveKeyWithValue("theirs", "x"), HaveKeyWithValue("env", "test")))
	f.Expect(profile.Spec.DisplayName).To(Equal(f.cluster.Name))
	f.Expect(values(profile)).To(HaveKey("theirs"))
}

func TestProfileGoesWithItsClusterAndNotBefore(t *testing.T) {
	f := newEnv(t)
	f.settle()
	known := f.logic.Clusters
	f.logic.Clusters = behind{known}
	f.settle()
	f.Expect(f.profile()).NotTo(BeNil(), "a cache that is behind is no proof")
	f.logic.Clusters = known
	f.ExpectDeleted(f.cluster)
	f.settle()
	f.Expect(f.profile()).To(BeNil())
}

// behind is a reader that knows nothing yet.
type behind struct{ client.Reader }

func (behind) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("clusters").GroupResource(), key.Name)
}

func TestProfileOfSomebodyElseIsNotTakenOver(t *testing.T) {
	f := newEnv(t)
	foreign := &clusterprofilev1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: f.cluster.Name},
		Spec:       clusterprofilev1alpha1.ClusterProfileSpec{ClusterManager: clusterprofilev1alpha1.ClusterManager{Name: "open-cluster-management"}},
	}
	f.ExpectApplied(foreign)
	f.settle()
	f.settle()
	f.ExpectDeleted(f.cluster)
	f.settle()
	f.Expect(f.profile().ResourceVersion).To(Equal(foreign.ResourceVersion))
	f.Expect(f.Recorder.Events).To(HaveLen(1), "told once")
	f.Expect(<-f.Recorder.Events).To(HavePrefix("Warning ClusterProfileConflict"))
}

func TestACopyOfAProfileIsTheUsers(t *testing.T) {
	f := newEnv(t)
	f.settle()
	shown := f.profile()
	another := newEnv(t)
	replica := &clusterprofilev1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: another.cluster.Name, Labels: shown.Labels, Annotations: shown.Annotations}, Spec: shown.Spec,
	}
	f.ExpectApplied(replica)
	another.settle()
	another.Expect(another.profile().ResourceVersion).To(Equal(replica.ResourceVersion), "it was written")
	another.Expect(f.Client.Delete(t.Context(), another.cluster)).To(Succeed())
	another.settle()
	another.Expect(another.profile()).NotTo(BeNil(), "it was deleted")
}
