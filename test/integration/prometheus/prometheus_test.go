package prometheus

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	. "github.com/onsi/gomega"
)

// fault is something that breaks, and the alerts that have to fire while it is broken, and clear when it is mended.
type fault struct {
	name   string
	alerts []string
	breaks func()
	// keeps is done again and again while it is broken. It may be nil.
	keeps func(ctx context.Context) error
	mends func()
	// patience is how long an alert may take, if that is longer than usual.
	patience time.Duration
}

// seen is when an alert fired and cleared.
type seen struct{ fired, cleared time.Duration }

// provoke waits until none of the alerts of a fault fires, breaks something, waits until they do, mends it, and waits until they have cleared.
func (w *world) provoke(f fault) map[string]seen {
	w.t.Helper()
	w.t.Logf("%s: %s", time.Since(w.started).Round(time.Second), f.name)
	limit := max(f.patience, patience)
	w.awaitAlerts(f.alerts, false, time.Now(), limit) // What the fault before has left behind counts for nothing.
	ctx, cancel := context.WithCancel(w.t.Context())
	var keeping sync.WaitGroup
	if f.keeps != nil {
		keeping.Go(func() {
			ticker := time.NewTicker(glance)
			defer ticker.Stop()
			for ctx.Err() == nil {
				_ = f.keeps(ctx) // What counts is whether the alerts fire.
				select {
				case <-ticker.C:
				case <-ctx.Done():
				}
			}
		})
	}
	began := time.Now()
	f.breaks()
	fired := w.awaitAlerts(f.alerts, true, began, limit)
	cancel()
	keeping.Wait()
	began = time.Now()
	f.mends()
	cleared := w.awaitAlerts(f.alerts, false, began, limit)
	all := map[string]seen{}
	for _, alert := range f.alerts {
		all[alert] = seen{fired[alert], cleared[alert]}
	}
	return all
}

// awaitAlerts waits until alerts fire, or do not, and returns how long each took.
func (w *world) awaitAlerts(alerts []string, fire bool, began time.Time, limit time.Duration) map[string]time.Duration {
	w.t.Helper()
	took := map[string]time.Duration{}
	w.Eventually(func() ([]string, error) {
		firing, err := w.firing()
		if err != nil {
			return nil, err
		}
		missing := []string{}
		for _, alert := range alerts {
			if _, done := took[alert]; done {
				continue
			}
			if firing[alert] == fire {
				took[alert] = time.Since(began)
			} else {
				missing = append(missing, alert)
			}
		}
		return missing, nil
	}, limit, glance).Should(BeEmpty(), "alerts that fire = %t", fire)
	return took
}

// Claim: With a real Prometheus and a fleet that fails on purpose, each alert of hub and agent fires and clears, and each query of both dashboards returns something. Broken: new.
func TestPrometheus(t *testing.T) {
	w := newWorld(t)
	w.expectTargets()
	promtool(t, "check", "config", w.report().Monitoring.Prometheus)
	w.prepareFleets()
	w.Eventually(func() (map[string]bool, error) { return w.firing() }, patience, glance).Should(BeEmpty(), "before anything is broken")
	var table bytes.Buffer
	out := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	fmt.Fprintln(out, "ALERT\tFIRED AFTER\tCLEARED AFTER\tBECAUSE")
	provoked := map[string]bool{}
	for _, f := range w.faults() {
		all := w.provoke(f)
		for _, alert := range f.alerts {
			provoked[alert] = true
			fmt.Fprintf(out, "%s\t%.0f s\t%.0f s\t%s\n", alert, all[alert].fired.Seconds(), all[alert].cleared.Seconds(), f.name)
		}
	}
	w.Expect(out.Flush()).To(Succeed())
	t.Logf("\n%s", table.String())
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	w.Expect(w.ask("rules", nil, &rules)).To(Succeed())
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			w.Expect(rule.Health).To(Equal("ok"), "%s: %s", rule.Name, rule.LastError)
			w.Expect(provoked).To(HaveKey(rule.Name), "a fault for each alert")
		}
	}
	for _, path := range w.report().Monitoring.Dashboards {
		w.expectDashboard(path)
	}
}
