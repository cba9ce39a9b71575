package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/waves"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// kindsOfSet are what a board of a SimulatedClusterSet is made of.
func kindsOfSet(name string) []live.Kind {
	return []live.Kind{
		{Name: wholeKind, List: &v1alpha1.SimulatedClusterSetList{}, Options: []client.ListOption{client.MatchingFields{metav1.ObjectNameField: name}}},
		{Name: health.SimulatedCluster, List: &v1alpha1.SimulatedClusterList{}, Options: []client.ListOption{client.MatchingLabels{v1alpha1.SimulatedClusterSetNameLabel: name}}},
		{Name: health.Cluster, List: &v1alpha1.ClusterList{}},
	}
}

// setWave is a wave of a SimulatedClusterSet on a board.
type setWave struct {
	title          string
	updated, total int
	// rest are the clusters that are not updated.
	rest []setMember
}

// setMember is a cluster that is not updated.
type setMember struct {
	name, text string
	tone       live.Tone
	rank       int
}

// wavesOfSet are the waves of a set, as its hub decides about them.
func wavesOfSet(set *v1alpha1.SimulatedClusterSet, known map[string]live.Snapshot, now time.Time) []setWave {
	var ones []*v1alpha1.SimulatedCluster
	if list, ok := known[health.SimulatedCluster].List.(*v1alpha1.SimulatedClusterList); ok {
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], set) {
				ones = append(ones, &list.Items[i])
			}
		}
	}
	clusters := map[string]*v1alpha1.Cluster{}
	if list, ok := known[health.Cluster].List.(*v1alpha1.ClusterList); ok {
		for i := range list.Items {
			clusters[list.Items[i].Name] = &list.Items[i]
		}
	}
	scope := waves.NewPreviewScope(set, ones, func(name string) *v1alpha1.Cluster { return clusters[name] }, now)
	all, members, _ := waves.Preview(scope) // A problem of the whole is what the first line says.
	found := make([]setWave, len(all), len(all)+1)
	for i := range all {
		found[i].title = fmt.Sprintf("Wave %d of %d", i+1, len(all))
		if groups := strings.Join(all[i].Groups, ", "); groups != "" {
			found[i].title += " (" + groups + ")"
		}
	}
	outside := setWave{title: "In no wave"}
	soak := MinSuccessTime(&set.Spec.Rollout.RolloutStrategy)
	for i := range members {
		of := &outside
		if wave := members[i].Wave; wave > 0 {
			of = &found[wave-1]
		}
		of.addMember(&members[i], soak, now)
	}
	if outside.total > 0 {
		found = append(found, outside)
	}
	return found
}

// addMember adds a cluster.
func (w *setWave) addMember(m *waves.MemberPreview, soak time.Duration, now time.Time) {
	w.total++
	if m.Phase == plan.Succeeded {
		w.updated++
		return
	}
	one := setMember{name: m.One.Name, text: string(m.Phase), tone: live.Busy, rank: 1}
	if !m.Since.IsZero() {
		one.text += " for " + duration.HumanDuration(max(now.Sub(m.Since), 0))
	}
	problems := m.Problems()
	switch {
	case len(problems) > 0:
		one.tone, one.rank = live.Bad, 0
		if m.Phase == plan.ToApply {
			one.text = "Waiting"
		}
		one.text += ": " + strings.Join(problems, "; ")
	case m.Phase == plan.Soaking:
		one.text = string(m.Phase) + ", " + duration.HumanDuration(max(m.Since.Add(soak).Sub(now), 0)) + " left"
	case m.Phase == plan.ToApply:
		one.text, one.tone, one.rank = DescribeTurn(&m.ClusterPreview), live.Plain, 2
	default:
		if ready := meta.FindStatusCondition(m.One.Status.Conditions, v1alpha1.ReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue && ready.Message != "" {
			one.text += ": " + ready.Message
		}
	}
	w.rest = append(w.rest, one)
}

// screenLines are the wave on a screen: first the clusters that a person may have to look at.
func (w *setWave) screenLines(width int) []live.Line {
	lines := []live.Line{{Text: w.title, Tone: live.Strong}}
	if w.total == 0 {
		lines[0].Text += ": no clusters"
		return lines
	}
	lines = append(lines, live.Linef("  %s %d of %d updated", DrawBar(int64(w.updated), int64(w.total), width), w.updated, w.total))
	slices.SortStableFunc(w.rest, func(a, b setMember) int { return cmp.Compare(a.rank, b.rank) })
	for _, one := range w.rest[:min(len(w.rest), mostMachines)] {
		lines = append(lines, live.Wrap(one.name+" "+one.text, 2, width, 3, one.tone)...)
	}
	if more := len(w.rest) - mostMachines; more > 0 {
		lines = append(lines, live.Line{Text: "  and " + plural.Count(more, "cluster") + " more", Tone: live.Faint})
	}
	return lines
}
