package hollow

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// Claim: CSI drivers that no Node can have are refused by field and remedy. Broken: a name twice; a topology key that the Node does not have; no bound.
func TestBadCSIDriversAreRefused(t *testing.T) {
	entry := func(fields string) string { return `"csiDrivers":[{"name":"csi.example.com",` + fields + `}]` }
	for name, test := range map[string]struct{ fields, want string }{
		"no list":                {`"csiDrivers":{"name":"csi.example.com"}`, `c.csiDrivers: want a list of at most 8 such as {"name": "csi.example.com", "maxVolumesPerNode": 25}, got {"name":"csi.example.com"}`},
		"an unknown field":       {entry(`"count":8`), "c.csiDrivers[0].count: unknown field: csiDrivers has maxVolumesPerNode, name, topologyKeys"},
		"no name":                {`"csiDrivers":[{"maxVolumesPerNode":8}]`, "c.csiDrivers[0].name: missing: write the name of a CSI driver such as csi.example.com"},
		"a name that is none":    {`"csiDrivers":[{"name":"CSI/driver"}]`, `c.csiDrivers[0].name: want the name of a CSI driver such as csi.example.com, of at most 63 characters, got "CSI/driver"`},
		"twice":                  {`"csiDrivers":[{"name":"csi.example.com"},{"name":"csi.example.com"}]`, "c.csiDrivers[1].name: csi.example.com is there twice: remove one, or give it another name"},
		"no volumes":             {entry(`"maxVolumesPerNode":0`), "c.csiDrivers[0].maxVolumesPerNode: want a whole number from 1 to 1000, got 0"},
		"too many volumes":       {entry(`"maxVolumesPerNode":1001`), "c.csiDrivers[0].maxVolumesPerNode: want a whole number from 1 to 1000, got 1001"},
		"a key that is none":     {entry(`"topologyKeys":["a b"]`), `c.csiDrivers[0].topologyKeys[0]: want the key of a label such as topology.kubernetes.io/zone, each once, got "a b"`},
		"a key twice":            {entry(`"topologyKeys":["zone","zone"]`), `c.csiDrivers[0].topologyKeys[1]: want the key of a label such as topology.kubernetes.io/zone, each once, got "zone"`},
		"a label of no Node":     {entry(`"topologyKeys":["example.com/rack"]`), "c.csiDrivers[0].topologyKeys[0]: the Node does not have the label example.com/rack: add it to spec.nodeMetadata.labels, or write kubernetes.io/hostname for volumes of one Node"},
		"keys that are no texts": {entry(`"topologyKeys":[1]`), `c.csiDrivers[0].topologyKeys: want a list of at most 8 labels such as "topology.kubernetes.io/zone", got [1]`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolveDevices(test.fields, nil)
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}

	g := NewWithT(t)
	want, err := resolveDevices(entry(`"maxVolumesPerNode":25,"topologyKeys":["kubernetes.io/hostname"]`), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(want.configuration.CSIDrivers).To(Equal([]hollownode.CSIDriver{
		{Name: "csi.example.com", MaxVolumesPerNode: 25, TopologyKeys: []string{"kubernetes.io/hostname"}},
	}))
}
