package hollow

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
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
		"an unknown field":    {`"devices":[{"name":"gpu"}]`, nil, "c.devices[0].name: unknown field: devices has count, resource"},
		"no resource":         {`"devices":[{"count":8}]`, nil, "c.devices[0].resource: missing: write an extended resource such as example.com/gpu"},
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
