package conditions_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// A message that is too long keeps what is wrong, at its start, and the remedy, at its end.
// Claim: Long messages are cut in the middle. Broken: the end is cut. Also: internal/reconciler TestEventsAreSentWithinTheirLimit.
// Edge case: Long messages lost the remedy. Also: internal/reconciler TestEventsAreSentWithinTheirLimit.
func TestARemedyOutlivesTheCut(t *testing.T) {
	g := NewWithT(t)
	message := "12345 machines have no class: " + strings.Repeat("c1/machine-ä, ", 1000) + ": create MachineClass small"
	var list []metav1.Condition
	conditions.Set(&list, metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Reason: "X", Message: message}, time.Unix(1, 0))
	for _, text := range []string{list[0].Message, conditions.ShortenBytes(message, 1024), conditions.Shorten(message, 512)} {
		g.Expect(text).To(And(HavePrefix("12345 machines have no class: c1/machine-ä"), HaveSuffix("ä, : create MachineClass small"), ContainSubstring("…")))
	}
	g.Expect(utf8.RuneCountInString(list[0].Message)).To(Equal(conditions.MaxMessage))
	g.Expect(len(conditions.ShortenBytes(message, 1024))).To(BeNumerically("<=", 1024))
}

func TestShortTextsStayWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text") + strings.Repeat(rapid.StringN(0, 3, -1).Draw(t, "part"), rapid.IntRange(0, 300).Draw(t, "times"))
		most := rapid.IntRange(128, 600).Draw(t, "most")
		for short, size := range map[string]func(string) int{conditions.Shorten(text, most): utf8.RuneCountInString, conditions.ShortenBytes(text, most): func(s string) int { return len(s) }} {
			if size(short) > most || !utf8.ValidString(short) {
				t.Fatalf("%q: %d of %d", short, size(short), most)
			}
			if size(text) <= most && short != text && len(text) <= most {
				t.Fatalf("%q was cut", text)
			}
		}
	})
}
