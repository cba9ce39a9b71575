package rollout

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// On the days on which the clocks change, a window opens once, as long as it is to be: where its time does not exist, when the
// clocks have gone forward; where its time exists twice, the first time.
func TestWindowsOnTheDaysOnWhichTheClocksChange(t *testing.T) {
	for name, test := range map[string]struct {
		schedule, zone string
		duration       time.Duration
		now            string
		open           bool
		opens          string // when it is not open
	}{
		"Berlin, spring, before":               {"0 2 28 3 *", "Europe/Berlin", 4 * time.Hour, "2026-11-27T00:00:00Z", false, "2027-03-28T01:00:00Z"},
		"Berlin, spring, in it":                {"0 2 28 3 *", "Europe/Berlin", 4 * time.Hour, "2027-03-28T04:59:59Z", true, ""},
		"Berlin, spring, after":                {"0 2 28 3 *", "Europe/Berlin", 4 * time.Hour, "2027-03-28T05:00:00Z", false, "2028-03-28T00:00:00Z"},
		"Berlin, in the hour that is left out": {"30 2 * * *", "Europe/Berlin", 30 * time.Minute, "2027-03-28T00:59:59Z", false, "2027-03-28T01:00:00Z"},
		"Cairo":                                {"0 0 30 4 *", "Africa/Cairo", 6 * time.Hour, "2026-11-27T00:00:00Z", false, "2027-04-29T22:00:00Z"},
		"Santiago":                             {"0 0 5 9 *", "America/Santiago", 6 * time.Hour, "2026-11-27T00:00:00Z", false, "2027-09-05T04:00:00Z"},
		"Beirut":                               {"0 0 28 3 *", "Asia/Beirut", 6 * time.Hour, "2026-11-27T00:00:00Z", false, "2027-03-27T22:00:00Z"},
		"Lord Howe":                            {"15 2 3 10 *", "Australia/Lord_Howe", 4 * time.Hour, "2026-11-27T00:00:00Z", false, "2027-10-02T15:30:00Z"},
		"Berlin, autumn, the first time":       {"30 2 * * *", "Europe/Berlin", 30 * time.Minute, "2026-10-25T00:45:00Z", true, ""},
		"Berlin, autumn, the second time":      {"30 2 * * *", "Europe/Berlin", 30 * time.Minute, "2026-10-25T01:45:00Z", false, "2026-10-26T01:30:00Z"},
		"New York, autumn, the second time":    {"30 1 * * *", "America/New_York", 30 * time.Minute, "2026-11-01T06:45:00Z", false, "2026-11-02T06:30:00Z"},
		"each hour, autumn, the second time":   {"0 * * * *", "Europe/Berlin", 30 * time.Minute, "2026-10-25T01:15:00Z", true, ""},
		"each hour, spring":                    {"30 * * * *", "Europe/Berlin", 10 * time.Minute, "2027-03-28T01:05:00Z", false, "2027-03-28T01:30:00Z"},
		"Sunday is 7":                          {"0 2 * * 7", "UTC", time.Hour, "2026-11-27T00:00:00Z", false, "2026-11-29T02:00:00Z"},
		"to Sunday":                            {"0 2 * * 6-7", "UTC", time.Hour, "2026-11-28T12:00:00Z", false, "2026-11-29T02:00:00Z"},
		"every other day of the week":          {"0 2 * * 1-7/3", "UTC", time.Hour, "2026-11-27T00:00:00Z", false, "2026-11-29T02:00:00Z"},
		"the first Saturday":                   {"0 2 * * 6#1", "UTC", time.Hour, "2026-11-27T00:00:00Z", false, "2026-12-05T02:00:00Z"},
		"the first Saturday by name":           {"0 2 * * sat#1", "UTC", time.Hour, "2026-12-05T02:30:00Z", true, ""},
		"the second and the last Sunday":       {"0 2 * * 7#2,SUN#L", "UTC", time.Hour, "2026-12-13T03:00:00Z", false, "2026-12-27T02:00:00Z"},
		"a fifth Friday":                       {"0 2 * * 5#5", "UTC", time.Hour, "2026-11-27T00:00:00Z", false, "2027-01-29T02:00:00Z"},
		"the first Saturday of January":        {"0 2 * 1 6#1", "UTC", time.Hour, "2026-11-27T00:00:00Z", false, "2027-01-02T02:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			now, err := time.Parse(time.RFC3339, test.now)
			g.Expect(err).NotTo(HaveOccurred())
			w, invalid := newWindow(newSpec(test.schedule, test.zone, test.duration), now)
			g.Expect(invalid).To(BeNil())
			g.Expect(w.open).To(Equal(test.open))
			if !w.open {
				g.Expect(w.opens.UTC().Format(time.RFC3339)).To(Equal(test.opens))
			}
		})
	}
}

func TestAnExclusionWithoutEndSaysSo(t *testing.T) {
	all := &windows{now: time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC), known: map[string]opening{}}
	w, invalid := newWindow(newSpec("0 2 25 12 *", "UTC", time.Hour), all.now)
	NewWithT(t).Expect(invalid).To(BeNil())
	e, invalid := newExclusion(&v1alpha1.MaintenanceExclusion{Name: "e", Start: "2026-01-01", End: "9999-12-31"})
	NewWithT(t).Expect(invalid).To(BeNil())
	all.windows, all.exclusions = []window{w}, []exclusion{e}
	opens, is := isClosed(all, &v1alpha1.Cluster{})
	NewWithT(t).Expect(is).To(BeTrue(), "it opens at %s", opens)
}
