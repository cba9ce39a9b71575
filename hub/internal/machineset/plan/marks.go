package plan

import (
	"strings"
	"time"
)

// MarkTime reads the time from a mark for deletion, as cluster-autoscaler writes it ("2026-01-31 10:00:00.123456
// +0000 UTC m=+1.5", which is Go's own form) or in RFC 3339. It reports false for any other value.
func MarkTime(value string) (time.Time, bool) {
	value, _, _ = strings.Cut(value, " m=")
	for _, layout := range []string{"2006-01-02 15:04:05.999999999 -0700 MST", time.RFC3339Nano} {
		if at, err := time.Parse(layout, value); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
