package disrupt

import (
	"errors"
	"fmt"
	"os"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// file is the file with the plan. It is looked at again and again instead of watched: inotify instances are few, and a look
// takes microseconds.
type file struct {
	path string
	last os.FileInfo
}

// readPlan returns the plan if the file has changed since the last call. A file that is not there has a plan without faults.
func (f *file) readPlan() (p plan.Plan, changed bool, err error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, os.ErrNotExist) {
		changed = f.last != nil
		f.last = nil
		return plan.Plan{}, changed, nil
	}
	if err != nil {
		f.last = nil
		return plan.Plan{}, true, fmt.Errorf("reading the plan of disruptions: %w", err)
	}
	if f.last != nil && os.SameFile(f.last, info) && f.last.ModTime().Equal(info.ModTime()) && f.last.Size() == info.Size() {
		return plan.Plan{}, false, nil
	}
	if info.Size() > plan.MaxBytes {
		f.last = info
		return plan.Plan{}, true, fmt.Errorf("reading the plan of disruptions: %d bytes are more than %d", info.Size(), plan.MaxBytes)
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		f.last = nil
		return plan.Plan{}, true, fmt.Errorf("reading the plan of disruptions: %w", err)
	}
	// What was changed in between is read with the next call, because info is older.
	f.last = info
	if p, err = plan.Decode(data); err != nil {
		return plan.Plan{}, true, fmt.Errorf("reading the plan of disruptions in %s: %w", f.path, err)
	}
	return p, true, nil
}
