package hollow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// staticPod is a manifest with that metadata and spec.
func staticPod(metadata, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{%s},"spec":{%s}}`, metadata, spec)
}

func withStaticPods(pods ...string) string {
	return `{` + head + `,"staticPods":[` + strings.Join(pods, ",") + `]}`
}

const oneContainer = `"containers":[{"name":"main","image":"nginx"}]`

// Claim: Static pods reach the hollow node where the cluster's agent takes them. Broken: the agent takes them in any namespace.
func TestStaticPodsNeedTheirNamespaceAllowed(t *testing.T) {
	request := driver.Request{Machine: testMachine(), Class: classOf(withStaticPods(
		staticPod(`"name":"proxy"`, oneContainer), staticPod(`"name":"proxy","namespace":"kube-system"`, oneContainer)))}
	for _, test := range []struct {
		allowed []string
		want    string
	}{
		{nil, "staticPods[0].metadata.namespace: the cluster's agent takes no static pods in namespace default: add it to --static-pod-namespaces"},
		{[]string{"default"}, "staticPods[1].metadata.namespace: the cluster's agent takes no static pods in namespace kube-system"},
		{[]string{"default", "kube-system"}, ""},
		{[]string{AnyNamespace}, ""},
	} {
		d := &Driver{options: Options{StaticPodNamespaces: test.allowed}, environment: driver.Environment{ClusterName: "c1"}}
		want, err := d.resolveDesired(request)
		if test.want != "" {
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v: got %v", test.allowed, err)
			}
			continue
		}
		if err != nil || len(want.configuration.StaticPods) != 2 {
			t.Errorf("%v: got %v, %d pods", test.allowed, err, len(want.configuration.StaticPods))
		}
		if _, err := hollownode.Marshal(want.configuration); err != nil {
			t.Error(err)
		}
	}
}

func TestBadStaticPodsAreRefused(t *testing.T) {
	good := staticPod(`"name":"a"`, oneContainer)
	container := func(fields string) string {
		return staticPod(`"name":"a"`, `"containers":[{"name":"main","image":"nginx",`+fields+`}]`)
	}
	for config, want := range map[string]string{
		`{` + head + `,"staticPods":{}}`:                                         "staticPods: want a list of Pods, got {}",
		withStaticPods(`"text"`):                                                 "staticPods[0]: not a Pod",
		withStaticPods(`{"kind":"Service"}`):                                     `staticPods[0]: want apiVersion v1 and kind Pod, got "" and "Service"`,
		withStaticPods(good, good):                                               "staticPods[1].metadata.name: a is there twice in namespace default",
		withStaticPods(strings.Split(strings.Repeat(good+" ", 11), " ")[:11]...): "staticPods: 11 Pods with",
		withStaticPods(staticPod(`"name":"a","annotations":{"x":"`+strings.Repeat("x", 70000)+`"}`, oneContainer)):    "staticPods: 1 Pods with 70",
		withStaticPods(staticPod(`"name":"A"`, oneContainer)):                                                         "staticPods[0].metadata.name: want a name",
		withStaticPods(staticPod(``, oneContainer)):                                                                   "staticPods[0].metadata.name: want a name",
		withStaticPods(staticPod(`"name":"a"`, ``)):                                                                   "staticPods[0].spec.containers: want one",
		withStaticPods(staticPod(`"name":"a"`, `"container":[]`)):                                                     "not a field of a Pod, or written twice",
		withStaticPods(staticPod(`"name":"a","annotations":{"kubernetes.io/config.mirror":"x"}`, oneContainer)):       "kubernetes.io/config.mirror is the kubelet's own: remove it",
		withStaticPods(staticPod(`"name":"a"`, oneContainer+`,"serviceAccountName":"admin"`)):                         "staticPods[0].spec.serviceAccountName: a static pod cannot refer to other objects: remove it",
		withStaticPods(staticPod(`"name":"a"`, oneContainer+`,"imagePullSecrets":[{"name":"s"}]`)):                    "staticPods[0].spec.imagePullSecrets: ",
		withStaticPods(staticPod(`"name":"a"`, oneContainer+`,"volumes":[{"name":"v","secret":{"secretName":"s"}}]`)): "staticPods[0].spec.volumes[0]: ",
		withStaticPods(container(`"envFrom":[{"secretRef":{"name":"s"}}]`)):                                           "staticPods[0].spec.containers[0].envFrom: ",
		withStaticPods(container(`"env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"c","key":"k"}}}]`)):      "staticPods[0].spec.containers[0].env[0].valueFrom: ",
	} {
		_, err := resolveDesired("c1", driver.Request{Machine: testMachine(), Class: classOf(config)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s:\n got %v\nwant %s", config, err, want)
		}
	}
}
