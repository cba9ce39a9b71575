package observe

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// Kubelet is a kubelet that Nodes had at some time.
type Kubelet struct {
	// Version is what the Nodes reported, Code that of the code that ran.
	Version string `json:"version"`
	Code    string `json:"code"`
}

// IsCode reports whether the code was of the minor that the Nodes reported.
func (k Kubelet) IsCode() bool { return hollownode.MinorOf(k.Version) == hollownode.MinorOf(k.Code) }

// noteKubelets notes what the Nodes of hollow machines run. Others do not say which code that is.
func (t *Timeline) noteKubelets(s *Sample) {
	for _, machine := range s.Machines {
		if versions := machine.Status.Versions; versions != nil && versions.KubeletCode != "" {
			t.kubelets[Kubelet{versions.Kubelet, versions.KubeletCode}] = true
		}
	}
}

// ListKubelets are all kubelets that there were, by their versions.
func (t *Timeline) ListKubelets() []Kubelet {
	return slices.SortedFunc(maps.Keys(t.kubelets), func(a, b Kubelet) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Code, b.Code))
	})
}
