package localfleet_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// FuzzStateFile holds whatever is in a fleet's state file: what the fleet did not make stays, in its directory and beside it.
func FuzzStateFile(f *testing.F) {
	for _, seed := range []string{
		``, `{`, `null`, `[]`, `{}`, `{"clusters":["c1","hub"]}`, `{"clusters":["../beside"]}`, `{"clusters":["."]}`, `{"clusters":["/"]}`,
		`{"clusters":["*"]}`, `{"clusters":["precious"]}`, `{"clusters":["c1","c1"],"ready":1}`, `{"processes":[{"pid":0},{"pid":-1}]}`, `{"keeper":{"pid":1,"startTicks":0}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "fleet")
		if _, err := localfleet.Take(dir, false); err != nil {
			t.Fatal(err)
		}
		precious := []string{filepath.Join(parent, "beside"), filepath.Join(dir, "precious")}
		for _, file := range append(precious, filepath.Join(dir, "fleet.json")) {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if state, err := localfleet.ReadState(dir); err == nil {
			// A program of this name would be run, and these processes would be ended.
			identities := append(state.Processes, state.Owner)
			if state.Keeper != nil {
				identities = append(identities, *state.Keeper)
			}
			if state.Simcluster != "" || anyAlive(t, identities) {
				t.Skip("it names what is on this machine")
			}
		}
		_, _ = localfleet.Down(t.Context(), dir)
		for _, file := range precious {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("the state %q removed %s: %v", content, filepath.Base(file), err)
			}
		}
	})
}

// anyAlive fails for the numbers that stand for more than one process where a signal is sent.
func anyAlive(t *testing.T, identities []process.Identity) bool {
	t.Helper()
	alive := false
	for _, identity := range identities {
		if identity.Alive() {
			alive = true
			if identity.PID <= 0 {
				t.Errorf("process %d counts as alive", identity.PID)
			}
		}
	}
	return alive
}
