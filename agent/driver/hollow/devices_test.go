package hollow

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// resolveDevices resolves a Machine whose class has these fields and this capacity in its node template.
func resolveDevices(fields string, template corev1.ResourceList) (desired, error) {
	return resolveDesired("c1", driver.Request{
		Machine: testMachine(),
		Class: &driver.Class{
			Config: &runtime.RawExtension{Raw: []byte("{" + head + "," + fields + "}")}, Path: "c",
			NodeTemplate: &v1alpha1.NodeTemplate{Capacity: template},
		},
	})
}

// Claim: Devices beyond what a Node can have or is planned with are refused by field and remedy. Broken: a resource counted twice; another number in the node template; no bound.
func TestBadDevicesAreRefused(t *testing.T) {
	gpus := func(number string) corev1.ResourceList {
		return corev1.ResourceList{"example.com/gpu": resource.MustParse(number)}
	}
	const eight = `"devices":[{"resource":"example.com/gpu","count":8}]`
	for name, test := range map[string]struct {
		fields   string
		template corev1.ResourceList
		want     string
	}{
		"no list":             {`"devices":{"count":8}`, nil, `c.devices: want a list of at most 8 such as {"resource": "example.com/gpu", "count": 8}, got {"count":8}`},
		"an unknown field":    {`"devices":[{"name":"gpu"}]`, nil, "c.devices[0].name: unknown field: devices has attributes, capacity, count, driver, resource"},
		"no resource":         {`"devices":[{"count":8}]`, nil, "c.devices[0].resource: missing: write an extended resource such as example.com/gpu, or in driver a DRA driver such as gpu.example.com"},
		"a resource of pods":  {`"devices":[{"resource":"cpu","count":8}]`, nil, `c.devices[0].resource: want an extended resource such as example.com/gpu, got "cpu"`},
		"no count":            {`"devices":[{"resource":"example.com/gpu"}]`, nil, "c.devices[0].count: missing: write how many devices there are, 1 to 128"},
		"none":                {`"devices":[{"resource":"example.com/gpu","count":0}]`, nil, "c.devices[0].count: want a whole number from 1 to 128, got 0"},
		"too many":            {`"devices":[{"resource":"example.com/gpu","count":129}]`, nil, "c.devices[0].count: want a whole number from 1 to 128, got 129"},
		"twice":               {`"devices":[{"resource":"example.com/gpu","count":1},{"resource":"example.com/gpu","count":2}]`, nil, "c.devices[1].resource: example.com/gpu is there twice: remove one, and count all its devices in the other"},
		"counted in capacity": {eight + `,"capacity":{"example.com/gpu":"8"}`, nil, "c.capacity.example.com/gpu: counted twice, here and in devices: remove it here"},
		"beyond the template": {eight, gpus("4"), "c.devices[0].count: 8 devices, but spec.nodeTemplate.capacity has 4 of example.com/gpu, the Node that is planned with: set the same number in both"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolveDevices(test.fields, test.template)
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}

	g := NewWithT(t)
	want, err := resolveDevices(eight, gpus("8"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(want.configuration.Devices).To(Equal([]hollownode.Devices{{Resource: "example.com/gpu", Count: 8}}))
	g.Expect(want.configuration.Capacity).NotTo(HaveKey(corev1.ResourceName("example.com/gpu")), "the kubelet counts devices")
}

// Claim: Devices that no ResourceSlice can have are refused by field and remedy. Broken: no check of names; an attribute with two values; the fields of a driver beside a resource.
func TestBadDevicesOfADriverAreRefused(t *testing.T) {
	entry := func(fields string) string { return `"devices":[{"driver":"gpu.example.com","count":8,` + fields + `}]` }
	for name, test := range map[string]struct{ fields, want string }{
		"a driver without a domain": {`"devices":[{"driver":"gpu","count":8}]`, `c.devices[0].driver: want a DRA driver such as gpu.example.com, of at most 63 characters and a first part of 59, got "gpu"`},
		"beside a resource":         {entry(`"resource":"example.com/gpu"`), "c.devices[0].driver: set beside resource: write two entries, one for the device plugin and one for the DRA driver"},
		"twice":                     {`"devices":[{"driver":"gpu.example.com","count":1},{"driver":"gpu.example.com","count":2}]`, "c.devices[1].driver: gpu.example.com is there twice: remove one, or give it another name"},
		"a resource's attributes":   {`"devices":[{"resource":"example.com/gpu","count":8,"attributes":{}}]`, "c.devices[0].attributes: devices of a device plugin have none: remove it, or write driver instead of resource"},
		"a resource's capacity":     {`"devices":[{"resource":"example.com/gpu","count":8,"capacity":{}}]`, "c.devices[0].capacity: devices of a device plugin have none: remove it, or write driver instead of resource"},
		"no attribute's name":       {entry(`"attributes":{"gpu-model":{"string":"A100"}}`), "c.devices[0].attributes.gpu-model: want a name such as model or example.com/model, of letters, digits and underscores, with at most 32 characters after the slash"},
		"an untyped attribute":      {entry(`"attributes":{"model":"A100"}`), `c.devices[0].attributes.model: want an object, got "A100"`},
		"two values":                {entry(`"attributes":{"model":{"string":"A100","int":1}}`), `c.devices[0].attributes.model: want one value such as {"string": "A100"}, got {"string":"A100","int":1}`},
		"no version":                {entry(`"attributes":{"driver":{"version":"v1"}}`), `c.devices[0].attributes.driver.version: want a semantic version such as 1.2.3 of at most 64 characters, got "v1"`},
		"no quantity":               {entry(`"capacity":{"memory":"much"}`), `c.devices[0].capacity.memory: not a quantity: write it as "80Gi", got "much"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolveDevices(test.fields, nil)
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}

	g := NewWithT(t)
	want, err := resolveDevices(entry(`"attributes":{"model":{"string":"A100"},"numa":{"int":1},"nvlink":{"bool":true},"driver":{"version":"1.2.3"}},"capacity":{"memory":"80Gi"}`), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(want.configuration.Devices).To(Equal([]hollownode.Devices{{
		Driver: "gpu.example.com", Count: 8,
		Attributes: map[string]resourcev1.DeviceAttribute{
			"model": {StringValue: new("A100")}, "numa": {IntValue: new(int64(1))}, "nvlink": {BoolValue: new(true)}, "driver": {VersionValue: new("1.2.3")},
		},
		Capacity: map[string]resource.Quantity{"memory": resource.MustParse("80Gi")},
	}}))
}
