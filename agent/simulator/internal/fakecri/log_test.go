package fakecri

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
)

func (f env) log(id string, options LogOptions) string {
	f.Helper()
	var text strings.Builder
	if err := f.ReadLog(context.Background(), id, options, &text); err != nil {
		f.Fatal(err)
	}
	return text.String()
}

func (f env) expectLog(what, got string, want ...string) {
	f.Helper()
	if lines := strings.Join(want, "\n") + "\n"; got != lines {
		f.Errorf("%s:\n%swant:\n%s", what, got, lines)
	}
}

const madeUp = "hollow container: nothing runs here, and this log is made up"

// Claim: A container has a bounded log without a file, which can be followed. Broken: lines after the end; the last lines of a long log are dropped; the end is missed because it is found in the past.
func TestLogs(t *testing.T) {
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/24")
	plain := podConfig("plain", map[string]string{ReadyAfterAnnotation: "5s", ExitAfterAnnotation: "20s", ExitCodeAnnotation: "3"})
	exits := f.start(f.run(plain), "main", plain)
	config := podConfig("said", map[string]string{LogAnnotation: "0s starting\n\n2s listening on :80\nevery 3s a request  \n1h never\n"})
	said := f.start(f.run(config), "main", config)
	f.expectLog("at the start", f.log(exits, LogOptions{}), madeUp)
	f.advance(7 * time.Second)
	f.expectLog("ready", f.log(exits, LogOptions{}), madeUp, "ready")
	f.expectLog("by the annotation", f.log(said, LogOptions{}), "starting", "listening on :80", "a request  ", "a request  ")
	f.expectLog("the tail", f.log(said, LogOptions{TailLines: ptr.To[int64](1), Timestamps: true}), "2030-01-01T00:00:06.000000000Z a request  ")
	f.expectLog("since", f.log(said, LogOptions{Since: f.clock.Now().Add(-2 * time.Second)}), "a request  ")
	if got := f.log(said, LogOptions{LimitBytes: ptr.To[int64](10)}); got != "starting\nl" {
		t.Errorf("ten bytes: %q", got)
	}
	if got := f.log(said, LogOptions{TailLines: ptr.To[int64](0)}) + f.log(said, LogOptions{LimitBytes: ptr.To[int64](0)}); got != "" {
		t.Errorf("nothing: %q", got)
	}
	if err := f.StopContainer(t.Context(), said, 0); err != nil {
		t.Fatal(err)
	}
	f.advance(time.Minute)
	f.expectLog("ended by itself", f.log(exits, LogOptions{TailLines: ptr.To[int64](2)}), "ready", "ended with exit code 3")
	f.expectLog("stopped", f.log(said, LogOptions{TailLines: ptr.To[int64](3)}), "a request  ", "received SIGTERM", "ended with exit code 143")
	if err := f.ReadLog(t.Context(), "gone", LogOptions{}, &strings.Builder{}); err == nil {
		t.Error("a container that is gone has a log")
	}
}

func TestALongLogKeepsItsLastLines(t *testing.T) {
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/24")
	config := podConfig("p", map[string]string{LogAnnotation: "0s first\nevery 100ms busy\nevery 1h hourly"})
	id := f.start(f.run(config), "main", config)
	f.advance(1000 * time.Hour)
	log := f.log(id, LogOptions{})
	if lines := strings.Count(log, "\n"); lines != maxLogLines || strings.Contains(log, "first") || !strings.HasSuffix(log, "busy\nhourly\n") {
		t.Errorf("%d lines, the last ones %q", lines, log[len(log)-20:])
	}
}

func TestFollowedLogs(t *testing.T) {
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/24")
	config := podConfig("p", map[string]string{LogAnnotation: "0s a\n1500ms b\nevery 2s c", ExitAfterAnnotation: "4500ms"})
	id := f.start(f.run(config), "main", config)
	done := make(chan string)
	go func() { done <- f.log(id, LogOptions{Follow: true, TailLines: ptr.To[int64](10)}) }()
	for {
		select {
		case got := <-done:
			f.expectLog("followed", got, "a", "b", "c", "c", "ended with exit code 0")
			return
		case <-time.After(time.Millisecond):
			if f.clock.HasWaiters() {
				f.advance(300 * time.Millisecond)
			}
		}
	}
}

func TestAFollowerThatGoesAndAContainerThatGoes(t *testing.T) {
	f := newEnv(t, Options{})
	f.setCIDR("10.1.0.0/24")
	config := podConfig("p", nil)
	id := f.start(f.run(config), "main", config)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.ReadLog(gone, id, LogOptions{Follow: true}, &strings.Builder{}); err != nil {
		t.Errorf("a reader that has gone: %v", err)
	}
	done := make(chan string)
	go func() { done <- f.log(id, LogOptions{Follow: true}) }()
	for !f.clock.HasWaiters() {
		<-time.After(time.Millisecond)
	}
	if err := f.RemoveContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	f.expectLog("a container that was removed", <-done, madeUp)
}

func TestBadLogsAreRefused(t *testing.T) {
	for _, text := range []string{"hello", "-1s x", "every x", "every 10ms x", "every 1h", "5s " + strings.Repeat("x", maxLineBytes), strings.Repeat("1s x\n", maxScriptLines+1)} {
		_, err := logScriptOf(map[string]string{LogAnnotation: text})
		if refused := err != nil; refused == (text == "every 1h") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if said, err := logScriptOf(map[string]string{LogAnnotation: ""}); err != nil || said == nil {
		t.Errorf("an empty log: %v, %v", said, err)
	}
}
