package api_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// kinds are all that the API server has of the group, by the names of their resources.
var kinds = map[string]client.Object{
	"clusters": &v1alpha1.Cluster{}, "machineclasses": &v1alpha1.MachineClass{}, "machines": &v1alpha1.Machine{},
	"machinesets": &v1alpha1.MachineSet{}, "machinedeployments": &v1alpha1.MachineDeployment{}, "machinefleets": &v1alpha1.MachineFleet{},
	"fleetapprovals": &v1alpha1.FleetApproval{}, "nodedisruptions": &v1alpha1.NodeDisruption{}, "nodedisruptionruns": &v1alpha1.NodeDisruptionRun{},
	"loadtests": &v1alpha1.LoadTest{}, "loadtestruns": &v1alpha1.LoadTestRun{},
	"machinelogrequests": &v1alpha1.MachineLogRequest{},
	"simulatedclusters":  &v1alpha1.SimulatedCluster{}, "simulatedclustersets": &v1alpha1.SimulatedClusterSet{},
}

// parse reads an object as a user writes it.
func parse(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	content, err := yaml.YAMLToJSON(text)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	object := &unstructured.Unstructured{}
	NewWithT(t).Expect(object.UnmarshalJSON(content)).To(Succeed())
	return object
}

// store has the API server keep an object for the time of a test, status included. It returns what it then answers.
func store(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	strict := client.WithFieldValidation(testenv.Server().Client, metav1.FieldValidationStrict)
	stored := object.DeepCopy()
	g.Expect(strict.Create(t.Context(), stored)).To(Succeed())
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { g.Expect(client.IgnoreNotFound(testenv.Server().Client.Delete(ctx, stored))).To(Succeed()) })
	if status, has := object.Object["status"]; has {
		stored.Object["status"] = status
		g.Expect(strict.Status().Update(t.Context(), stored)).To(Succeed())
	}
	g.Expect(testenv.Server().Client.Get(t.Context(), client.ObjectKeyFromObject(stored), stored)).To(Succeed())
	return stored
}

// content is an object's spec and status as JSON.
func content(t *testing.T, object *unstructured.Unstructured) []byte {
	t.Helper()
	parts := map[string]any{}
	for _, name := range []string{"spec", "status"} {
		if part, has := object.Object[name]; has {
			parts[name] = part
		}
	}
	text, err := json.Marshal(parts)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return text
}

// full returns the objects of testdata, which have every field, by file name.
func full(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob("testdata/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	objects := map[string]*unstructured.Unstructured{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		objects[strings.TrimSuffix(filepath.Base(file), ".yaml")] = parse(t, text)
	}
	return objects
}

// pathsOf notes the path of every field that a value has; the elements of a list have one path.
func pathsOf(value any, path string, into map[string]bool) {
	into[path] = true
	switch typed := value.(type) {
	case map[string]any:
		for name, field := range typed {
			pathsOf(field, path+"."+name, into)
		}
	case []any:
		for _, element := range typed {
			pathsOf(element, path+"[]", into)
		}
	}
}
