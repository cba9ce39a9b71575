package podhost

import (
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/packs"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
)

// newPacks returns what starts hollow nodes, in packs if the options ask for it. What happens to packs is told in events of the Node.
func (h *host) newPacks(recorder record.EventRecorder) *packs.Launcher {
	self := &corev1.ObjectReference{Kind: "Node", Name: h.options.Name, UID: types.UID(h.options.Name)}
	return packs.New(packs.Options{
		Processes: h.launcher,
		Directory: filepath.Join(h.options.DataDir, packDirectory),
		Nodes:     h.options.NodesPerPack,
		Env:       []string{h.marker},
		LogLimit:  h.options.LogLimit,
		Warn:      func(reason, message string) { recorder.Event(self, corev1.EventTypeWarning, reason, message) },
	})
}

// takePackDirectory makes the directory of packs, and removes what packs of an earlier podhost have left in it: they ended with it.
func takePackDirectory(path string) error {
	if err := poddir.Take(path, 0o711); err != nil {
		return fmt.Errorf("making the directory of packs: %w", err)
	}
	left, _, err := poddir.List(path)
	if err != nil {
		return err
	}
	for _, uid := range left {
		if err := poddir.Remove(path, uid); err != nil {
			return err
		}
	}
	return nil
}
