// Package admission_test asks a real API server what it refuses by itself: every refusal names the field and says what to
// do. The policies that it installs would be in the way of the tests in test/api.
package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const namespace = "default"

func named() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: uniqueName()}
}

func cluster(name string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func class() *v1alpha1.MachineClass {
	return &v1alpha1.MachineClass{ObjectMeta: named(), Spec: v1alpha1.MachineClassSpec{Provider: "hollow"}}
}

func machine() *v1alpha1.Machine {
	return &v1alpha1.Machine{ObjectMeta: named(), Spec: v1alpha1.MachineSpec{ClusterName: namespace, MachineTemplateBody: machineTemplate(nil).Spec}}
}

func labels() map[string]string { return map[string]string{"app": "x"} }

func set() *v1alpha1.MachineSet {
	return &v1alpha1.MachineSet{ObjectMeta: named(), Spec: v1alpha1.MachineSetSpec{
		ClusterName: namespace, Selector: v1alpha1.MachineSelector{MatchLabels: labels()}, Template: machineTemplate(labels()),
	}}
}

func deployment() *v1alpha1.MachineDeployment {
	return &v1alpha1.MachineDeployment{ObjectMeta: named(), Spec: v1alpha1.MachineDeploymentSpec{
		ClusterName: namespace, Selector: v1alpha1.MachineSelector{MatchLabels: labels()}, Template: machineTemplate(labels()),
	}}
}

// many returns that many labels.
func many(count int) map[string]string {
	labels := map[string]string{}
	for i := range count {
		labels[fmt.Sprint("label-", i)] = "x"
	}
	return labels
}

// with changes a valid object.
func with[T client.Object](object T, change func(T)) client.Object {
	change(object)
	return object
}

func runtimeVersion(version string) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Spec.Versions.ContainerRuntime = &v1alpha1.ContainerRuntime{Name: "containerd", Version: version}
	}
}

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func bounds(surge, unavailable string) func(*v1alpha1.MachineDeployment) {
	return func(d *v1alpha1.MachineDeployment) {
		d.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{}}
		if surge != "" {
			value := intstr.Parse(surge)
			d.Spec.Strategy.RollingUpdate.MaxSurge = &value
		}
		if unavailable != "" {
			value := intstr.Parse(unavailable)
			d.Spec.Strategy.RollingUpdate.MaxUnavailable = &value
		}
	}
}

func TestValidObjectsAreAccepted(t *testing.T) {
	objects := map[string]client.Object{
		"cluster": cluster(uniqueName()), "longest cluster name": cluster(strings.Repeat("a", 63)),
		"class": with(class(), func(c *v1alpha1.MachineClass) {
			c.Spec.NodeTemplate = &v1alpha1.NodeTemplate{Capacity: corev1.ResourceList{"cpu": resource.MustParse("4")}}
		}),
		"machine": machine(), "set": set(), "deployment": deployment(),
		"machine with value": with(machine(), func(m *v1alpha1.Machine) {
			m.Spec.ProviderConfig = v1alpha1.ProviderConfig{Provider: "hollow", Value: raw(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}
		}),
		"kubelet version without v": with(machine(), func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "1.36.2-rc.1+build.5" }),
		"kubelet version with all that one may have": with(machine(), func(m *v1alpha1.Machine) {
			m.Spec.Versions.Kubelet = "v1.36.2-0.x-y.-.01a+build.05"
		}),
		"largest numbers of a kubelet version":                 with(machine(), func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "v999999999.999999999.999999999" }),
		"container runtime version":                            with(machine(), runtimeVersion("2.1.4")),
		"container runtime version with all that one may have": with(machine(), runtimeVersion("v20.010.7.1-rc.1+azure~2")),
		"no replicas": with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) }),
		"as many labels as can be": with(deployment(), func(d *v1alpha1.MachineDeployment) {
			d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = many(15), many(63)
		}),
		"in place": with(deployment(), func(d *v1alpha1.MachineDeployment) {
			d.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{}}
		}),
		"timeouts": with(machine(), func(m *v1alpha1.Machine) {
			m.Spec.Timeouts = &v1alpha1.MachineTimeouts{Creation: &metav1.Duration{Duration: time.Minute}, Drain: &metav1.Duration{}}
		}),
		"surge 0":          with(deployment(), bounds("0", "1")),
		"surge in percent": with(deployment(), bounds("25%", "100%")),
	}
	for name, object := range objects {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(testenv.Server().Client.Create(t.Context(), object)).To(Succeed())
		})
	}
}

// Claim: Refused: reserved cluster names. Broken: `default` is not reserved.
// Claim: Refused: too long cluster names. Broken: 200 characters allowed.
// Claim: Refused: providerConfig with both or neither. Broken: rule removed.
// Claim: Refused: negative replicas. Broken: minimum removed.
// Claim: Refused: selector that misses the template. Broken: rule removed.
// Claim: Refused: invalid kubelet versions. Broken: rule removed; the driver does not check. Also: agent/driver/hollow TestResolveRefuses; apis/hollownode TestCheckKubeletVersion.
// Claim: Refused: invalid runtime versions. Broken: rule removed; the driver does not check. Also: agent/driver/hollow TestResolveRefuses; apis/hollownode TestCheckContainerRuntimeVersion.
// Edge case: outscale #543: diverging labels make thousands of machines. Also: hub/internal/machinedeployment/plan "outscale #543: more machines than replicas and surge"; hub/internal/machineset "outscale #543: selector and labels that part make thousands of machines".
func TestBadInputIsRefusedWithFieldAndRemedy(t *testing.T) {
	tests := map[string]struct {
		object client.Object
		// field must be named, remedy said.
		field, remedy string
	}{
		"cluster name of the hub's own namespace": {cluster("hollowfleet-system"), "metadata.name", "choose another name"},
		"cluster name of an agent's namespace":    {cluster("hollowfleet"), "metadata.name", "choose another name"},
		"cluster name default":                    {cluster("default"), "metadata.name", "choose another name"},
		"cluster name kube-":                      {cluster("kube-system"), "metadata.name", "choose another name"},
		"cluster name openshift-":                 {cluster("openshift-x"), "metadata.name", "choose another name"},
		"cluster name open-cluster-management":    {cluster("open-cluster-management-hub"), "metadata.name", "choose another name"},
		"cluster name too long":                   {cluster(strings.Repeat("a", 64)), "metadata.name", "at most 63 characters"},
		"cluster name with a dot":                 {cluster("a.b"), "metadata.name", "lower-case letters, digits and '-' only"},
		"unknown acceptance": {with(cluster("x"), func(c *v1alpha1.Cluster) { c.Spec.Acceptance = "Maybe" }),
			"spec.acceptance", `"Pending", "Accepted", "Denied"`},
		"grace below twice the period": {with(cluster("x"), func(c *v1alpha1.Cluster) {
			c.Spec.Heartbeat = v1alpha1.Heartbeat{PeriodSeconds: 30, GraceSeconds: 40}
		}), "graceSeconds", "at least twice periodSeconds"},
		"a health check with the name of a condition of the hub": {with(cluster("x"), func(c *v1alpha1.Cluster) {
			c.Spec.HealthChecks = []v1alpha1.ClusterHealthCheck{{Type: "Ready", Deployment: v1alpha1.DeploymentReference{Namespace: "a", Name: "b"}}}
		}), "spec.healthChecks[0].type", "should match"},
		"a health check of nothing": {with(cluster("x"), func(c *v1alpha1.Cluster) {
			c.Spec.HealthChecks = []v1alpha1.ClusterHealthCheck{{Type: "example.com/A"}}
		}), "spec.healthChecks[0].deployment.name", "at least 1"},
		"two health checks of one name": {with(cluster("x"), func(c *v1alpha1.Cluster) {
			check := v1alpha1.ClusterHealthCheck{Type: "example.com/A", Deployment: v1alpha1.DeploymentReference{Namespace: "a", Name: "b"}}
			c.Spec.HealthChecks = []v1alpha1.ClusterHealthCheck{check, check}
		}), "spec.healthChecks[1]", "Duplicate value"},

		// Edge case: Negative CPUs were accepted.
		"negative CPUs of a class": {with(class(), func(c *v1alpha1.MachineClass) {
			c.Spec.NodeTemplate = &v1alpha1.NodeTemplate{Capacity: corev1.ResourceList{"cpu": resource.MustParse("-8")}}
		}), "nodeTemplate.capacity", "write 0 or more"},
		"a number of Machines that is none": {with(deployment(), bounds("3000000000", "1")), "spec.strategy.rollingUpdate.maxSurge", "at most 1000000"},
		"creation timeout of nothing": {with(machine(), func(m *v1alpha1.Machine) {
			m.Spec.Timeouts = &v1alpha1.MachineTimeouts{Creation: &metav1.Duration{}}
		}), "timeouts.creation", "more than 0s"},
		"nothing in flight": {with(set(), func(s *v1alpha1.MachineSet) {
			none := intstr.FromInt32(0)
			s.Spec.Remediation.MaxInFlight = &none
		}), "spec.remediation.maxInFlight", "1 or more"},
		"both value and valueRef": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.ProviderConfig.Value = raw(`{"a":1}`) }),
			"spec.providerConfig", "set exactly one of value and valueRef"},
		"neither value nor valueRef": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.ProviderConfig = v1alpha1.ProviderConfig{} }),
			"spec.providerConfig", "set exactly one of value and valueRef"},
		"neither, in a set": {with(set(), func(s *v1alpha1.MachineSet) { s.Spec.Template.Spec.ProviderConfig = v1alpha1.ProviderConfig{} }),
			"spec.template.spec.providerConfig", "set exactly one of value and valueRef"},
		"both, in a deployment": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			d.Spec.Template.Spec.ProviderConfig.Value = raw(`{"a":1}`)
		}), "spec.template.spec.providerConfig", "set exactly one of value and valueRef"},
		"provider beside valueRef": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.ProviderConfig.Provider = "hollow" }),
			"spec.providerConfig.provider", "only beside value"},
		"kubelet version latest": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "latest" }),
			"spec.versions.kubelet", "write it as v1.36.2"},
		"kubelet version of two parts": {with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Spec.Template.Spec.Versions.Kubelet = "v1.36" }),
			"kubelet", "write it as v1.36.2"},
		"kubelet version with leading zero": {with(set(), func(s *v1alpha1.MachineSet) { s.Spec.Template.Spec.Versions.Kubelet = "v1.036.2" }),
			"kubelet", "write it as v1.36.2"},
		"kubelet version with empty identifiers before release": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "v1.36.2-.." }),
			"spec.versions.kubelet", "write it as v1.36.2"},
		"kubelet version with leading zero before release": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "v1.36.2-01" }),
			"spec.versions.kubelet", "write it as v1.36.2"},
		"kubelet version with empty identifier of a build": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "v1.36.2+a..b" }),
			"spec.versions.kubelet", "write it as v1.36.2"},
		"kubelet version with nothing after the dash": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "v1.36.2-" }),
			"spec.versions.kubelet", "write it as v1.36.2"},
		"kubelet version with nothing after the plus": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "v1.36.2-rc.1+" }),
			"spec.versions.kubelet", "write it as v1.36.2"},
		"kubelet version beyond all numbers": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "v1.99999999999999999999.0" }),
			"spec.versions.kubelet", "write it as v1.36.2"},
		"container runtime version latest": {with(machine(), runtimeVersion("latest")),
			"spec.versions.containerRuntime.version", "write it as 2.1.4"},
		"container runtime version of one part": {with(machine(), runtimeVersion("2")),
			"spec.versions.containerRuntime.version", "write it as 2.1.4"},
		"container runtime version with leading zero": {with(machine(), runtimeVersion("02.1")),
			"spec.versions.containerRuntime.version", "write it as 2.1.4"},
		"container runtime version beyond all numbers": {with(machine(), runtimeVersion("2.1.99999999999999999999")),
			"spec.versions.containerRuntime.version", "write it as 2.1.4"},
		"container runtime name with a capital": {with(machine(), func(m *v1alpha1.Machine) {
			m.Spec.Versions.ContainerRuntime = &v1alpha1.ContainerRuntime{Name: "Containerd", Version: "2.1.4"}
		}), "spec.versions.containerRuntime.name", "[a-z0-9]"},
		"machine name too long": {with(machine(), func(m *v1alpha1.Machine) { m.Name = strings.Repeat("a", 64) }),
			"metadata.name", "at most 63 characters"},
		"set name too long": {with(set(), func(s *v1alpha1.MachineSet) { s.Name = strings.Repeat("a", 58) }),
			"metadata.name", "at most 57 characters"},
		"deployment name too long": {with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Name = strings.Repeat("a", 47) }),
			"metadata.name", "at most 46 characters"},
		"no cluster name": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.ClusterName = "" }),
			"spec.clusterName", "at least 1 chars"},
		"no provider in a class": {with(class(), func(c *v1alpha1.MachineClass) { c.Spec.Provider = "" }),
			"spec.provider", "at least 1 chars"},

		"negative replicas of a set": {with(set(), func(s *v1alpha1.MachineSet) { s.Spec.Replicas = new(int32(-1)) }),
			"spec.replicas", "greater than or equal to 0"},
		"negative replicas of a deployment": {with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(-1)) }),
			"spec.replicas", "greater than or equal to 0"},
		"too many replicas": {with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(10001)) }),
			"spec.replicas", "less than or equal to 10000"},
		"outscale #543: selector that the template of a set does not match": {with(set(), func(s *v1alpha1.MachineSet) {
			s.Spec.Template.Metadata.Labels = map[string]string{"app": "y"}
		}), "spec.selector", "give the template every label of the selector"},
		"outscale #543: template of a deployment without labels": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			d.Spec.Template.Metadata.Labels = nil
		}), "spec.selector", "give the template every label of the selector"},
		"empty selector": {with(set(), func(s *v1alpha1.MachineSet) { s.Spec.Selector.MatchLabels = map[string]string{} }),
			"spec.selector.matchLabels", "at least 1"},

		"selector without room for the hash": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = many(16), many(16)
		}), "spec.selector.matchLabels", "at most 15 labels"},
		"template labels without room for the hash": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = many(1), many(64)
		}), "spec.template.metadata.labels", "at most 63 labels"},

		"maxSurge and maxUnavailable 0":    {with(deployment(), bounds("0", "0")), "maxSurge and maxUnavailable", "raise one of them"},
		"maxSurge 0 and no maxUnavailable": {with(deployment(), bounds("0", "")), "maxSurge and maxUnavailable", "raise one of them"},
		"both 0%":                          {with(deployment(), bounds("0%", "0%")), "maxSurge and maxUnavailable", "raise one of them"},
		"negative maxSurge":                {with(deployment(), bounds("-1", "1")), "maxSurge", "a number of 0 or more, or a percentage"},
		"maxUnavailable above 100%":        {with(deployment(), bounds("1", "101%")), "maxUnavailable", "a percentage up to 100%"},
		"surge group that is not a label": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			bounds("1", "0")(d)
			d.Spec.Strategy.RollingUpdate.SurgeGroup = "Zone_A"
		}), "spec.strategy.rollingUpdate.surgeGroup", "lower-case letters, digits and '-'"},
		"surge group too long": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			bounds("1", "0")(d)
			d.Spec.Strategy.RollingUpdate.SurgeGroup = strings.Repeat("a", 64)
		}), "spec.strategy.rollingUpdate.surgeGroup", "63"},
		"bounds beside another strategy": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			bounds("1", "0")(d)
			d.Spec.Strategy.Type = v1alpha1.Recreate
		}), "spec.strategy.rollingUpdate", "only with type RollingUpdate"},
		"unknown strategy": {with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Spec.Strategy.Type = "Someday" }),
			"spec.strategy.type", `"RollingUpdate", "InPlace", "Recreate", "OnDelete"`},
		"in-place bounds with another strategy": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			d.Spec.Strategy.InPlace = &v1alpha1.InPlaceUpdate{}
		}), "spec.strategy", "only with type InPlace"},
		"in place with nothing unavailable": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			none := intstr.FromInt32(0)
			d.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{MaxUnavailable: &none}}
		}), "spec.strategy.inPlace.maxUnavailable", "1 or more"},
		"in place with nothing unavailable in percent": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			none := intstr.FromString("0%")
			d.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{MaxUnavailable: &none}}
		}), "spec.strategy.inPlace.maxUnavailable", "1% to 100%"},
		"unknown trigger": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			d.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{Trigger: "Sometimes"}}
		}), "spec.strategy.inPlace.trigger", `"Auto", "Manual"`},
		"unknown delete policy of a deployment": {with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Spec.DeletePolicy = "Tallest" }),
			"spec.deletePolicy", `"Oldest", "Newest", "Random"`},
		"maxUnhealthy of a deployment above 100%": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			all := intstr.FromString("101%")
			d.Spec.Remediation.MaxUnhealthy = &all
		}), "spec.remediation.maxUnhealthy", "a percentage up to 100%"},
		"no progress deadline": {with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Spec.ProgressDeadlineSeconds = new(int32(0)) }),
			"spec.progressDeadlineSeconds", "greater than or equal to 1"},
		"too much history": {with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Spec.RevisionHistoryLimit = new(int32(101)) }),
			"spec.revisionHistoryLimit", "less than or equal to 100"},
		"progress deadline within minReadySeconds": {with(deployment(), func(d *v1alpha1.MachineDeployment) {
			d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = 60, new(int32(60))
		}), "spec.progressDeadlineSeconds", "more than spec.minReadySeconds"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := testenv.Server().Client.Create(t.Context(), test.object)
			NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring(test.field), ContainSubstring(test.remedy))))
		})
	}
}

func TestBadChangeIsRefusedWithFieldAndRemedy(t *testing.T) {
	tests := map[string]struct {
		object        client.Object
		change        func(client.Object)
		field, remedy string
	}{
		"selector of a set": {set(), func(o client.Object) {
			s := o.(*v1alpha1.MachineSet)
			s.Spec.Selector.MatchLabels, s.Spec.Template.Metadata.Labels = map[string]string{"app": "y"}, map[string]string{"app": "y"}
		}, "spec.selector", "create another object"},
		"selector of a deployment": {deployment(), func(o client.Object) {
			d := o.(*v1alpha1.MachineDeployment)
			d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = map[string]string{"app": "y"}, map[string]string{"app": "y"}
		}, "spec.selector", "create another object"},
		"cluster of a machine":    {machine(), func(o client.Object) { o.(*v1alpha1.Machine).Spec.ClusterName = "d" }, "spec.clusterName", "create the object in the other cluster's namespace"},
		"cluster of a set":        {set(), func(o client.Object) { o.(*v1alpha1.MachineSet).Spec.ClusterName = "d" }, "spec.clusterName", "create the object in the other cluster's namespace"},
		"cluster of a deployment": {deployment(), func(o client.Object) { o.(*v1alpha1.MachineDeployment).Spec.ClusterName = "d" }, "spec.clusterName", "create the object in the other cluster's namespace"},
		"provider of a class":     {class(), func(o client.Object) { o.(*v1alpha1.MachineClass).Spec.Provider = "x" }, "spec.provider", "create another MachineClass"},
		"provider ID": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.ProviderID = new("hollow://a") }),
			func(o client.Object) { o.(*v1alpha1.Machine).Spec.ProviderID = new("hollow://b") }, "spec.providerID", "cannot be changed"},
		"provider ID removed": {with(machine(), func(m *v1alpha1.Machine) { m.Spec.ProviderID = new("hollow://a") }),
			func(o client.Object) { o.(*v1alpha1.Machine).Spec.ProviderID = nil }, "spec.providerID", "cannot be changed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := testenv.Server().Client
			g.Expect(c.Create(t.Context(), test.object)).To(Succeed())
			test.change(test.object)
			err := c.Update(t.Context(), test.object)
			g.Expect(err).To(MatchError(And(ContainSubstring(test.field), ContainSubstring(test.remedy))))
		})
	}
}

// Claim: Scale to 0, never below. Broken: scale subresource removed. Also: test/api TestKindsHaveTheirNamesAndSubresources.
func TestNegativeScaleIsRefused(t *testing.T) {
	g := NewWithT(t)
	c := testenv.Server().Client
	d := deployment()
	g.Expect(c.Create(t.Context(), d)).To(Succeed())
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":-1}}`))
	g.Expect(c.SubResource("scale").Patch(t.Context(), d, patch)).To(MatchError(ContainSubstring("spec.replicas")))
	patch = client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))
	g.Expect(c.SubResource("scale").Patch(t.Context(), d, patch)).To(Succeed(), "the autoscaler scales to 0")
}

// uniqueName is a name that no other test has.
func uniqueName() string { return "c-" + rand.String(8) }

func machineTemplate(labels map[string]string) v1alpha1.MachineTemplate {
	return v1alpha1.MachineTemplate{
		Metadata: v1alpha1.TemplateMetadata{Labels: labels},
		Spec: v1alpha1.MachineTemplateBody{
			Versions:       v1alpha1.MachineVersions{Kubelet: "v1.36.2"},
			ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "small"}},
		},
	}
}
