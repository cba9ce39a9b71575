package environment

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/pathmap"
)

// stored is a namespace's Secrets and ConfigMaps.
type stored struct {
	secrets    map[string]map[string][]byte
	configMaps map[string]map[string]string
}

func (s stored) GetSecret(_, name string) (*corev1.Secret, error) {
	if data, found := s.secrets[name]; found {
		return &corev1.Secret{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

func (s stored) GetConfigMap(_, name string) (*corev1.ConfigMap, error) {
	if data, found := s.configMaps[name]; found {
		return &corev1.ConfigMap{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

func input(container corev1.Container) Input {
	container.Name = "main"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{NodeName: "n", ServiceAccountName: "sa", Containers: []corev1.Container{container}},
		Status: corev1.PodStatus{
			PodIP: "127.64.0.2", PodIPs: []corev1.PodIP{{IP: "127.64.0.2"}}, HostIP: "127.0.0.1", HostIPs: []corev1.HostIP{{IP: "127.0.0.1"}},
		},
	}
	return Input{
		Pod: pod, Container: &pod.Spec.Containers[0],
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		Objects: stored{
			secrets:    map[string]map[string][]byte{"s": {"KEY": []byte("secret /data/x")}},
			configMaps: map[string]map[string]string{"c": {"KEY": "map", "OTHER": "more"}},
		},
		Services: map[string]string{"KUBERNETES_SERVICE_HOST": "127.0.0.1"},
	}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
}

func TestVariables(t *testing.T) {
	value := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	from := func(name string, source *corev1.EnvVarSource) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: source}
	}
	in := input(corev1.Container{
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}},
		EnvFrom: []corev1.EnvFromSource{
			{Prefix: "C_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}, Optional: ptr.To(true)}},
		},
		Env: []corev1.EnvVar{
			value("A", "1"), value("B", "$(A)$(A) $$(A) $(NONE) $(LATER)"), value("LATER", "x"), value("A", "2"), value("A2", "$(A)"),
			value("HOST", "$(KUBERNETES_SERVICE_HOST)"), value("FROM", "$(C_KEY)"), value("EMPTY", ""),
			from("IP", field("status.podIP")), from("IPS", field("status.podIPs")), from("HOSTIP", field("status.hostIP")),
			from("NODE", field("spec.nodeName")), from("SA", field("spec.serviceAccountName")),
			from("NAME", field("metadata.name")), from("UID", field("metadata.uid")), from("APP", field("metadata.labels['app']")),
			from("CPU", &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu", Divisor: resource.MustParse("1m")}}),
			from("MEM", &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}),
			from("S", &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "KEY"}}),
			from("M", &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Key: "OTHER"}}),
			from("GONE", &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "no", Optional: ptr.To(true)}}),
			value("DIR", "--dir=/data/y"),
		},
	})
	in.Runtime = map[string]string{"PATH": "/bin", "A": "runtime"}
	e, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"PATH": "/bin", "KUBERNETES_SERVICE_HOST": "127.0.0.1",
		"C_KEY": "map", "C_OTHER": "more", "KEY": "secret /data/x",
		"A": "2", "B": "11 $(A) $(NONE) $(LATER)", "LATER": "x", "A2": "2", "HOST": "127.0.0.1", "FROM": "map", "EMPTY": "",
		"IP": "127.64.0.2", "IPS": "127.64.0.2", "HOSTIP": "127.0.0.1", "NODE": "n", "SA": "sa", "NAME": "p", "UID": "u", "APP": "x",
		"CPU": "250", "MEM": "1024", "S": "secret /data/x", "M": "more",
		// A mount path is replaced in what the spec says literally, not in data.
		"DIR": "--dir=/volume/y",
	}
	var wanted []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		wanted = append(wanted, name+"="+want[name])
	}
	got := e.List(pathmap.New(map[string]string{"/data": "/volume"}))
	if !slices.Equal(got, wanted) {
		t.Errorf("the variables are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	}
	if got := e.Expand("$(A) and $(NODE)"); got != "2 and n" {
		t.Errorf("expanded to %q", got)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for want, container := range map[string]corev1.Container{
		"ConfigMap missing": {EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}}}}},
		"Secret missing":    {EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}}}}},
		"Secret s has no key no": {Env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "no"}}}}},
		"ConfigMap c has no key no": {Env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Key: "no"}}}}},
		"status.phase": {Env: []corev1.EnvVar{{Name: "A", ValueFrom: field("status.phase")}}},
	} {
		if _, err := Build(input(container)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}

func TestServices(t *testing.T) {
	services := []*corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "my-db"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.5", Ports: []corev1.ServicePort{{Port: 5432, Protocol: corev1.ProtocolTCP}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "headless"}, Spec: corev1.ServiceSpec{ClusterIP: "None"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Port: 443}}}},
	}
	list := func(string) ([]*corev1.Service, error) { return services, nil }
	pod := &corev1.Pod{}
	variables, err := Services(pod, list, "127.0.0.1", "6443")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"MY_DB_SERVICE_HOST": "10.0.0.5", "MY_DB_SERVICE_PORT": "5432", "MY_DB_PORT": "tcp://10.0.0.5:5432",
		"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443", "HEADLESS_SERVICE_HOST": "",
	} {
		if variables[name] != want {
			t.Errorf("%s is %q, want %q", name, variables[name], want)
		}
	}
	pod.Spec.EnableServiceLinks = ptr.To(false)
	if variables, _ = Services(pod, list, "127.0.0.1", "6443"); len(variables) != 3 {
		t.Errorf("without service links there are %v", variables)
	}
}

func TestNULIsInvalid(t *testing.T) {
	if got := Invalid([]string{"A=b", "SECRET=x\x00y"}); !strings.Contains(got, "SECRET") || strings.Contains(got, "x") {
		t.Errorf("the problem is %q", got)
	}
	if got := Invalid([]string{"A=b"}); got != "" {
		t.Errorf("a valid list has the problem %q", got)
	}
}
