package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestTheLedgerKeepsTheLastLook(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	book := &ledger{out: out, started: time.Now()}
	looks := 0
	book.expect(context.Background(), "three Nodes", "c1", time.Minute, func(context.Context) (string, bool, error) {
		looks++
		return []string{"", "1 of 3", "3 of 3"}[looks], looks == 2, nil
	})
	g.Expect(book.facts).To(HaveLen(1))
	g.Expect(book.facts[0].seen).To(Equal("3 of 3"))
	g.Expect(book.table()).To(BeTrue())
	g.Expect(out.String()).To(MatchRegexp(`three Nodes +c1 +3 of 3 .* yes`))
}

func TestAFactThatDoesNotHoldFailsTheTable(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	book := &ledger{out: out, started: time.Now()}
	book.expect(context.Background(), "good", "hub", time.Minute, func(context.Context) (string, bool, error) { return "yes", true, nil })
	book.expect(context.Background(), "bad", "hub", 10*time.Millisecond, func(context.Context) (string, bool, error) { return "2 of 3", false, nil })
	g.Expect(book.table()).To(BeFalse())
	g.Expect(out.String()).To(MatchRegexp(`bad +hub +2 of 3 .* NO`))
}

// Claim: The demo says what it waits for and saw last. Broken: it does not. Also: TestALookThatTakesItsTimeIsNoSilence.
func TestTheLedgerSaysWhatItWaitsFor(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	book := &ledger{out: out, started: time.Now(), quiet: time.Millisecond}
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
	book := &ledger{out: writer(func(content []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(content)
	}), started: time.Now(), quiet: time.Millisecond}
	book.expect(context.Background(), "readiness", "hub", time.Minute, func(ctx context.Context) (string, bool, error) {
		g.Eventually(said).WithContext(ctx).WithTimeout(time.Minute).Should(ContainSubstring("waiting for: readiness (hub); seen last: nothing"))
		return "Ready", true, nil
	})
	g.Expect(book.facts[0].holds).To(BeTrue())
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
