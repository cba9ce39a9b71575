package kwok

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/drivertest"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const head = `"apiVersion":"hollowfleet.io/v1alpha1","kind":"KwokNodeConfig"`

// targetNamespace is where config/rbac/agent-kwok puts the ServiceAccount.
const targetNamespace = "hollowfleet"

type env struct {
	t *testing.T
	*WithT
	*Driver
	client client.Client
	clock  *clocktesting.FakePassiveClock
}

// newEnv makes a driver whose Machines have that prefix. Its Nodes are removed after the test.
func newEnv(t *testing.T, change func(*Options)) *env {
	t.Helper()
	server := agenttest.Environment(t)
	b := &env{t: t, WithT: NewWithT(t), client: server.Client, clock: clocktesting.NewFakePassiveClock(time.Now())}
	options := Options{HollowTaint: v1alpha1.HollowTaintNever, ServerURL: server.Config.Host, ServerCA: server.Config.CAData}
	if change != nil {
		change(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		if b.controller != nil {
			b.Eventually(b.controller.ended).WithTimeout(agenttest.Wait).Should(BeClosed(), "it writes no more files")
			b.Expect(b.controller.processID()).To(BeZero(), "the process outlives its driver")
		}
		b.Expect(b.client.DeleteAllOf(context.Background(), &corev1.Node{}, client.MatchingLabels{v1alpha1.HollowNodeLabel: v1alpha1.KwokNodeLabelValue})).To(Succeed())
	})
	made, err := New(ctx, options, driver.Environment{
		ClusterName: "c1", Clock: b.clock, Log: logr.Discard(), Changed: func(string) {},
		Target: driver.Access{Client: b.client, Reader: b.client, Namespace: targetNamespace},
	})
	b.Expect(err).NotTo(HaveOccurred())
	b.Driver = made
	return b
}

func requestOf(name, config string) driver.Request {
	machine := &v1alpha1.Machine{}
	machine.Namespace, machine.Name, machine.Spec.ClusterName = "c1", name, "c1"
	return driver.Request{Machine: machine, Class: &driver.Class{Path: "spec.providerConfig", Config: &runtime.RawExtension{Raw: []byte(config)}}}
}

func (b *env) node(name string) *corev1.Node {
	b.t.Helper()
	node := &corev1.Node{}
	b.Expect(b.client.Get(context.Background(), client.ObjectKey{Name: name}, node)).To(Succeed())
	return node
}

func (b *env) create(request driver.Request) driver.Instance {
	b.t.Helper()
	made, err := b.Create(b.t.Context(), request)
	b.Expect(err).NotTo(HaveOccurred())
	return made
}

func conformanceOf(d driver.Driver) drivertest.Subject {
	return drivertest.Subject{
		Driver: d, Timeout: agenttest.Wait, Valid: `{` + head + `}`, Changed: `{` + head + `,"maxPods":50}`,
		Invalid: `{` + head + `,"capacity":{"cpu":"many"}}`, InvalidField: "spec.providerConfig.value.capacity.cpu",
	}
}

// The Node is the instance: the suite passes without kwok's controller too. TestConformanceWithTheController has one.
func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Subject { return conformanceOf(newEnv(t, nil).Driver) })
}

func TestTheNodeIsWhatTheMachineSays(t *testing.T) {
	b := newEnv(t, func(o *Options) {
		o.HollowTaint, o.ServerVersion = v1alpha1.HollowTaintAlways, func() string { return "v1.37.1" }
	})
	request := requestOf("whole", `{`+head+`,"capacity":{"cpu":"8","example.com/gpu":"2"},"maxPods":7,"osImage":"Fast Linux"}`)
	request.Machine.Spec.NodeMetadata.Labels = map[string]string{"tier": "gold", v1alpha1.HollowNodeLabel: "true"}
	request.Machine.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
	request.Machine.Spec.Versions = v1alpha1.MachineVersions{Kubelet: "1.36.2", ContainerRuntime: &v1alpha1.ContainerRuntime{Name: "containerd", Version: "2.1.4"}}
	request.Class.NodeTemplate = &v1alpha1.NodeTemplate{Capacity: corev1.ResourceList{"memory": resource.MustParse("32Gi")}}
	made := b.create(request)
	b.Expect(made).To(And(HaveField("State", driver.Pending), HaveField("ProviderID", "kwok://c1/whole"), HaveField("UpToDate", true)))
	node := b.node("whole")
	b.Expect(node.Labels).To(And(HaveKeyWithValue("tier", "gold"), HaveKeyWithValue(corev1.LabelHostname, "whole"),
		HaveKeyWithValue(v1alpha1.HollowNodeLabel, "kwok"), HaveKeyWithValue(v1alpha1.KubeletVersionSourceLabel, v1alpha1.KubeletVersionReported)))
	b.Expect(node.Spec.Taints).To(ContainElements(HaveField("Key", "a"), HaveField("Key", v1alpha1.HollowNodeTaint)))
	capacity := func(name corev1.ResourceName) string {
		quantity := node.Status.Capacity[name]
		return quantity.String()
	}
	b.Expect([]string{capacity("cpu"), capacity("memory"), capacity("pods"), capacity("example.com/gpu")}).To(Equal([]string{"8", "32Gi", "7", "2"}))
	b.Expect(node.Status.Allocatable).To(Equal(node.Status.Capacity))
	b.Expect(node.Status.NodeInfo).To(And(HaveField("KubeletVersion", "v1.36.2"), HaveField("ContainerRuntimeVersion", "containerd://2.1.4"), HaveField("OSImage", "Fast Linux")))

	b.create(requestOf("plain", ""))
	b.Expect(b.node("plain").Status.NodeInfo).To(And(HaveField("KubeletVersion", "v1.37.1"), HaveField("OSImage", "Hollow Linux")))
}

func TestAChangeStaysWithTheNode(t *testing.T) {
	b := newEnv(t, nil)
	before := requestOf("m1", `{`+head+`,"capacity":{"example.com/gpu":"2"}}`)
	before.Machine.Spec.Versions.Kubelet = "v1.36.0"
	b.create(before)
	first := b.node("m1")
	after := requestOf("m1", `{`+head+`,"capacity":{"cpu":"16"}}`)
	after.Machine.Spec.Versions.Kubelet = "v1.37.1"
	b.Expect(b.Get(b.t.Context(), after)).To(HaveField("UpToDate", false))
	b.Expect(b.Update(b.t.Context(), after)).To(HaveField("UpToDate", true))
	node := b.node("m1")
	b.Expect(node.UID).To(Equal(first.UID))
	b.Expect(node.Status.NodeInfo.KubeletVersion).To(Equal("v1.37.1"))
	b.Expect(node.Status.Capacity.Cpu().String()).To(Equal("16"))
	b.Expect(node.Status.Capacity).NotTo(HaveKey(corev1.ResourceName("example.com/gpu")), "what is removed from the configuration goes")
	b.Expect(b.Get(b.t.Context(), after)).To(HaveField("UpToDate", true))
}

// A driver that is cut off between the two writes of an update does the rest later.
func TestAnUpdateThatWasCutOffIsFinished(t *testing.T) {
	b := newEnv(t, nil)
	b.create(requestOf("m1", `{`+head+`}`))
	changed := requestOf("m1", `{`+head+`,"maxPods":9}`)
	watching, err := client.NewWithWatch(agenttest.Environment(t).Config, client.Options{Scheme: b.client.Scheme()})
	b.Expect(err).NotTo(HaveOccurred())
	cut := errors.New("cut off")
	b.environment.Target.Client = interceptor.NewClient(watching, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return cut
		},
	})
	_, err = b.Update(t.Context(), changed)
	b.Expect(err).To(MatchError(cut))
	b.Expect(b.node("m1").Status.Capacity.Pods().String()).To(Equal("9"))
	b.environment.Target.Client = b.client
	b.Expect(b.Get(t.Context(), changed)).To(HaveField("UpToDate", false), "half an update is none")
	b.Expect(b.Update(t.Context(), changed)).To(HaveField("UpToDate", true))
}

// Edge case: Provider kwok leaves Nodes that it did not create. Broken: the name alone, or the label, makes a Node own.
func TestAForeignNodeIsNamedAndLeft(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"without a provider ID":               func(*corev1.Node) {},
		"of provider hollow":                  func(n *corev1.Node) { n.Spec.ProviderID = "hollowfleet://c1/taken" },
		"of another cluster":                  func(n *corev1.Node) { n.Spec.ProviderID = "kwok://c2/taken" },
		"of another Machine, by the label":    func(n *corev1.Node) { n.Labels = map[string]string{v1alpha1.HollowNodeLabel: "kwok"} },
		"that has the ID of another Machine":  func(n *corev1.Node) { n.Spec.ProviderID = "kwok://c1/other" },
		"whose annotations name this Machine": func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.NodeMachineAnnotation: "taken"} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, nil)
			foreign := &corev1.Node{}
			foreign.Name = "taken"
			change(foreign)
			b.Expect(b.client.Create(t.Context(), foreign)).To(Succeed())
			t.Cleanup(func() { _ = b.client.Delete(context.Background(), foreign) })
			request := requestOf("taken", `{`+head+`}`)
			_, err := b.Create(t.Context(), request)
			var conflict *driver.NameConflictError
			b.Expect(errors.As(err, &conflict)).To(BeTrue(), "%v", err)
			b.Expect(conflict.Problem).To(ContainSubstring("create it with another name"))
			_, err = b.Get(t.Context(), request)
			b.Expect(err).To(MatchError(driver.ErrNotFound))
			_, err = b.Update(t.Context(), request)
			b.Expect(err).To(HaveOccurred())
			b.Expect(b.Delete(t.Context(), request.Machine)).To(Succeed(), "there is nothing of the Machine")
			b.Expect(b.List(t.Context())).To(BeEmpty())
			left := b.node("taken")
			b.Expect(left.UID).To(Equal(foreign.UID))
			b.Expect(left.Spec.ProviderID+left.Annotations[v1alpha1.KwokConfigurationAnnotation]).To(Equal(foreign.Spec.ProviderID), "nothing was written to it")
		})
	}
}

// What was read a moment ago may be another Node by now: then nothing is deleted.
func TestADeletionTakesTheNodeThatWasRead(t *testing.T) {
	b := newEnv(t, nil)
	request := requestOf("m1", `{`+head+`}`)
	b.create(request)
	old := b.node("m1")
	b.Expect(b.client.Delete(t.Context(), old)).To(Succeed())
	b.create(request)
	b.environment.Target.Reader = staleReader{Reader: b.client, node: old}
	b.Expect(b.Delete(t.Context(), request.Machine)).NotTo(Succeed())
	b.Expect(b.node("m1").DeletionTimestamp).To(BeNil())
}

type staleReader struct {
	client.Reader
	node *corev1.Node
}

func (r staleReader) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	r.node.DeepCopyInto(into.(*corev1.Node))
	return nil
}

func TestANodeThatAnotherMachineClaimsIsNotDeleted(t *testing.T) {
	b := newEnv(t, nil)
	request := requestOf("m1", `{`+head+`}`)
	b.create(request)
	claimed := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+v1alpha1.NodeClusterNamespaceAnnotation+`":"c2"}}}`))
	b.Expect(b.client.Patch(t.Context(), b.node("m1"), claimed)).To(Succeed())
	b.Expect(b.Delete(t.Context(), request.Machine)).To(MatchError(ContainSubstring(`of namespace "c2" by its annotations: remove them`)))
	b.node("m1")
}

func TestAFinalizerKeepsTheNode(t *testing.T) {
	b := newEnv(t, nil)
	request := requestOf("m1", `{`+head+`}`)
	b.create(request)
	finalizers := func(list string) {
		b.Expect(b.client.Patch(t.Context(), b.node("m1"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":`+list+`}}`)))).To(Succeed())
	}
	finalizers(`["example.com/keeps"]`)
	b.Expect(b.Delete(t.Context(), request.Machine)).To(Succeed())
	b.Expect(b.Get(t.Context(), request)).To(And(HaveField("State", driver.Deleting), HaveField("Message", "node m1 is being deleted; finalizers: example.com/keeps")))
	b.Expect(b.Delete(t.Context(), request.Machine)).To(Succeed(), "again")
	b.Expect(driver.Count(t.Context(), b.Driver)).To(BeZero())
	finalizers(`null`)
	_, err := b.Get(t.Context(), request)
	b.Expect(err).To(MatchError(driver.ErrNotFound))
}

func TestConfigurationsAreReadStrictly(t *testing.T) {
	b := newEnv(t, nil)
	for config, want := range map[string]string{
		`[]`: "spec.providerConfig: not a JSON object: write a KwokNodeConfig",
		`{"apiVersion":"hollowfleet.io/v1alpha1"}`:                           "spec.providerConfig.kind: missing",
		`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`: `spec.providerConfig.kind: want "KwokNodeConfig"`,
		`{` + head + `,"kubelet":{}}`:                                        "spec.providerConfig.kubelet: unknown field: KwokNodeConfig has apiVersion, capacity,",
		`{` + head + `,"profile":"Realistic"}`:                               "spec.providerConfig.profile: unknown field",
		`{` + head + `,"capacity":{"pods":"3"}}`:                             "set the number of pods with maxPods",
		`{` + head + `,"capacity":{"cpu":"0"}}`:                              "spec.providerConfig.capacity.cpu: want more than 0",
		`{` + head + `,"maxPods":0}`:                                         "spec.providerConfig.maxPods: want a whole number from 1 to 1000",
		`{` + head + `,"startupDelay":"soon"}`:                               "spec.providerConfig.startupDelay: want a duration",
		`{` + head + `,"startupDelay":"11m"}`:                                "spec.providerConfig.startupDelay: 11m0s is not less than the 10m0s",
		`{` + head + `,"hollowTaint":"Sometimes"}`:                           "spec.providerConfig.hollowTaint",
	} {
		request := requestOf("bad", config)
		request.CreationTimeout = 10 * time.Minute
		_, err := b.Create(t.Context(), request)
		b.Expect(err).To(And(MatchError(driver.ErrInvalidConfiguration), MatchError(ContainSubstring(want))), config)
	}
	for want, change := range map[string]func(*driver.Request){
		"spec.versions.controlPlane": func(r *driver.Request) { r.Machine.Spec.Versions.ControlPlane = "v1.37.0" },
		"spec.requireVersionCode":    func(r *driver.Request) { r.Machine.Spec.RequireVersionCode = true },
		"spec.versions.kubelet":      func(r *driver.Request) { r.Machine.Spec.Versions.Kubelet = "new" },
		"spec.versions.containerRuntime.version": func(r *driver.Request) {
			r.Machine.Spec.Versions.ContainerRuntime = &v1alpha1.ContainerRuntime{Version: "?"}
		},
		"spec.secretRef": func(r *driver.Request) { r.Class.SecretName = "s" },
	} {
		request := requestOf("bad", "")
		change(&request)
		_, err := b.Create(t.Context(), request)
		b.Expect(err).To(MatchError(HavePrefix(want+": ")), want)
	}
	b.Expect(b.List(t.Context())).To(BeEmpty())
}

func TestTaintsAreAsTheClassSays(t *testing.T) {
	b := newEnv(t, func(o *Options) { o.HollowTaint = "" })
	tainted := func(name string) bool {
		for _, taint := range b.node(name).Spec.Taints {
			if taint.Key == v1alpha1.HollowNodeTaint {
				return true
			}
		}
		return false
	}
	b.create(requestOf("alone", `{`+head+`}`))
	b.Expect(tainted("alone")).To(BeFalse(), "kwok's own Nodes are no real ones")
	genuine := &corev1.Node{}
	genuine.Name = "real"
	b.Expect(b.client.Create(t.Context(), genuine)).To(Succeed())
	t.Cleanup(func() { _ = b.client.Delete(context.Background(), genuine) })
	b.create(requestOf("auto", `{`+head+`}`))
	b.create(requestOf("never", `{`+head+`,"hollowTaint":"Never"}`))
	b.Expect(tainted("auto")).To(BeTrue())
	b.Expect(tainted("never")).To(BeFalse())
	always, err := b.Get(t.Context(), requestOf("never", `{`+head+`,"hollowTaint":"Always"}`))
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(always).To(And(HaveField("UpToDate", true), HaveField("Taints", ConsistOf(HaveField("Key", v1alpha1.HollowNodeTaint)))))
}

func TestStatesAreToldFromTheNode(t *testing.T) {
	b := newEnv(t, nil)
	request := requestOf("m1", `{`+head+`,"startupDelay":"1m"}`)
	b.Expect(b.create(request).Message).To(HavePrefix("the Node starts up until "))
	b.clock.SetTime(b.clock.Now().Add(2 * time.Minute))
	b.Expect(b.Get(t.Context(), request)).To(And(HaveField("State", driver.Pending), HaveField("Message", ContainSubstring("has not made the Node Ready yet"))))
	for _, step := range []struct {
		condition corev1.NodeCondition
		want      driver.State
	}{
		{corev1.NodeCondition{Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated"}, driver.Pending},
		{corev1.NodeCondition{Status: corev1.ConditionTrue}, driver.Running},
		{corev1.NodeCondition{Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}, driver.Failing},
	} {
		step.condition.Type = corev1.NodeReady
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{step.condition}}})
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(b.client.Status().Patch(t.Context(), b.node("m1"), client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		b.Expect(b.Get(t.Context(), request)).To(HaveField("State", step.want))
	}
	request.Machine.Spec.ProviderID = ptr.To("kwok://c1/m1")
	request.Class = nil
	b.Expect(b.Get(t.Context(), request)).To(HaveField("UpToDate", true))
}

func TestTheSampleIsValid(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile("../../../config/samples/machineclass-kwok.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	class := &v1alpha1.MachineClass{}
	g.Expect(yaml.UnmarshalStrict(text, class)).To(Succeed())
	g.Expect(class.Spec.Provider).To(Equal(v1alpha1.ProviderKwok))
	request := requestOf("m1", "")
	request.Class.Config = class.Spec.ProviderConfig
	want, err := (&Driver{}).resolveDesired(request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(want.startupDelay).To(Equal(5 * time.Second))
	g.Expect(want.capacity).To(HaveKey(corev1.ResourceName("example.com/gpu")))
}
