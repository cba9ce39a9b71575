package main

import (
	"bytes"
	"context"
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
