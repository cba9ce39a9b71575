//go:build !linux

package rehearse

import "github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"

// localFleet needs Linux.
type localFleet struct{}

func defaultLocalDir() string { return "" }

func findLocalFleet(_, _ string) *localFleet { return nil }

func (f *localFleet) kubeconfigOf(string) string { return "" }

func (f *localFleet) checkVersions(shape.Versions) error { return nil }

func (f *localFleet) checkRoom(int, []string) ([]string, error) { return nil, nil }
