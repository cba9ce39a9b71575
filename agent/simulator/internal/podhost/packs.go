package podhost

import (
	"fmt"
	"path/filepath"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/packs"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
)

// newPacks returns what starts hollow nodes, in packs if the options ask for it.
func (h *host) newPacks() *packs.Launcher {
	return packs.New(packs.Options{
		Processes: h.launcher,
		Directory: filepath.Join(h.options.DataDir, packDirectory),
		Nodes:     h.options.NodesPerPack,
		Env:       []string{h.marker},
		LogLimit:  h.options.LogLimit,
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
