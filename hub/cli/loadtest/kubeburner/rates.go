package kubeburner

import (
	"fmt"
	"math"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// What kube-burner uses where qps or burst is not set.
const qpsByDefault, burstByDefault = 5, 10

// mostOff is by what part a rate may be off before it is named.
const mostOff = 0.02

// readRate reads how many requests a job makes in a second.
func (c *conversion) readRate(s settings) float64 {
	qps, burst := s.readNumber("qps", 0), s.readNumber("burst", 0)
	if qps < 0 || burst < 0 {
		s.noteWrongType("qps", "a rate", qps)
		qps = 0
	}
	if qps == 0 || burst == 0 {
		if qps != 0 || burst != 0 {
			c.addNote(Ignored, s.path, "qps %v and burst %v: without both of them kube-burner uses %d and %d, and so does the LoadTest", qps, burst, qpsByDefault, burstByDefault)
		}
		return qpsByDefault
	}
	if burst > 1 {
		c.addNote(Changed, s.pathOf("burst"), "the first %v requests are made at the rate of qps, and not at once", burst)
	}
	return qps
}

// shareRate gives each phase of a step its part of a rate, so that all of them end at about the same time: counts are the requests of
// each. A rate that whole requests a second do not give is named.
func (c *conversion) shareRate(path string, qps float64, counts []int) []v1alpha1.LoadTuning {
	total := 0
	for _, count := range counts {
		total += count
	}
	var tunings []v1alpha1.LoadTuning
	var texts []string
	sum, longest := 0.0, 0.0
	for _, count := range counts {
		each := min(max(math.Round(qps*float64(count)/float64(max(total, 1))), 1), mostQPS)
		sum, longest = sum+each, max(longest, float64(count)/each)
		texts = append(texts, fmt.Sprint(each))
		tunings = append(tunings, v1alpha1.LoadTuning{Type: v1alpha1.LoadSteady, QPS: int32(each), Burst: 1})
	}
	wanted := float64(total) / qps
	if math.Abs(sum-qps) > mostOff*qps || math.Abs(longest-wanted) > mostOff*wanted {
		how := ""
		if len(texts) > 1 {
			how = " (" + strings.Join(texts, " + ") + ", one for each kind of object)"
		}
		c.addNote(Changed, path+".qps", "%v requests a second become %v%s, because a LoadTest has whole numbers from 1 to %d: %d requests take %s instead of %s",
			qps, sum, how, mostQPS, total, secondsToDuration(longest), secondsToDuration(wanted))
	}
	return tunings
}
