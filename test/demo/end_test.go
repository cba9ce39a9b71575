package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// stage is where a demo runs without a fleet: a script stands for kubectl-hollow, which notes how it is called, and a
// handler for the API server of the hub and of a cluster.
type stage struct {
	options
	text  *bytes.Buffer
	calls string
}

func newStage(t *testing.T, server http.HandlerFunc) *stage {
	t.Helper()
	g := NewWithT(t)
	t.Setenv("TMPDIR", t.TempDir())
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	bin := t.TempDir()
	kubeconfig := filepath.Join(bin, "kubeconfig")
	config := api.NewConfig()
	config.Clusters["c"], config.Contexts["c"], config.CurrentContext = &api.Cluster{Server: listening.URL}, &api.Context{Cluster: "c"}, "c"
	g.Expect(clientcmd.WriteToFile(*config, kubeconfig)).To(Succeed())
	report, err := json.Marshal(localfleet.Report{
		Dir: filepath.Join(bin, "fleet"),
		Hub: localfleet.ControlPlane{Name: "hub", Kubeconfig: kubeconfig}, Clusters: []localfleet.ControlPlane{{Name: "c1", Kubeconfig: kubeconfig}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	out := &bytes.Buffer{}
	s := &stage{options: options{binDir: bin, timeout: time.Hour, out: out}, text: out, calls: filepath.Join(bin, "calls")}
	s.script(t, fmt.Sprintf("[ $2 = up ] && echo '%s'; [ $2 = down ] && rm -rf $4; true", report))
	return s
}

// script sets what kubectl-hollow does.
func (s *stage) script(t *testing.T, text string) {
	t.Helper()
	content := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s\n%s\n", s.calls, text)
	NewWithT(t).Expect(os.WriteFile(filepath.Join(s.binDir, "kubectl-hollow"), []byte(content), 0o755)).To(Succeed())
}

func (s *stage) called(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(s.calls)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// demo is one whose fleet is up.
func (s *stage) demo(t *testing.T) *demo {
	t.Helper()
	book := &ledger{out: s.out, started: time.Now()}
	fleet, err := startFleet(t.Context(), book, t.TempDir(), s.options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &demo{ledger: book, fleet: fleet}
}

// plays is an act with these steps.
func plays(steps ...step) act { return act{title: "An act", promise: "All is well.", steps: steps} }

// sees is a step that notes one fact.
func (d *demo) sees(what string, holds bool) step {
	return func(ctx context.Context) error {
		d.expect(ctx, what, "hub", 10*time.Millisecond, func(context.Context) (string, bool, error) { return "something", holds, nil })
		return nil
	}
}

// Claim: A check that does not hold makes the demo exit with 1. Broken: the demo continues as if the promise was kept; the tables ignore a check that does not hold. Also: TestAnActIsKeptOnlyIfAllChecksHold.
func TestAFactThatDoesNotHoldFailsTheDemo(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep %t", keep), func(t *testing.T) {
			g := NewWithT(t)
			s := newStage(t, http.NotFound)
			s.keep = keep
			d := s.demo(t)
			err := d.perform(t.Context(), s.options, plays(d.sees("good", true), d.sees("bad", false)), plays(d.sees("later", true)))
			g.Expect(err).To(MatchError(errPromiseBroken))
			_, code := verdict(err, false)
			g.Expect(code).To(Equal(1))
			g.Expect(s.text.String()).To(MatchRegexp(`(?s)FAILED: bad .*HOLDS\nbad .* NO\n.*KEPT\nAll is well. +1 of 2 .* NO\nAll is well. +1 of 1 .* yes\n`))
			if keep {
				g.Expect(s.called(t)).NotTo(ContainSubstring("local down"), "the fleet is there to be looked at")
				g.Expect(s.text.String()).To(ContainSubstring("make demo-down"))
			} else {
				g.Expect(s.called(t)).To(ContainSubstring("local down"))
			}
		})
	}
}

func TestADemoWhoseFactsHoldSucceeds(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.NotFound)
	d := s.demo(t)
	g.Expect(d.perform(t.Context(), s.options, plays(d.sees("good", true)))).To(Succeed())
	_, code := verdict(nil, false)
	g.Expect(code).To(Equal(0))
}

// Claim: A failed step or the end of time leaves the table of promises. Broken: no table then; what was cut short counts as not holding. Also: TestADemoThatIsEndedLeavesTheTable.
func TestAStepThatFailsLeavesTheTable(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.NotFound)
	s.keep = true
	d := s.demo(t)
	trouble := errors.New("no room")
	err := d.perform(t.Context(), s.options, plays(d.sees("good", true)),
		plays(d.sees("better", true), func(context.Context) error { return trouble }, d.sees("later", true)), plays(d.sees("last", true)))
	g.Expect(err).To(MatchError(trouble))
	g.Expect(s.text.String()).To(MatchRegexp(`KEPT\nAll is well. +1 of 1 .* yes\nAll is well. +1 of 1 .* unknown\n\s`), "not kept until all of its steps are taken")
	g.Expect(s.text.String()).NotTo(Or(ContainSubstring("later"), ContainSubstring("3 of 3")))
	g.Expect(s.called(t)).To(ContainSubstring("local down"), "what did not come to its end is not kept")
}

// The API server of this one ends the demo's time itself, with the first question that it gets.
func TestADemoThatIsEndedLeavesTheTable(t *testing.T) {
	g := NewWithT(t)
	ctx, end := context.WithCancelCause(t.Context())
	s := newStage(t, func(w http.ResponseWriter, r *http.Request) {
		end(context.DeadlineExceeded)
		http.NotFound(w, r)
	})
	err := runDemo(ctx, s.options)
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
	message, code := verdict(err, false)
	g.Expect(code).To(Equal(1))
	g.Expect(message).To(ContainSubstring("deadline exceeded"))
	g.Expect(s.text.String()).To(MatchRegexp(`(?s)HOLDS\nCluster c1 is Ready .* unknown\n.*KEPT\n.* 0 of 1 .* unknown\n`), "it is not known whether that would have held")
	g.Expect(s.called(t)).To(ContainSubstring("local down"))
}

func TestTheDemosTimeIsBounded(t *testing.T) {
	g := NewWithT(t)
	s := newStage(t, http.NotFound)
	s.timeout = time.Nanosecond
	g.Expect(runDemo(t.Context(), s.options)).To(MatchError(ContainSubstring("--timeout")))
	g.Expect(s.text.String()).NotTo(ContainSubstring("PROMISE"), "there is nothing to show")
}

// Claim: Ctrl-C says if something has not ended. Broken: what else went wrong is not told.
func TestAnInterruptionSaysWhetherAllHasEnded(t *testing.T) {
	for name, test := range map[string]struct{ down, says, not string }{
		"all has ended":   {"rm -rf $4", "interrupted; everything that was started has been ended", "error"},
		"the fleet stays": {"echo why >&2; exit 7", "running kubectl hollow local down: exit status 7: why", "has been ended"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ctx, interrupt := context.WithCancel(t.Context())
			s := newStage(t, func(http.ResponseWriter, *http.Request) { interrupt() })
			content, err := os.ReadFile(filepath.Join(s.binDir, "kubectl-hollow"))
			g.Expect(err).NotTo(HaveOccurred())
			s.script(t, "if [ $2 = down ]; then "+test.down+"; exit; fi\n"+string(content))
			message, code := verdict(runDemo(ctx, s.options), true)
			g.Expect(code).To(Equal(130))
			g.Expect(message).To(And(ContainSubstring(test.says), Not(ContainSubstring(test.not)), Not(ContainSubstring("canceled"))))
		})
	}
}

func TestABadCommandLineHasItsOwnStatus(t *testing.T) {
	cmd := command(&bytes.Buffer{})
	cmd.SetArgs([]string{"--no-such-flag"})
	message, code := verdict(cmd.ExecuteContext(t.Context()), false)
	g := NewWithT(t)
	g.Expect(code).To(Equal(2))
	g.Expect(message).To(ContainSubstring("no-such-flag"))
}
