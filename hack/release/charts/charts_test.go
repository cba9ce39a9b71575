package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const root = "../../.."

// one is a chart, with the namespace that it is installed in and the values that it cannot do without. It is that of the
// repository, unless the path of a package is given.
type one struct {
	name, namespace, needs, packed string
	// images are the tags that the source of the chart, and not its package, cannot do without.
	images string
	// apis is one that the cluster has, beside those of Kubernetes.
	apis string
}

var (
	hubChart   = one{name: "hub", namespace: "hollowfleet-system", images: "image.tag=v0"}
	agentChart = one{name: "agent", namespace: "hollowfleet", needs: "clusterName=c1,hub.bootstrapKubeconfigSecret=bootstrap", images: "image.tag=v0,hollowNode.image.tag=v0"}
	both       = []one{hubChart, agentChart}

	simclusterChart = one{name: "simcluster", namespace: "c7", needs: "hub.bootstrapKubeconfigSecret=bootstrap", images: "simcluster.image.tag=v0,agent.image.tag=v0,hollowNode.image.tag=v0"}
	all             = []one{hubChart, agentChart, simclusterChart}
)

func (o one) path() string {
	if o.packed != "" {
		return o.packed
	}
	return filepath.Join(root, "charts", o.name)
}

func (o one) load(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(o.path())
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// values are what the chart needs, and those of set, such as "replicas=1,metrics.enabled=false".
func (o one) values(t *testing.T, set string) map[string]any {
	t.Helper()
	values := map[string]any{}
	images := o.images
	if o.packed != "" {
		images = ""
	}
	for _, each := range []string{images, o.needs, set} {
		if err := strvals.ParseInto(each, values); err != nil {
			t.Fatal(err)
		}
	}
	return values
}

// render returns the files that the chart makes with values, or why it refuses them.
func (o one) render(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	return o.renderChart(t, o.load(t), values)
}

func (o one) renderChart(t *testing.T, loaded *chart.Chart, values map[string]any) (map[string]string, error) {
	t.Helper()
	release := chartutil.ReleaseOptions{Name: "r", Namespace: o.namespace, IsInstall: true, Revision: 1}
	capabilities := chartutil.DefaultCapabilities.Copy()
	if o.apis != "" {
		capabilities.APIVersions = append(capabilities.APIVersions, o.apis)
	}
	all, err := chartutil.ToRenderValues(loaded, values, release, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, all)
}

var strict = func() runtime.Decoder {
	known := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(known))
	utilruntime.Must(apiextensionsv1.AddToScheme(known))
	utilruntime.Must(monitoringv1.AddToScheme(known))
	addCertificates(known)
	return serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
}()

// objects decodes all that the chart makes with set. A field that the kind does not have is an error.
func (o one) objects(t *testing.T, set string) []client.Object {
	t.Helper()
	if strings.Contains(set, "tls.mode=certManager") {
		o.apis = certManagerAPI
	}
	files, err := o.render(t, o.values(t, set))
	if err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		objects, err := decode(files[name])
		if err != nil {
			t.Errorf("%s with %q: %v", name, set, err)
		}
		all = append(all, objects...)
	}
	return all
}

func decode(content string) ([]client.Object, error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(content)))
	var objects []client.Object
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if isBlank(document) {
			continue
		}
		object, _, err := strict.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		objects = append(objects, object.(client.Object))
	}
}

// isBlank says whether a document has nothing but comments.
func isBlank(document []byte) bool {
	for line := range bytes.Lines(document) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

// find returns the object of a kind, of the name if one is given.
func find[T client.Object](t *testing.T, objects []client.Object, name string) T {
	t.Helper()
	for _, object := range objects {
		if found, ok := object.(T); ok && (name == "" || found.GetName() == name) {
			return found
		}
	}
	var none T
	t.Fatalf("there is no %T %s", none, name)
	return none
}

// workload is the Deployment or StatefulSet of a chart, with the names of the claims that it makes.
type workload struct {
	client.Object
	selector *metav1.LabelSelector
	pod      corev1.PodTemplateSpec
	claims   []string
}

func workloadOf(t *testing.T, objects []client.Object) workload {
	t.Helper()
	for _, object := range objects {
		switch o := object.(type) {
		case *appsv1.Deployment:
			if o.Name == kwokName || o.Name == dashboardName { // TestKwoksControllerFits and TestTheDashboardFits look at those.
				continue
			}
			return workload{o, o.Spec.Selector, o.Spec.Template, nil}
		case *appsv1.StatefulSet:
			w := workload{o, o.Spec.Selector, o.Spec.Template, nil}
			for _, claim := range o.Spec.VolumeClaimTemplates {
				w.claims = append(w.claims, claim.Name)
			}
			return w
		}
	}
	t.Fatal("there is neither a Deployment nor a StatefulSet")
	return workload{}
}

// containers are those of a pod, sidecars and init containers first.
func containers(pod corev1.PodTemplateSpec) []corev1.Container {
	return append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...)
}

func key(object client.Object) string {
	return fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName())
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func selects(selector *metav1.LabelSelector, have map[string]string) bool {
	made, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !made.Empty() && made.Matches(labels.Set(have))
}
