package inventory

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestLabelsLeavesOutWhatIsAboutTheObjectItself(t *testing.T) {
	for key, copied := range map[string]bool{
		"env":                           true,
		"example.com/team":              true,
		"notkubernetes.io/x":            true,
		"topology.kubernetes.io/region": true,
		"kubernetes.io/metadata.name":   false,
		"app.kubernetes.io/instance":    false,
		"x.k8s.io/y":                    false,
		v1alpha1.ManagedByLabel:         false,
		v1alpha1.ImportLabel:            false,
		"sub.hollowfleet.io/x":          false,
		"cluster.open-cluster-management.io/clusterset": false,
		"feature.open-cluster-management.io/addon-x":    false,
		"argocd.argoproj.io/instance":                   false,
		"kustomize.toolkit.fluxcd.io/name":              false,
	} {
		t.Run(key, func(t *testing.T) {
			_, found := Labels(map[string]string{key: "v"})[key]
			NewWithT(t).Expect(found).To(Equal(copied))
		})
	}
}

// TestCopyLabelsTouchesOnlyItsOwn copies one set of labels after the other to an object that has others.
func TestCopyLabelsTouchesOnlyItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.StringMatching(`[a-z]{1,2}`)
		labels := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d/e", "app.kubernetes.io/name"}), values, 0, 5)
		foreign := rapid.MapOfN(rapid.SampledFrom([]string{"x", "y", v1alpha1.ManagedByLabel}), values, 0, 3).Draw(t, "foreign")
		object := &metav1.ObjectMeta{Labels: maps.Clone(foreign)}
		for range rapid.IntRange(1, 4).Draw(t, "copies") {
			wanted := Labels(labels.Draw(t, "labels"))
			CopyLabels(object, wanted)
			expected := maps.Clone(wanted)
			maps.Copy(expected, foreign)
			if !maps.Equal(object.Labels, expected) {
				t.Fatalf("labels %v, want %v", object.Labels, expected)
			}
			before := object.DeepCopy()
			CopyLabels(object, wanted)
			if !maps.Equal(before.Labels, object.Labels) || !maps.Equal(before.Annotations, object.Annotations) {
				t.Fatalf("copied again, it is another: %v %v", before, object)
			}
		}
		CopyLabels(object, nil)
		if !maps.Equal(object.Labels, foreign) || len(object.Annotations) > 0 {
			t.Fatalf("left behind: %v %v", object.Labels, object.Annotations)
		}
	})
}

func TestCopyLabelsDistrustsItsList(t *testing.T) {
	object := &metav1.ObjectMeta{
		Labels:      map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub, "a": "1"},
		Annotations: map[string]string{v1alpha1.CopiedLabelsAnnotation: "a," + v1alpha1.ManagedByLabel, "other": "stays"},
	}
	CopyLabels(object, nil)
	NewWithT(t).Expect(object.Labels).To(Equal(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub}))
	NewWithT(t).Expect(object.Annotations).To(Equal(map[string]string{"other": "stays"}))
}

func TestAvailable(t *testing.T) {
	const none = metav1.ConditionStatus("")
	for _, row := range []struct {
		connected, reachable, want metav1.ConditionStatus
	}{
		{none, none, metav1.ConditionUnknown},
		{metav1.ConditionUnknown, metav1.ConditionTrue, metav1.ConditionUnknown},
		{metav1.ConditionUnknown, metav1.ConditionFalse, metav1.ConditionUnknown},
		{metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionUnknown},
		{metav1.ConditionTrue, none, metav1.ConditionUnknown},
		{metav1.ConditionTrue, metav1.ConditionUnknown, metav1.ConditionUnknown},
		{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionFalse},
		{metav1.ConditionTrue, metav1.ConditionTrue, metav1.ConditionTrue},
	} {
		cluster := &v1alpha1.Cluster{}
		for kind, status := range map[string]metav1.ConditionStatus{
			v1alpha1.ClusterAgentConnectedCondition: row.connected, v1alpha1.ClusterTargetReachableCondition: row.reachable,
		} {
			if status != none {
				cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: kind})
			}
		}
		got := Available(cluster)
		NewWithT(t).Expect(got.Status).To(Equal(row.want), "%+v", row)
		NewWithT(t).Expect(got.Reason).NotTo(BeEmpty(), "%+v", row)
	}
}
