package rollout

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func newSpec(schedule, zone string, duration time.Duration) *v1alpha1.MaintenanceWindow {
	return &v1alpha1.MaintenanceWindow{Name: "w", Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: duration}}
}

func TestWindows(t *testing.T) {
	for name, test := range map[string]struct {
		window *v1alpha1.MaintenanceWindow
		now    string
		open   bool
		opens  string
	}{
		"before it":                    {newSpec("0 2 * * *", "UTC", time.Hour), "2026-01-01T01:59:59Z", false, "2026-01-01T02:00:00Z"},
		"at its start":                 {newSpec("0 2 * * *", "UTC", time.Hour), "2026-01-01T02:00:00Z", true, "2026-01-02T02:00:00Z"},
		"its last instant":             {newSpec("0 2 * * *", "UTC", time.Hour), "2026-01-01T02:59:59.999999999Z", true, "2026-01-02T02:00:00Z"},
		"its end":                      {newSpec("0 2 * * *", "UTC", time.Hour), "2026-01-01T03:00:00Z", false, "2026-01-02T02:00:00Z"},
		"over midnight":                {newSpec("0 22 * * 5", "UTC", 4*time.Hour), "2026-01-03T01:00:00Z", true, "2026-01-09T22:00:00Z"},
		"longer than its period":       {newSpec("0 * * * *", "UTC", 2*time.Hour), "2026-01-01T05:30:00Z", true, "2026-01-01T06:00:00Z"},
		"no zone is UTC":               {newSpec("0 2 * * *", "", time.Hour), "2026-01-01T02:30:00Z", true, "2026-01-02T02:00:00Z"},
		"in winter":                    {newSpec("0 2 * * *", "Europe/Berlin", time.Hour), "2026-01-01T01:30:00Z", true, "2026-01-02T01:00:00Z"},
		"in summer":                    {newSpec("0 2 * * *", "Europe/Berlin", time.Hour), "2026-07-01T00:30:00Z", true, "2026-07-02T00:00:00Z"},
		"in the hour that is left out": {newSpec("30 2 * * *", "Europe/Berlin", time.Hour), "2026-03-28T22:00:00Z", false, "2026-03-29T01:00:00Z"},
		"the 29th of February":         {newSpec("0 0 29 2 *", "UTC", time.Hour), "2026-01-01T00:00:00Z", false, "2028-02-29T00:00:00Z"},
		"the hub's clock is in a zone": {newSpec("0 2 * * *", "UTC", time.Hour), "2026-01-01T04:30:00+02:00", true, "2026-01-02T02:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			now, err := time.Parse(time.RFC3339Nano, test.now)
			g.Expect(err).NotTo(HaveOccurred())
			w, invalid := newWindow(test.window, now)
			g.Expect(invalid).To(BeNil())
			g.Expect(w.open).To(Equal(test.open))
			g.Expect(w.opens.UTC().Format(time.RFC3339)).To(Equal(test.opens))
		})
	}
}

func TestAWrongWindowNamesFieldAndRemedy(t *testing.T) {
	for _, test := range []struct {
		window        *v1alpha1.MaintenanceWindow
		field, remedy string
	}{
		{newSpec("0 0 30 2 *", "UTC", time.Hour), "[w].schedule", "never occurs"},
		{newSpec("0 0 * *", "UTC", time.Hour), "[w].schedule", "five fields"},
		{newSpec("0 2 * * 6#6", "UTC", time.Hour), "[w].schedule", "or L for the last"},
		{newSpec("0 2 * * 8", "UTC", time.Hour), "[w].schedule", "a day from 0 to 7"},
		{newSpec("61 0 * * *", "UTC", time.Hour), "[w].schedule", "five fields"},
		{newSpec("@every 1h", "UTC", time.Hour), "[w].schedule", "five fields"},
		{newSpec("TZ=UTC", "UTC", time.Hour), "[w].schedule", "timeZone"},
		{newSpec("0 2 * * *", "Mars/Base", time.Hour), "[w].timeZone", "such as UTC"},
		{newSpec("0 2 * * *", "Local", time.Hour), "[w].timeZone", "such as UTC"},
		{newSpec("0 2 * * *", "UTC", 0), "[w].duration", "such as 4h"},
	} {
		_, invalid := newWindow(test.window, time.Unix(0, 0))
		if invalid == nil || !strings.Contains(invalid.Message, test.field) || !strings.Contains(invalid.Message, test.remedy) {
			t.Errorf("%+v: %v", test.window, invalid)
		}
	}
}

// A window that is closed opens when it says so, and not before.
func TestAWindowOpensWhenItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := newSpec(rapid.SampledFrom([]string{"0 2 * * *", "*/7 * * * *", "30 22 * * 5", "0 3 1 * 1", "15 2 29 3 *"}).Draw(t, "schedule"),
			rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "America/New_York"}).Draw(t, "zone"),
			time.Duration(rapid.IntRange(1, 600).Draw(t, "minutes"))*time.Minute)
		now := time.Unix(rapid.Int64Range(1_700_000_000, 1_800_000_000).Draw(t, "now"), 0)
		w, invalid := newWindow(spec, now)
		if invalid != nil {
			t.Fatal(invalid.Message)
		}
		at, _ := newWindow(spec, w.opens)
		just, _ := newWindow(spec, w.opens.Add(-1))
		if !at.open || !w.open && just.open {
			t.Fatalf("at %s it opens at %s: a nanosecond before %t, then %t", now, w.opens, just.open, at.open)
		}
	})
}
