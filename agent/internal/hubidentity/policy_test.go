package hubidentity

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// hub is one whose Lease was last renewed so many seconds after the start; -1 for none.
func hub(uid string, renewed int) Hub {
	h := Hub{ClusterUID: uid}
	if renewed >= 0 {
		h.Renewed = start.Add(time.Duration(renewed) * time.Second)
	}
	return h
}

func waiting(known Hub, reason string, seen Hub) Memory {
	return Memory{Hub: known, Finding: &Finding{ID: "f1", Reason: reason, Hub: seen, Since: start}}
}

func sight(seen Hub, machines, instances int) Observation {
	return Observation{Cluster: "c1", Hub: seen, Machines: machines, Instances: instances, Nonce: "n", Now: start}
}

func acknowledging(s Observation, finding string) Observation {
	s.Acknowledged = finding
	return s
}

func TestJudge(t *testing.T) {
	known := Memory{Hub: hub("a", 10)}
	changed := waiting(hub("a", 10), v1alpha1.ReasonHubChanged, hub("b", 20))
	restored := waiting(hub("a", 10), v1alpha1.ReasonHubRestored, hub("a", 5))
	empty := waiting(hub("a", 10), v1alpha1.ReasonHubEmpty, hub("a", 10))
	accepted := Memory{Hub: hub("a", 10), EmptyAccepted: true}
	tests := map[string]struct {
		memory  Memory
		sight   Observation
		want    Outcome
		finding string // the reason of one that waits afterwards
		hub     Hub    // the one that the agent works for afterwards
	}{
		"nothing is known":                        {Memory{}, sight(hub("a", -1), 0, 0), Met, "", hub("a", -1)},
		"the first time, with instances":          {Memory{}, sight(hub("a", 3), 2, 2), Met, "", hub("a", 3)},
		"the first time, and the hub is empty":    {Memory{}, sight(hub("a", 3), 0, 2), Found, v1alpha1.ReasonHubEmpty, Hub{}},
		"all is well":                             {known, sight(hub("a", 10), 2, 2), Unchanged, "", hub("a", 10)},
		"renewed since":                           {known, sight(hub("a", 30), 2, 2), Unchanged, "", hub("a", 30)},
		"Machines and no instances yet":           {known, sight(hub("a", 10), 2, 0), Unchanged, "", hub("a", 10)},
		"another UID":                             {known, sight(hub("b", 30), 2, 2), Found, v1alpha1.ReasonHubChanged, hub("a", 10)},
		"another UID, and empty":                  {known, sight(hub("b", -1), 0, 2), Found, v1alpha1.ReasonHubChanged, hub("a", 10)},
		"another UID, nothing to lose":            {known, sight(hub("b", -1), 0, 0), NothingToLose, "", hub("b", -1)},
		"an older renewal":                        {known, sight(hub("a", 9), 2, 2), Found, v1alpha1.ReasonHubRestored, hub("a", 10)},
		"no Lease":                                {known, sight(hub("a", -1), 2, 2), Found, v1alpha1.ReasonHubRestored, hub("a", 10)},
		"no Lease, nothing to lose":               {known, sight(hub("a", -1), 2, 0), NothingToLose, "", hub("a", -1)},
		"no Machine":                              {known, sight(hub("a", 10), 0, 1), Found, v1alpha1.ReasonHubEmpty, hub("a", 10)},
		"no Machine, and an instance knows":       {accepted, sight(hub("a", 10), 0, 1), Unchanged, "", hub("a", 10)},
		"changed, not acknowledged yet":           {changed, sight(hub("b", 30), 2, 2), Unchanged, v1alpha1.ReasonHubChanged, hub("a", 10)},
		"changed, acknowledged":                   {changed, acknowledging(sight(hub("b", 30), 2, 2), "f1"), Acknowledged, "", hub("b", 30)},
		"changed, another finding acknowledged":   {changed, acknowledging(sight(hub("b", 30), 2, 2), "f0"), Unchanged, v1alpha1.ReasonHubChanged, hub("a", 10)},
		"changed, instances have gone":            {changed, sight(hub("b", 30), 2, 0), NothingToLose, "", hub("b", 30)},
		"changed, and back":                       {changed, sight(hub("a", 10), 2, 2), Back, "", hub("a", 10)},
		"changed, and back without Machines":      {changed, sight(hub("a", 10), 0, 2), Found, v1alpha1.ReasonHubEmpty, hub("a", 10)},
		"changed, and back from a backup":         {changed, sight(hub("a", 9), 2, 2), Found, v1alpha1.ReasonHubRestored, hub("a", 10)},
		"changed, and changed again":              {changed, acknowledging(sight(hub("c", 30), 2, 2), "f1"), Found, v1alpha1.ReasonHubChanged, hub("a", 10)},
		"restored, not acknowledged yet":          {restored, sight(hub("a", 40), 2, 2), Unchanged, v1alpha1.ReasonHubRestored, hub("a", 10)},
		"restored, acknowledged":                  {restored, acknowledging(sight(hub("a", 40), 2, 2), "f1"), Acknowledged, "", hub("a", 40)},
		"restored, and restored again":            {restored, acknowledging(sight(hub("a", 4), 2, 2), "f1"), Found, v1alpha1.ReasonHubRestored, hub("a", 10)},
		"restored, to a later state of itself":    {waiting(hub("a", 10), v1alpha1.ReasonHubRestored, hub("a", 40)), sight(hub("a", 30), 2, 2), Found, v1alpha1.ReasonHubRestored, hub("a", 10)},
		"empty, and Machines are back":            {empty, sight(hub("a", 10), 2, 2), Unchanged, v1alpha1.ReasonHubEmpty, hub("a", 10)},
		"empty, acknowledged":                     {empty, acknowledging(sight(hub("a", 10), 0, 2), "f1"), Acknowledged, "", hub("a", 10)},
		"empty, and restored":                     {empty, acknowledging(sight(hub("a", 9), 2, 2), "f1"), Found, v1alpha1.ReasonHubRestored, hub("a", 10)},
		"empty at the first time, and changed":    {waiting(Hub{}, v1alpha1.ReasonHubEmpty, hub("a", 10)), sight(hub("b", 20), 2, 2), Found, v1alpha1.ReasonHubChanged, Hub{}},
		"accepted as empty, and strange for that": {accepted, sight(hub("a", 9), 0, 2), Found, v1alpha1.ReasonHubRestored, hub("a", 10)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			after, outcome := Evaluate(test.memory, test.sight)
			reason := ""
			if after.Finding != nil {
				reason = after.Finding.Reason
			}
			if outcome != test.want || reason != test.finding || after.Hub != test.hub {
				t.Fatalf("%s, waiting for %q, works for %+v; want %s, %q, %+v", outcome, reason, after.Hub, test.want, test.finding, test.hub)
			}
			if outcome == Found && (after.Finding.ID == "f1" || after.Finding.Hub != test.sight.Hub) {
				t.Errorf("a new finding is %+v", after.Finding)
			}
		})
	}
}

func TestEmptinessIsAcceptedUntilThereAreMachines(t *testing.T) {
	memory := waiting(hub("a", 10), v1alpha1.ReasonHubRestored, hub("a", 5))
	memory, _ = Evaluate(memory, acknowledging(sight(hub("a", 5), 0, 2), "f1"))
	for step, machines := range []int{0, 0, 1, 0} {
		var outcome Outcome
		memory, outcome = Evaluate(memory, sight(hub("a", 5), machines, 2))
		if want := map[bool]Outcome{true: Found, false: Unchanged}[step == 3]; outcome != want {
			t.Fatalf("step %d: %s, want %s", step, outcome, want)
		}
	}
}

func TestMessagesTellWhatToDo(t *testing.T) {
	for reason, s := range map[string]Observation{
		v1alpha1.ReasonHubChanged:  sight(hub("b", 30), 0, 2),
		v1alpha1.ReasonHubRestored: sight(hub("a", -1), 1, 1),
		v1alpha1.ReasonHubEmpty:    sight(hub("a", 10), 0, 1),
	} {
		memory, _ := Evaluate(Memory{Hub: hub("a", 10)}, s)
		message := memory.Finding.Message
		want := []string{"kubectl hollow cluster acknowledge c1", fmt.Sprintf("has %d instance", s.Instances)}
		if reason == v1alpha1.ReasonHubRestored {
			want = append(want, "2026-01-01T12:00:10Z", "shows no Lease")
		}
		if reason == v1alpha1.ReasonHubChanged {
			want = append(want, "its UID is b and was a", "and it has no Machine of the cluster")
		}
		for _, text := range want {
			if !strings.Contains(message, text) {
				t.Errorf("%s: %q lacks %q", reason, message, text)
			}
		}
		if memory.Finding.Reason != reason {
			t.Errorf("found %s, want %s", memory.Finding.Reason, reason)
		}
	}
}

func hubs() *rapid.Generator[Hub] {
	return rapid.Custom(func(t *rapid.T) Hub {
		return hub(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "uid"), rapid.IntRange(-1, 5).Draw(t, "renewed"))
	})
}

// However the hub changes: the agent works on for one that is strange only if a person has said so about that very
// state, or if there is nothing to lose.
func TestNobodyWorksForAStrangeHubUnasked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var memory Memory
		seen, ids := map[string]bool{}, []string{"", "f1"}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			s := Observation{
				Cluster: "c1", Hub: hubs().Draw(t, "hub"), Machines: rapid.IntRange(0, 1).Draw(t, "machines"),
				Instances: rapid.IntRange(0, 2).Draw(t, "instances"), Acknowledged: rapid.SampledFrom(ids).Draw(t, "acknowledged"),
				Nonce: fmt.Sprint(step), Now: start,
			}
			before := memory
			var outcome Outcome
			memory, outcome = Evaluate(before, s)
			if memory.Finding == nil && memory.Hub != s.Hub {
				t.Fatalf("works for %+v and sees %+v", memory.Hub, s.Hub)
			}
			works, strange := memory.Finding == nil, before.describeMismatch(s) != ""
			asked := before.Finding != nil && s.Acknowledged == before.Finding.ID && before.Finding.Hub.Mismatch(s.Hub) == ""
			if works && strange && s.Instances > 0 && !asked {
				t.Fatalf("%s: works for a strange hub: %+v, %+v", outcome, before, s)
			}
			if s.Instances == 0 && !works {
				t.Fatalf("asks although there is nothing to lose: %+v", memory.Finding)
			}
			if outcome == Found {
				if seen[memory.Finding.ID] {
					t.Fatalf("finding %s comes twice", memory.Finding.ID)
				}
				seen[memory.Finding.ID] = true
				ids = append(ids, memory.Finding.ID)
			}
			again, second := Evaluate(memory, Observation{
				Cluster: s.Cluster, Hub: s.Hub, Machines: s.Machines, Instances: s.Instances, Nonce: "again", Now: s.Now.Add(time.Hour),
			})
			if diff := cmp.Diff(memory, again); second != Unchanged || diff != "" {
				t.Fatalf("%s after %s, with nothing new (-first +second):\n%s", second, outcome, diff)
			}
		}
	})
}

func TestMemoryIsKeptToTheMicrosecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := waiting(hub("a", 1), v1alpha1.ReasonHubEmpty, hub("a", 1))
		memory.Hub.Renewed = time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "renewed")).UTC()
		content, err := json.Marshal(memory)
		if err != nil {
			t.Fatal(err)
		}
		var read Memory
		if err := json.Unmarshal(content, &read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(memory, read); diff != "" {
			t.Fatalf("what was stored is read otherwise:\n%s", diff)
		}
	})
}
