package disrupt_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

func entry(fault disrupt.Fault, change ...func(*disrupt.Entry)) disrupt.Entry {
	e := disrupt.Entry{Run: "outage-c1", UID: "7d0c6f0e-0000-4000-8000-000000000001", Fault: fault, Seed: 7}
	e.Start, e.End = metav1.NewTime(start), metav1.NewTime(start.Add(10*time.Minute))
	for _, apply := range change {
		apply(&e)
	}
	return e
}

// oneOfEach is a valid fault of each type, with all parameters.
func oneOfEach() map[disrupt.FaultType]disrupt.Fault {
	return map[disrupt.FaultType]disrupt.Fault{
		disrupt.NotReady:        {Type: disrupt.NotReady},
		disrupt.FreezeHeartbeat: {Type: disrupt.FreezeHeartbeat, FreezeHeartbeat: &disrupt.FreezeHeartbeatParameters{Heartbeat: disrupt.HeartbeatLease}},
		disrupt.Flap:            {Type: disrupt.Flap, Flap: &disrupt.FlapParameters{NotReadyFor: seconds(20), ReadyFor: seconds(30)}},
		disrupt.Kill:            {Type: disrupt.Kill},
		disrupt.Reboot:          {Type: disrupt.Reboot},
		disrupt.Shutdown:        {Type: disrupt.Shutdown},
		disrupt.RestartKubelet:  {Type: disrupt.RestartKubelet},
		disrupt.Pressure:        {Type: disrupt.Pressure, Pressure: &disrupt.PressureParameters{Resources: []disrupt.PressureResource{"Memory", "PID"}}},
		disrupt.Condition: {Type: disrupt.Condition, Condition: &disrupt.ConditionParameters{
			Type: "KernelDeadlock", Status: corev1.ConditionTrue, Reason: "DockerHung", Message: "task docker:12 blocked",
		}},
		disrupt.SlowAPI: {Type: disrupt.SlowAPI, SlowAPI: &disrupt.SlowAPIParameters{
			Latency: seconds(2), Jitter: seconds(1), Clients: []disrupt.APIClient{disrupt.ClientMain},
		}},
		disrupt.APIErrors: {Type: disrupt.APIErrors, APIErrors: &disrupt.APIErrorsParameters{
			Percent: 50, StatusCode: 429, Clients: []disrupt.APIClient{disrupt.ClientHeartbeat, disrupt.ClientEvents},
		}},
		disrupt.PodStartDelay: {Type: disrupt.PodStartDelay, PodStartDelay: &disrupt.PodStartDelayParameters{Delay: seconds(5), Jitter: seconds(5)}},
		disrupt.PodStartFail:  {Type: disrupt.PodStartFail, PodStartFail: &disrupt.PodStartFailParameters{Percent: 10}},
		disrupt.DeviceFailure: {Type: disrupt.DeviceFailure, DeviceFailure: &disrupt.DeviceFailureParameters{Name: "example.com/gpu", Count: 2}},
		disrupt.NeverJoin:     {Type: disrupt.NeverJoin},
	}
}

func everything() disrupt.Plan {
	plan := disrupt.Plan{Version: disrupt.Version}
	for i, kind := range disrupt.FaultTypes {
		plan.Entries = append(plan.Entries, entry(oneOfEach()[kind], func(e *disrupt.Entry) {
			e.Index, e.HealthyFor, e.UnhealthyFor, e.Jitter, e.Repeat = int32(i), seconds(30), seconds(60), seconds(10), 3
		}))
	}
	return plan
}

func TestWhatTheAgentWritesTheNodeReads(t *testing.T) {
	plan := everything()
	text, err := disrupt.Encode(plan)
	if err != nil {
		t.Fatal(err)
	}
	got, err := disrupt.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, plan) {
		t.Errorf("got  %+v\nwant %+v", got, plan)
	}
	// A file that an editor or the agent ends with a new line is the same plan.
	if again, err := disrupt.Decode([]byte(text + "\n")); err != nil || !reflect.DeepEqual(again, plan) {
		t.Errorf("with a new line at the end: %v, %+v", err, again)
	}
}

func TestAPlanWithoutEntriesIsNoAnnotation(t *testing.T) {
	if text, err := disrupt.Encode(disrupt.Plan{}); err != nil || text != "" {
		t.Errorf("got %q, %v", text, err)
	}
	for _, text := range []string{"", "\n"} {
		if plan, err := disrupt.Decode([]byte(text)); err != nil || len(plan.Entries) != 0 {
			t.Errorf("%q: got %+v, %v", text, plan, err)
		}
	}
}

// The format is on nodes that run: a change of it needs another version.
func TestTheFormat(t *testing.T) {
	const want = `{"version":"v1","entries":[{"run":"outage-c1","uid":"7d0c6f0e-0000-4000-8000-000000000001",` +
		`"fault":{"type":"PodStartFail","podStartFail":{"percent":10}},"seed":7,"start":"2030-01-02T03:04:05Z","end":"2030-01-02T03:14:05Z",` +
		`"healthyFor":"30s","unhealthyFor":"1m0s","repeat":2}]}`
	got, err := disrupt.Encode(disrupt.Plan{Entries: []disrupt.Entry{entry(oneOfEach()[disrupt.PodStartFail], func(e *disrupt.Entry) {
		e.HealthyFor, e.UnhealthyFor, e.Repeat = seconds(30), seconds(60), 2
	})}})
	if err != nil || got != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}

// refused has a plan that is spoilt in one way, and what the error says.
type refused struct {
	spoil func(*disrupt.Entry)
	want  []string
}

func refusedEntries() map[string]refused {
	fault := func(kind disrupt.FaultType, change func(*disrupt.Fault)) func(*disrupt.Entry) {
		return func(e *disrupt.Entry) {
			e.Fault = oneOfEach()[kind]
			change(&e.Fault)
		}
	}
	return map[string]refused{
		"no run":                    {func(e *disrupt.Entry) { e.Run = "" }, []string{"entries[0].run: want the name"}},
		"no UID":                    {func(e *disrupt.Entry) { e.UID = "" }, []string{"entries[0].uid: want the UID"}},
		"an index below 0":          {func(e *disrupt.Entry) { e.Index = -1 }, []string{"entries[0].index: "}},
		"no start":                  {func(e *disrupt.Entry) { e.Start = metav1.Time{} }, []string{"entries[0].start: required"}},
		"no end":                    {func(e *disrupt.Entry) { e.End = metav1.Time{} }, []string{"entries[0].end: required", "set a time"}},
		"an end before the start":   {func(e *disrupt.Entry) { e.End.Time = start }, []string{"entries[0].end: want a time after start"}},
		"an end too late":           {func(e *disrupt.Entry) { e.End.Time = start.Add(disrupt.MaxLength + time.Second) }, []string{"entries[0].end: ", "at most 720h0m0s"}},
		"parts of a second":         {func(e *disrupt.Entry) { e.Start.Time = start.Add(time.Millisecond) }, []string{"entries[0].start, end: want whole seconds"}},
		"a negative healthyFor":     {func(e *disrupt.Entry) { e.HealthyFor = seconds(-1) }, []string{"entries[0].healthyFor: want a duration"}},
		"windows too short":         {func(e *disrupt.Entry) { e.UnhealthyFor.Duration = time.Millisecond }, []string{"entries[0].unhealthyFor: want a duration from 1s"}},
		"repeat without an end":     {func(e *disrupt.Entry) { e.Repeat = 2 }, []string{"entries[0].repeat: ", "set unhealthyFor"}},
		"repeat too often":          {func(e *disrupt.Entry) { e.Repeat = disrupt.MaxRepeat + 1 }, []string{"entries[0].repeat: want a number"}},
		"windows that overlap":      {func(e *disrupt.Entry) { e.UnhealthyFor, e.HealthyFor, e.Jitter = seconds(9), seconds(1), seconds(2) }, []string{"entries[0].jitter: ", "shorten it"}},
		"no window before the end":  {func(e *disrupt.Entry) { e.HealthyFor, e.Jitter = seconds(500), seconds(100) }, []string{"entries[0].healthyFor, jitter: ", "later end"}},
		"no fault":                  {func(e *disrupt.Entry) { e.Fault = disrupt.Fault{} }, []string{"entries[0].fault.type: want one of NotReady, "}},
		"parameters of another one": {fault(disrupt.Flap, func(f *disrupt.Fault) { f.SlowAPI = oneOfEach()[disrupt.SlowAPI].SlowAPI }), []string{"fault.slowAPI: has no meaning for the type Flap: remove it"}},
		"parameters missing":        {fault(disrupt.Flap, func(f *disrupt.Fault) { f.Flap = nil }), []string{"fault.flap: required"}},
		"a flap that is not seen":   {fault(disrupt.Flap, func(f *disrupt.Fault) { f.Flap.ReadyFor = seconds(1) }), []string{"fault.flap.readyFor: want a duration from 15s"}},
		"an unknown heartbeat":      {fault(disrupt.FreezeHeartbeat, func(f *disrupt.Fault) { f.FreezeHeartbeat.Heartbeat = "None" }), []string{"freezeHeartbeat.heartbeat: want one of Lease, Status, Both"}},
		"no resource":               {fault(disrupt.Pressure, func(f *disrupt.Fault) { f.Pressure.Resources = nil }), []string{"pressure.resources: required"}},
		"a resource twice":          {fault(disrupt.Pressure, func(f *disrupt.Fault) { f.Pressure.Resources = []disrupt.PressureResource{"PID", "PID"} }), []string{"pressure.resources[1]: PID is there twice"}},
		"the kubelet's condition":   {fault(disrupt.Condition, func(f *disrupt.Fault) { f.Condition.Type = "Ready" }), []string{"condition.type: Ready is the kubelet's own: use a fault of the type NotReady"}},
		"no condition type":         {fault(disrupt.Condition, func(f *disrupt.Fault) { f.Condition.Type = "" }), []string{"condition.type: want one such as KernelDeadlock"}},
		"an unknown status":         {fault(disrupt.Condition, func(f *disrupt.Fault) { f.Condition.Status = "Yes" }), []string{"condition.status: want one of True, False, Unknown"}},
		"a reason of two words":     {fault(disrupt.Condition, func(f *disrupt.Fault) { f.Condition.Reason = "is hung" }), []string{"condition.reason: want a word"}},
		"a message too long":        {fault(disrupt.Condition, func(f *disrupt.Fault) { f.Condition.Message = strings.Repeat("x", 513) }), []string{"condition.message: want a text"}},
		"no latency":                {fault(disrupt.SlowAPI, func(f *disrupt.Fault) { f.SlowAPI.Latency = seconds(0) }), []string{"slowAPI.latency: want a duration"}},
		"an unknown client":         {fault(disrupt.SlowAPI, func(f *disrupt.Fault) { f.SlowAPI.Clients[0] = "Other" }), []string{"slowAPI.clients[0]: want one of Main, Heartbeat, Events"}},
		"more than all":             {fault(disrupt.APIErrors, func(f *disrupt.Fault) { f.APIErrors.Percent = 101 }), []string{"apiErrors.percent: want a number from 1 to 100"}},
		"a status code of success":  {fault(disrupt.APIErrors, func(f *disrupt.Fault) { f.APIErrors.StatusCode = 200 }), []string{"apiErrors.statusCode: want 401, 403, 429, or 500 to 599"}},
		"a delay of days":           {fault(disrupt.PodStartDelay, func(f *disrupt.Fault) { f.PodStartDelay.Delay = seconds(1e6) }), []string{"podStartDelay.delay: want a duration"}},
		"more devices than any":     {fault(disrupt.DeviceFailure, func(f *disrupt.Fault) { f.DeviceFailure.Count = 129 }), []string{"deviceFailure.count: want a number from 1 to 128"}},
		"another effect":            {fault(disrupt.DeviceFailure, func(f *disrupt.Fault) { f.DeviceFailure.Effect = "PreferNoSchedule" }), []string{"deviceFailure.effect: want NoSchedule or NoExecute"}},
		"a device without a domain": {fault(disrupt.DeviceFailure, func(f *disrupt.Fault) { f.DeviceFailure.Name = "gpu" }), []string{"deviceFailure.name: want an extended resource"}},
		"less than none":            {fault(disrupt.PodStartFail, func(f *disrupt.Fault) { f.PodStartFail.Percent = -1 }), []string{"podStartFail.percent: want"}},
	}
}

func TestBadEntriesAreRefusedByFieldAndRemedy(t *testing.T) {
	for name, test := range refusedEntries() {
		t.Run(name, func(t *testing.T) {
			plan := disrupt.Plan{Version: disrupt.Version, Entries: []disrupt.Entry{entry(disrupt.Fault{Type: disrupt.NotReady}, test.spoil)}}
			_, encoding := disrupt.Encode(plan)
			data, err := json.Marshal(plan)
			if err != nil {
				t.Fatal(err)
			}
			_, decoding := disrupt.Decode(data)
			errs := map[string]error{"encoding": encoding, "decoding": decoding}
			if name == "parts of a second" {
				delete(errs, "decoding") // They do not get into the text.
			}
			for when, err := range errs {
				for _, want := range test.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: got %v, want %q", when, err, want)
					}
				}
			}
		})
	}
}

func TestTextThatIsNoPlanIsRefused(t *testing.T) {
	text, err := disrupt.Encode(everything())
	if err != nil {
		t.Fatal(err)
	}
	tooMany := strings.Repeat("{},", disrupt.MaxEntries) + "{}"
	for name, test := range map[string]struct{ text, want string }{
		"no JSON":                {"NotReady", "plan: not a JSON object"},
		"a list":                 {"[]", "plan: not a JSON object"},
		"no version":             {"{}", `version: want "v1", got ""`},
		"another version":        {`{"version":"v2","more":1}`, `version: want "v1", got "v2": update hollow node and agent`},
		"an unknown field":       {`{"version":"v1","entrys":[]}`, "entrys"},
		"an unknown one inside":  {strings.Replace(text, `"percent":10`, `"percentage":10`, 1), `entries[12]: `},
		"its name":               {strings.Replace(text, `"percent":10`, `"percentage":10`, 1), `"percentage"`},
		"a number as a duration": {strings.Replace(text, `"healthyFor":"30s"`, `"healthyFor":30`, 1), "entries[0]: "},
		"text behind it":         {text + "{}", "plan: not a JSON object"},
		"too many entries":       {`{"version":"v1","entries":[` + tooMany + `]}`, "entries: 33 are more than 32"},
		"too many bytes":         {`{"version":"v1"` + strings.Repeat(" ", disrupt.MaxBytes) + `}`, "bytes are more than 65536"},
		"the same fault twice":   {strings.Replace(text, `"index":5`, `"index":4`, 1), "entries[5].index: 4 is taken by entries[4]"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := disrupt.Decode([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// drawEntry draws a valid entry.
func drawEntry(t *rapid.T) disrupt.Entry {
	faults := oneOfEach()
	length := rapid.IntRange(2, 20_000).Draw(t, "length")
	e := entry(faults[rapid.SampledFrom(disrupt.FaultTypes).Draw(t, "type")], func(e *disrupt.Entry) {
		e.Seed = rapid.Int64().Draw(t, "seed")
		e.Index = rapid.Int32Range(0, 9).Draw(t, "index")
		e.End.Time = start.Add(time.Duration(length) * time.Second)
		e.HealthyFor = seconds(rapid.IntRange(0, length/2).Draw(t, "healthyFor"))
	})
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0: // one window until the end
		e.Jitter = seconds(rapid.IntRange(0, length/2-1).Draw(t, "jitter"))
		e.Repeat = rapid.Int32Range(0, 1).Draw(t, "repeat")
	case 1: // one window
		e.UnhealthyFor = seconds(rapid.IntRange(1, length).Draw(t, "unhealthyFor"))
		e.Jitter = seconds(rapid.IntRange(0, length/2-1).Draw(t, "jitter"))
		e.Repeat = 1
	default:
		e.UnhealthyFor = seconds(rapid.IntRange(1, length).Draw(t, "unhealthyFor"))
		e.Jitter.Duration = min(e.HealthyFor.Duration, time.Duration(length/2-1)*time.Second)
		e.Repeat = rapid.Int32Range(0, 50).Draw(t, "repeat")
	}
	return e
}

func TestPlansSurviveTheAnnotation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := disrupt.Plan{Version: disrupt.Version, Entries: []disrupt.Entry{drawEntry(t)}}
		text, err := disrupt.Encode(plan)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := disrupt.Decode([]byte(text)); err != nil || !reflect.DeepEqual(got, plan) {
			t.Fatalf("got %+v, %v, want %+v", got, err, plan)
		}
	})
}

func FuzzDecode(f *testing.F) {
	text, err := disrupt.Encode(everything())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{text, "", "{}", `{"version":"v1"}`, strings.Replace(text, "2030", "9999", 2), strings.Replace(text, `"10s"`, `"-9999999h"`, 2)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plan, err := disrupt.Decode(data)
		if err != nil {
			return
		}
		again, err := disrupt.Encode(plan)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if same, err := disrupt.Decode([]byte(again)); err != nil || !reflect.DeepEqual(same.Entries, plan.Entries) {
			t.Fatalf("what was written is read as %+v, %v, was %+v", same, err, plan)
		}
		for _, now := range []time.Time{{}, start, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)} {
			for _, one := range plan.Entries {
				if _, _, next := one.At("n", now); !next.IsZero() && !next.After(now) {
					t.Fatalf("at %s the next change is at %s", now, next)
				}
			}
		}
	})
}
