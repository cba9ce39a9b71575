package main

import (
	"maps"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// configured are the objects of the files below config, without namespaces, by their keys.
func configured(t *testing.T, patterns ...string) map[string]client.Object {
	t.Helper()
	all := map[string]client.Object{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, "config", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("config/%s: no file, %v", pattern, err)
		}
		for _, file := range files {
			relative, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := decode(read(t, relative))
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range objects {
				if _, is := object.(*corev1.Namespace); !is {
					all[key(object)] = object
				}
			}
		}
	}
	return all
}

// chosen are the rendered objects of the kinds that config has.
func chosen(objects []client.Object) map[string]client.Object {
	all := map[string]client.Object{}
	for _, object := range objects {
		switch object.(type) {
		case *apiextensionsv1.CustomResourceDefinition, *corev1.ServiceAccount,
			*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding,
			*rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *rbacv1.Role, *rbacv1.RoleBinding:
			all[key(object)] = object
		}
	}
	return all
}

const (
	keep  = "helm.sh/resource-policy"
	stale = "make manifests copies config to the charts"
)

// Kinds, policies and rights are those of config, which hub install applies and all other tests run with. Kinds and policies
// stay when the release is uninstalled, and rights go.
// Claim: Charts match `config/`; kinds stay. Broken: a copy changed; CRDs that are not kept. Also: TestAgentHasWhatConfigHas.
func TestHubHasWhatConfigHas(t *testing.T) {
	g := NewWithT(t)
	want := configured(t, "crd/*.yaml", "admission/*.yaml", "rbac/hub/*.yaml", "rbac/agent-hub/*.yaml", "rbac/users/*.yaml")
	kept := 0
	for name, object := range chosen(hubChart.objects(t, "")) {
		g.Expect(want).To(HaveKey(name))
		annotations := object.GetAnnotations()
		_, isKind := object.(*apiextensionsv1.CustomResourceDefinition)
		_, isPolicy := object.(*admissionregistrationv1.ValidatingAdmissionPolicy)
		_, isBinding := object.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
		if isKind || isPolicy || isBinding {
			g.Expect(annotations).To(HaveKeyWithValue(keep, "keep"), name)
			kept++
		} else {
			g.Expect(annotations).NotTo(HaveKey(keep), name)
		}
		delete(annotations, keep)
		if len(annotations) == 0 {
			annotations = nil
		}
		object.SetAnnotations(annotations)
		g.Expect(object).To(Equal(want[name]), "%s: %s", name, stale)
		delete(want, name)
	}
	g.Expect(want).To(BeEmpty(), "what the chart lacks: "+stale)
	g.Expect(kept).To(BeNumerically(">=", 6+2*5))

	_, has := chosen(hubChart.objects(t, ""))["*v1.ClusterRole /hollowfleet-autoscaler"]
	g.Expect(has).To(BeFalse())
	for name, object := range configured(t, "rbac/autoscaler/*.yaml") {
		g.Expect(chosen(hubChart.objects(t, "autoscaler.clusterRole=true"))).To(HaveKeyWithValue(name, object))
	}
	for _, object := range hubChart.objects(t, "crds.install=false") {
		g.Expect(object).NotTo(BeAssignableToTypeOf(&apiextensionsv1.CustomResourceDefinition{}))
	}
}

func TestAgentHasWhatConfigHas(t *testing.T) {
	g := NewWithT(t)
	g.Expect(chosen(agentChart.objects(t, ""))).To(Equal(configured(t, "rbac/agent-workload/*.yaml")), stale)
	withLoadTests := configured(t, "rbac/agent-workload/*.yaml")
	maps.Copy(withLoadTests, configured(t, "rbac/agent-load-tests/*.yaml"))
	g.Expect(chosen(agentChart.objects(t, "loadTests.enabled=true"))).To(Equal(withLoadTests), stale)
	withSimulated := configured(t, "rbac/agent-workload/*.yaml")
	maps.Copy(withSimulated, configured(t, "rbac/agent-simulated-clusters/*.yaml"))
	g.Expect(chosen(agentChart.objects(t, simulatedSet))).To(Equal(withSimulated), stale)
	withKwok := configured(t, "rbac/agent-workload/*.yaml")
	maps.Copy(withKwok, configured(t, "rbac/agent-kwok/*.yaml"))
	g.Expect(chosen(agentChart.objects(t, "kwok.enabled=true"))).To(Equal(withKwok), stale)
	withVolumes := configured(t, "rbac/agent-workload/*.yaml")
	maps.Copy(withVolumes, configured(t, "rbac/agent-csi/*.yaml"))
	g.Expect(chosen(agentChart.objects(t, "hollowNode.csiDrivers={csi.example.com}"))).To(Equal(withVolumes), stale)
}
