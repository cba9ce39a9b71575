package plane

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// Claim: A component that exits its process ends alone. Broken: goroutines of a component that has ended.
func TestAnExitEndsItsComponentOnly(t *testing.T) {
	if err := Setup(""); err != nil {
		t.Fatal(err)
	}
	late, gone := make(chan struct{}), make(chan struct{})
	functions["exits"] = func(ctx context.Context, _ *Run) error {
		go func() {
			defer close(gone)
			<-late
			klog.FlushAndExit(klog.ExitFlushTimeout, 3)
		}()
		go klog.FlushAndExit(klog.ExitFlushTimeout, 2)
		<-ctx.Done()
		return ctx.Err()
	}
	functions["stays"] = func(ctx context.Context, _ *Run) error {
		<-ctx.Done()
		return nil
	}
	t.Cleanup(func() { delete(functions, "exits"); delete(functions, "stays") })
	start := func(cluster, name string) *Run {
		run, err := Start(Component{Cluster: cluster, Name: name, Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	stays := start("c1", "stays")
	if err := start("c1", "exits").Wait(); !errors.Is(err, errExit) {
		t.Errorf("the component that exits: %v", err)
	}
	// The next run of the same component is not the one that exits late.
	functions["exits"] = functions["stays"]
	again := start("c1", "exits")
	close(late)
	<-gone
	for _, run := range []*Run{stays, again} {
		select {
		case <-run.done:
			t.Errorf("%s ended too", run.label)
		default:
		}
		run.cancel(nil)
		if err := run.Wait(); err != nil {
			t.Errorf("%s: %v", run.label, err)
		}
	}
}

func TestATraceTellsWhoHasPanicked(t *testing.T) {
	log := "I1128 something\npanic: runtime error: index out of range [recovered]\n\ngoroutine 12345 [running] {\"component\": \"c3/kube-scheduler#17\"}:\nmain.f()\n"
	if got := FailedComponent(log); got != "c3/kube-scheduler" {
		t.Errorf("got %q", got)
	}
	if got := FailedComponent("goroutine 1 {\"component\": \"c3/kube-scheduler#17\"}:\n"); got != "" {
		t.Errorf("without a panic: %q", got)
	}
}

func TestWhatAComponentSaysIsInItsLog(t *testing.T) {
	if err := Setup(""); err != nil {
		t.Fatal(err)
	}
	functions["talks"] = func(ctx context.Context, _ *Run) error {
		klog.Info("without a logger")
		klog.FromContext(ctx).Info("with a logger")
		done := make(chan struct{})
		go func() {
			defer close(done)
			klog.Background().Error(nil, "in a goroutine")
		}()
		<-done
		return nil
	}
	t.Cleanup(func() { delete(functions, "talks") })
	var log bytes.Buffer
	run, err := Start(Component{Cluster: "c1", Name: "talks", Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"without a logger", "with a logger", "in a goroutine"} {
		if got := strings.Count(log.String(), want); got != 1 {
			t.Errorf("%q is %d times in\n%s", want, got, &log)
		}
	}
}
