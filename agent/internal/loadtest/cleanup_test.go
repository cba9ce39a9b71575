package loadtest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNamespacesThatCannotBeRemoved(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(10000, 0)
	leaving := func(name string, since time.Duration, conditions ...corev1.NamespaceCondition) corev1.Namespace {
		at := metav1.NewTime(now.Add(-since))
		return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: &at}, Status: corev1.NamespaceStatus{Conditions: conditions}}
	}
	g.Expect(leftovers{leaving("a", time.Minute)}.String(now)).To(Equal("1 namespace is being removed"))
	g.Expect(leftovers{leaving("a", time.Minute), {}}.String(now)).To(Equal("2 namespaces are being removed"))
	g.Expect(leftovers{leaving("a", time.Minute), leaving("b", 6*time.Minute,
		corev1.NamespaceCondition{Status: corev1.ConditionFalse, Message: "all is read"}, corev1.NamespaceCondition{Status: corev1.ConditionTrue, Message: "finalizers remain"},
	)}.String(now)).To(Equal("namespace b is not removed after 6m0s: finalizers remain"))
	g.Expect(leftovers{leaving("b", 6*time.Minute)}.String(now)).To(ContainSubstring("does not say why"))
}
