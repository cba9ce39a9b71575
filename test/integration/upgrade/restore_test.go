package upgrade

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// readStored reads what an API server had stored for an older fleet: an object a line, owners first.
func readStored(path string) []*unstructured.Unstructured {
	GinkgoHelper()
	file, err := os.Open(path)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(file.Close()).To(Succeed()) }()
	var objects []*unstructured.Unstructured
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		object := &unstructured.Unstructured{}
		Expect(json.Unmarshal(lines.Bytes(), object)).To(Succeed())
		objects = append(objects, object)
	}
	Expect(lines.Err()).NotTo(HaveOccurred())
	return objects
}

// restore writes the objects into this API server, as they were but for what an API server sets itself: UIDs, wherever they are referred to,
// and generations. It returns them as they are then.
func restore(ctx context.Context, c client.Client, stored []*unstructured.Unstructured) []*unstructured.Unstructured {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{
		v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub, v1alpha1.ClusterNameLabel: "c1",
	}}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	var uids []string
	created := make([]*unstructured.Unstructured, len(stored))
	for i, object := range stored {
		created[i] = object.DeepCopy()
		created[i].SetUID("")
		created[i].SetResourceVersion("")
		created[i].SetOwnerReferences(nil) // Not before the owner has the UID.
		Expect(c.Create(ctx, created[i])).To(Succeed(), "creating %s %s", object.GetKind(), object.GetName())
		uids = append(uids, string(object.GetUID()), string(created[i].GetUID()))
	}
	replacer := strings.NewReplacer(uids...)
	for i, object := range stored {
		text, err := object.MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		whole := &unstructured.Unstructured{}
		Expect(whole.UnmarshalJSON([]byte(replacer.Replace(string(text))))).To(Succeed())
		whole.SetResourceVersion(created[i].GetResourceVersion())
		setObserved(whole.Object["status"], object.GetGeneration(), created[i].GetGeneration())
		status := whole.DeepCopy()
		Expect(c.Update(ctx, whole)).To(Succeed(), "updating %s %s", object.GetKind(), object.GetName())
		Expect(whole.GetGeneration()).To(Equal(created[i].GetGeneration()), "the spec is the same")
		if _, has := object.Object["status"]; has {
			status.SetResourceVersion(whole.GetResourceVersion())
			Expect(c.Status().Update(ctx, status)).To(Succeed(), "updating the status of %s %s", object.GetKind(), object.GetName())
			whole = status
		}
		created[i] = whole
	}
	return created
}

// setObserved replaces the generation that a status and its conditions are of.
func setObserved(value any, from, to int64) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if key == "observedGeneration" && field == from {
				value[key] = to
			}
			setObserved(field, from, to)
		}
	case []any:
		for _, item := range value {
			setObserved(item, from, to)
		}
	}
}
