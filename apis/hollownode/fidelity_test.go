package hollownode_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

func TestProfilesAreValidAndDiffer(t *testing.T) {
	fast, realistic := hollownode.Fast(), hollownode.Realistic()
	for name, profile := range map[string]hollownode.Fidelity{"Fast": fast, "Realistic": realistic} {
		if err := profile.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if fast == realistic {
		t.Error("both profiles are the same")
	}
	if got := valid().EffectiveFidelity(); got != fast {
		t.Errorf("without fidelity: got %+v, want Fast", got)
	}
	c := valid()
	c.Fidelity = &realistic
	if got := c.EffectiveFidelity(); got != realistic {
		t.Errorf("got %+v, want what the file says", got)
	}
}

// A field that is not written would be read as 0, and not as the profile has it.
func TestEachSettingIsWritten(t *testing.T) {
	content, err := json.Marshal(hollownode.Fidelity{})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{
		"probes", "terminationPercent", "bytesPerSecond", "failurePercent", "seed", "eventRecordQPS", "eventBurst", "registryPullQPS",
		"registryBurst", "serializeImagePulls", "maxParallelImagePulls", "configMapAndSecretChangeDetectionStrategy", "podCertificateRequests",
	} {
		if !strings.Contains(string(content), `"`+field+`":`) {
			t.Errorf("no field %s in %s", field, content)
		}
	}
}

func TestWhatNoNodeCanHaveIsRefused(t *testing.T) {
	for field, spoil := range map[string]func(*hollownode.Fidelity){
		"fidelity: probes":                  func(f *hollownode.Fidelity) { f.Probes = "" },
		"terminationPercent":                func(f *hollownode.Fidelity) { f.TerminationPercent = 101 },
		"imagePull.bytesPerSecond":          func(f *hollownode.Fidelity) { f.ImagePull.BytesPerSecond = 1 },
		"imagePull.failurePercent":          func(f *hollownode.Fidelity) { f.ImagePull.FailurePercent = -1 },
		"kubelet.eventRecordQPS":            func(f *hollownode.Fidelity) { f.Kubelet.EventRecordQPS = -1 },
		"kubelet.eventBurst":                func(f *hollownode.Fidelity) { f.Kubelet.EventBurst = 0 },
		"kubelet.registryPullQPS":           func(f *hollownode.Fidelity) { f.Kubelet.RegistryPullQPS = -1 },
		"kubelet.registryBurst":             func(f *hollownode.Fidelity) { f.Kubelet.RegistryBurst = 0 },
		"kubelet.maxParallelImagePulls":     func(f *hollownode.Fidelity) { f.Kubelet.MaxParallelImagePulls = 2 },
		"kubelet.nodeLeaseDurationSeconds":  func(f *hollownode.Fidelity) { f.Kubelet.NodeLeaseDurationSeconds = 3 },
		"kubelet.nodeStatusUpdateFrequency": func(f *hollownode.Fidelity) { f.Kubelet.NodeStatusUpdateFrequency.Duration = time.Millisecond },
		"kubelet.configMapAndSecretChan":    func(f *hollownode.Fidelity) { f.Kubelet.ConfigMapAndSecretChangeDetectionStrategy = "TTL" },
	} {
		t.Run(field, func(t *testing.T) {
			c := valid()
			fidelity := hollownode.Realistic()
			spoil(&fidelity)
			c.Fidelity = &fidelity
			if _, err := hollownode.Marshal(c); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("got %v, want an error that names %s", err, field)
			}
		})
	}
}
