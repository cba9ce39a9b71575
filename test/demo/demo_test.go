package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// newBook is a ledger in the middle of an act.
func newBook(out io.Writer) *ledger {
	book := &ledger{out: out, started: time.Now()}
	book.open(act{title: "An act", promise: "All is well."}, 1, 2)
	return book
}

func sees(seen string, holds bool) look {
	return func(context.Context) (string, bool, error) { return seen, holds, nil }
}

func TestTheLedgerKeepsTheLastLook(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	book := newBook(out)
	book.verbose = true
	looks := 0
	book.expect(context.Background(), "three Nodes", "c1", time.Minute, func(context.Context) (string, bool, error) {
		looks++
		return []string{"", "1 of 3", "3 of 3"}[looks], looks == 2, nil
	})
	book.close()
	g.Expect(book.chapters[0].facts).To(HaveLen(1))
	g.Expect(book.chapters[0].facts[0].seen).To(Equal("3 of 3"))
	g.Expect(book.printTables()).To(BeTrue())
	g.Expect(out.String()).To(MatchRegexp(`(?s)1 of 2: An act\n  Promise: All is well.*kept: 1 of 1 checks hold.*three Nodes +c1 +3 of 3 .* yes\n.*All is well. +1 of 1 +0.\ds +yes\n`))
}

func TestAnActIsKeptOnlyIfAllChecksHold(t *testing.T) {
	for name, test := range map[string]struct {
		looks []look
		want  string
	}{
		"all hold":      {[]look{sees("3", true), sees("3", true)}, "kept: 2 of 2 checks hold"},
		"one does not":  {[]look{sees("2 of 3", false), sees("3", true)}, "NOT KEPT: 1 of 2 checks hold"},
		"nothing known": {nil, "not known: 0 of 0 checks hold"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out := &bytes.Buffer{}
			book := newBook(out)
			for _, look := range test.looks {
				book.expect(context.Background(), "Nodes", "hub", 10*time.Millisecond, look)
			}
			book.close()
			g.Expect(book.printTables()).To(Equal(name == "all hold"))
			g.Expect(out.String()).To(ContainSubstring(test.want))
			g.Expect(strings.Contains(out.String(), "2 of 3")).To(Equal(name == "one does not"), "what fails is shown without being asked for")
		})
	}
}

// Claim: Without -v the demo shows a step's details only after 5 seconds of silence. Broken: details are never shown; always.
func TestDetailsBreakALongSilence(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	book := newBook(out)
	book.say("created a fleet")
	book.detail("hidden")
	book.spoke = time.Now().Add(-patience)
	book.detail("shown")
	book.detail("hidden again")
	g.Expect(out.String()).To(And(ContainSubstring("shown"), Not(ContainSubstring("hidden"))))
}

// Claim: The demo says what it waits for and saw last. Broken: it does not. Also: TestALookThatTakesItsTimeIsNoSilence.
func TestTheLedgerSaysWhatItWaitsFor(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	book := newBook(out)
	book.quiet, book.verbose = time.Millisecond, true
	looks := 0
	book.expect(context.Background(), "three Nodes", "c1", time.Minute, func(context.Context) (string, bool, error) {
		looks++
		return []string{"", "none", "1 of 3", "3 of 3"}[looks], looks == 3, nil
	})
	g.Expect(out.String()).To(MatchRegexp(`(?s)waiting for: three Nodes \(c1\); seen last: none
.*waiting for: three Nodes \(c1\); seen last: 1 of 3
.*ok: three Nodes \(c1\): 3 of 3
$`))
}

func TestALookThatTakesItsTimeIsNoSilence(t *testing.T) {
	g := NewWithT(t)
	var mu sync.Mutex
	out := &bytes.Buffer{}
	said := func() string {
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
	book := newBook(writer(func(content []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(content)
	}))
	book.quiet = time.Millisecond
	book.expect(context.Background(), "readiness", "hub", time.Minute, func(ctx context.Context) (string, bool, error) {
		g.Eventually(said).WithContext(ctx).WithTimeout(time.Minute).Should(ContainSubstring("waiting for: readiness (hub); seen last: nothing yet"))
		return "Ready", true, nil
	})
	g.Expect(book.chapters[0].facts[0].holds).To(BeTrue())
}

type writer func([]byte) (int, error)

func (w writer) Write(content []byte) (int, error) { return w(content) }

func TestLinesArePassedOnWhole(t *testing.T) {
	g := NewWithT(t)
	var said []string
	passing := &lines{say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	for _, part := range []string{"one\ntw", "o\n", "100%\nrest"} {
		_, err := passing.Write([]byte(part))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(said).To(Equal([]string{"one", "two", "100%"}))
}
