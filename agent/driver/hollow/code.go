package hollow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// imageOf returns the image with the kubelet code of a Machine's minor. If there is none it is the built-in one, which only reports the
// version, or *driver.InvalidConfigurationError if the Machine demands code. A pod that runs keeps its image, whatever images there are by now.
func (d *Driver) imageOf(want desired) (string, error) {
	minor := hollownode.MinorOf(want.configuration.KubeletVersion)
	if image := d.options.MinorImages[minor]; image != "" {
		return image, nil
	}
	if want.configuration.RequireVersionCode && minor != "" && minor != hollownode.BuiltInMinor {
		return "", driver.Invalid("spec.requireVersionCode", "the agent has no hollow-node with the kubelet code of %s for version %s, only of %s: "+
			"run make build-simulator MINORS=%s and start the local fleet again, or name its image in hollowNode.minors of the agent's chart; or remove the field",
			minor, want.configuration.KubeletVersion, strings.Join(d.listMinors(), ", "), minor)
	}
	return d.options.Image, nil
}

// listMinors are those whose kubelet code there is.
func (d *Driver) listMinors() []string {
	all := slices.AppendSeq([]string{hollownode.BuiltInMinor}, maps.Keys(d.options.MinorImages))
	slices.Sort(all)
	return slices.Compact(all)
}

// CheckMinorImages reports what is wrong with images by minor.
func CheckMinorImages(images map[string]string) error {
	for _, minor := range slices.Sorted(maps.Keys(images)) {
		if !strings.HasPrefix(minor, "1.") || hollownode.MinorOf(minor) != minor {
			return fmt.Errorf("%q is not a minor: write it as 1.36", minor)
		}
		if images[minor] == "" {
			return fmt.Errorf("minor %s has no image", minor)
		}
	}
	return nil
}
