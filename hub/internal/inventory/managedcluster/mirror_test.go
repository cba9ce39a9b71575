package managedcluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// healthy is an accepted Cluster whose agent is connected.
func healthy(name string) *v1alpha1.Cluster {
	cluster := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start), Labels: map[string]string{
			"env": "test", "topology.kubernetes.io/region": "eu", "app.kubernetes.io/instance": "argo", v1alpha1.ImportLabel: "true",
		}},
		Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted},
		Status: v1alpha1.ClusterStatus{
			KubernetesVersion: "v1.37.1", ClusterUID: "3f0a",
			Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi")},
		},
	}
	for _, kind := range []string{v1alpha1.ClusterJoinedCondition, v1alpha1.ClusterAgentConnectedCondition, v1alpha1.ClusterTargetReachableCondition} {
		say(cluster, kind, metav1.ConditionTrue)
	}
	return cluster
}

func say(cluster *v1alpha1.Cluster, kind string, status metav1.ConditionStatus) {
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Test", Message: "said by the test"})
}

func taint(key string) clusterv1.Taint {
	return clusterv1.Taint{Key: key, Effect: clusterv1.TaintEffectNoSelect}
}

func TestMirrorShowsTheCluster(t *testing.T) {
	g := NewWithT(t)
	shown := mirrorOf(healthy("a"), nil, start)
	g.Expect(shown.Name).To(Equal("a"))
	g.Expect(shown.Labels).To(Equal(map[string]string{
		"env": "test", "topology.kubernetes.io/region": "eu", v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub,
	}))
	g.Expect(shown.Annotations).To(HaveKeyWithValue(autoAcceptedAnnotation, "2026-11-21T12:00:00Z"))
	g.Expect(shown.Spec.HubAcceptsClient).To(BeFalse(), "else Open Cluster Management gives an agent of its own access to the namespace")
	g.Expect(shown.Spec.LeaseDurationSeconds).To(BeZero(), "the kind's default")
	g.Expect(shown.Spec.Taints).To(BeEmpty())
	g.Expect(shown.Status.Version.Kubernetes).To(Equal("v1.37.1"))
	for _, list := range []clusterv1.ResourceList{shown.Status.Capacity, shown.Status.Allocatable} {
		g.Expect(list).To(HaveLen(2))
		g.Expect(list[clusterv1.ResourceCPU]).To(Equal(resource.MustParse("8")))
	}
	g.Expect(shown.Status.ClusterClaims).To(ConsistOf(
		clusterv1.ManagedClusterClaim{Name: idClaim, Value: "3f0a"}, clusterv1.ManagedClusterClaim{Name: versionClaim, Value: "v1.37.1"}))
	for _, kind := range []string{clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
		g.Expect(meta.IsStatusConditionTrue(shown.Status.Conditions, kind)).To(BeTrue(), kind)
	}
	g.Expect(meta.FindStatusCondition(shown.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)).To(BeNil(),
		"with it Open Cluster Management waits for a Lease that no agent renews")
}

func TestMirrorRepeatsWhatIsKnownAndUnknown(t *testing.T) {
	unreachable, unavailable, denied := taint(clusterv1.ManagedClusterTaintUnreachable), taint(clusterv1.ManagedClusterTaintUnavailable), taint(v1alpha1.NotAcceptedTaint)
	for name, row := range map[string]struct {
		change    func(*v1alpha1.Cluster)
		available metav1.ConditionStatus
		joined    metav1.ConditionStatus
		taints    []clusterv1.Taint
	}{
		"healthy": {func(*v1alpha1.Cluster) {}, metav1.ConditionTrue, metav1.ConditionTrue, nil},
		"silent agent": {func(c *v1alpha1.Cluster) { say(c, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown) },
			metav1.ConditionUnknown, metav1.ConditionTrue, []clusterv1.Taint{unreachable}},
		"silent agent that last saw its cluster down": {func(c *v1alpha1.Cluster) {
			say(c, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown)
			say(c, v1alpha1.ClusterTargetReachableCondition, metav1.ConditionFalse)
		}, metav1.ConditionUnknown, metav1.ConditionTrue, []clusterv1.Taint{unreachable}},
		"cluster down": {func(c *v1alpha1.Cluster) { say(c, v1alpha1.ClusterTargetReachableCondition, metav1.ConditionFalse) },
			metav1.ConditionFalse, metav1.ConditionTrue, []clusterv1.Taint{unavailable}},
		"nothing known": {func(c *v1alpha1.Cluster) { c.Status = v1alpha1.ClusterStatus{} },
			metav1.ConditionUnknown, metav1.ConditionUnknown, []clusterv1.Taint{unreachable}},
		"denied": {func(c *v1alpha1.Cluster) { c.Spec.Acceptance = v1alpha1.AcceptanceDenied },
			metav1.ConditionTrue, metav1.ConditionTrue, []clusterv1.Taint{denied}},
		"awaiting a decision": {func(c *v1alpha1.Cluster) {
			c.Spec.Acceptance = v1alpha1.AcceptancePending
			say(c, v1alpha1.ClusterJoinedCondition, metav1.ConditionFalse)
			say(c, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown)
		}, metav1.ConditionUnknown, metav1.ConditionFalse, []clusterv1.Taint{unreachable, denied}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cluster := healthy("a")
			before := mirrorOf(cluster, nil, start)
			row.change(cluster)
			for _, existing := range []*clusterv1.ManagedCluster{nil, before} {
				shown := mirrorOf(cluster, existing, start)
				g.Expect(meta.FindStatusCondition(shown.Status.Conditions, clusterv1.ManagedClusterConditionAvailable).Status).To(Equal(row.available))
				g.Expect(meta.FindStatusCondition(shown.Status.Conditions, clusterv1.ManagedClusterConditionJoined).Status).To(Equal(row.joined))
				g.Expect(shown.Spec.Taints).To(Equal(row.taints))
			}
		})
	}
}

// TestMirrorLeavesWhatOthersWrite gives a mirror what Open Cluster Management and users put on it.
func TestMirrorLeavesWhatOthersWrite(t *testing.T) {
	g := NewWithT(t)
	cluster := healthy("a")
	existing := mirrorOf(cluster, nil, start)
	existing.Labels["cluster.open-cluster-management.io/clusterset"] = "default"
	existing.Annotations["note"] = "mine"
	existing.Finalizers = []string{"cluster.open-cluster-management.io/resource-cleanup"}
	existing.Spec.LeaseDurationSeconds = 60
	added := metav1.NewTime(start)
	mine := clusterv1.Taint{Key: "gpu", Effect: clusterv1.TaintEffectPreferNoSelect, TimeAdded: added}
	own := clusterv1.Taint{Key: clusterv1.ManagedClusterTaintUnreachable, Value: "x", Effect: clusterv1.TaintEffectNoSelect}
	existing.Spec.Taints = []clusterv1.Taint{mine, own}
	existing.Status.ClusterClaims = append([]clusterv1.ManagedClusterClaim{{Name: "region", Value: "eu"}}, existing.Status.ClusterClaims...)
	existing.Status.Conditions = append(existing.Status.Conditions, metav1.Condition{Type: clusterv1.ManagedClusterConditionClockSynced, Status: metav1.ConditionTrue})

	g.Expect(equality.Semantic.DeepEqual(mirrorOf(cluster, existing, start.Add(time.Hour)), existing)).To(BeTrue(), "nothing differs, so nothing is to be written")

	say(cluster, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown)
	cluster.Status.KubernetesVersion = ""
	delete(cluster.Labels, "env")
	changed := mirrorOf(cluster, existing, start)
	g.Expect(changed.Spec.Taints).To(Equal([]clusterv1.Taint{mine, own, taint(clusterv1.ManagedClusterTaintUnreachable)}))
	g.Expect(changed.Labels).To(And(HaveKey("cluster.open-cluster-management.io/clusterset"), Not(HaveKey("env"))))
	g.Expect(changed.Annotations).To(HaveKey("note"))
	g.Expect(changed.Status.ClusterClaims).To(Equal([]clusterv1.ManagedClusterClaim{{Name: "region", Value: "eu"}, {Name: idClaim, Value: "3f0a"}}))
	g.Expect(meta.FindStatusCondition(changed.Status.Conditions, clusterv1.ManagedClusterConditionClockSynced)).NotTo(BeNil())
}

func TestReleasedMirrorIsNobodysPictureAnyMore(t *testing.T) {
	g := NewWithT(t)
	cluster := healthy("a")
	cluster.Spec.Acceptance = v1alpha1.AcceptanceDenied
	say(cluster, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown)
	existing := mirrorOf(cluster, nil, start)
	left := releasedMirror(existing)
	g.Expect(left.Labels).To(Equal(map[string]string{"env": "test", "topology.kubernetes.io/region": "eu"}))
	g.Expect(left.Annotations).NotTo(HaveKey(v1alpha1.CopiedLabelsAnnotation))
	g.Expect(left.Spec.Taints).To(Equal([]clusterv1.Taint{taint(clusterv1.ManagedClusterTaintUnreachable)}), "that one is for Open Cluster Management to take away")
	g.Expect(existing.Spec.Taints).To(HaveLen(2), "the argument is left as it was")
}

// TestTaintsAgreeWithOpenClusterManagement plays its taint controller after the hub: it finds nothing to change.
func TestTaintsAgreeWithOpenClusterManagement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SampledFrom([]string{clusterv1.ManagedClusterTaintUnavailable, clusterv1.ManagedClusterTaintUnreachable, v1alpha1.NotAcceptedTaint, "gpu"})
		current := rapid.SliceOfNDistinct(rapid.Map(keys, taint), 0, 4, func(t clusterv1.Taint) string { return t.Key }).Draw(t, "current")
		available := rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}).Draw(t, "available")
		accepted := rapid.Bool().Draw(t, "accepted")
		got := wantedTaints(current, available, accepted)
		has := map[string]bool{}
		for _, taint := range got {
			if has[taint.Key] {
				t.Fatalf("%s twice: %v", taint.Key, got)
			}
			has[taint.Key] = true
		}
		if has[clusterv1.ManagedClusterTaintUnreachable] != (available == metav1.ConditionUnknown) ||
			has[clusterv1.ManagedClusterTaintUnavailable] != (available == metav1.ConditionFalse) {
			t.Fatalf("Open Cluster Management would change %v for %s", got, available)
		}
		if has[v1alpha1.NotAcceptedTaint] == accepted {
			t.Fatalf("accepted %v has %v", accepted, got)
		}
		if !equality.Semantic.DeepEqual(wantedTaints(got, available, accepted), got) {
			t.Fatalf("not stable: %v", got)
		}
		for _, taint := range current {
			if taint.Key == "gpu" && !has["gpu"] {
				t.Fatalf("lost a foreign taint: %v", got)
			}
		}
	})
}

func TestImportableIsWhatAUserAsksForAndTheOtherSideAccepts(t *testing.T) {
	for name, row := range map[string]struct {
		change     func(*clusterv1.ManagedCluster)
		importable bool
	}{
		"asked for and accepted": {func(*clusterv1.ManagedCluster) {}, true},
		"not asked for":          {func(m *clusterv1.ManagedCluster) { m.Labels = nil }, false},
		"asked for otherwise":    {func(m *clusterv1.ManagedCluster) { m.Labels[v1alpha1.ImportLabel] = "false" }, false},
		"denied again":           {func(m *clusterv1.ManagedCluster) { m.Spec.HubAcceptsClient = false }, false},
		"acceptance under way":   {func(m *clusterv1.ManagedCluster) { m.Status.Conditions = nil }, false},
		"being deleted":          {func(m *clusterv1.ManagedCluster) { m.DeletionTimestamp = &metav1.Time{Time: start} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			managed := &clusterv1.ManagedCluster{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.ImportLabel: "true"}},
				Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
				Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
					{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue},
				}},
			}
			row.change(managed)
			NewWithT(t).Expect(isImportable(managed)).To(Equal(row.importable))
		})
	}
	NewWithT(t).Expect(isImportable(nil)).To(BeFalse())
}
