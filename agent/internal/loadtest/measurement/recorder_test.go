package measurement

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestErrorsAreCountedByReason(t *testing.T) {
	g := NewWithT(t)
	r := newRecorder()
	for i := range 300 {
		r.RecordAnswer("POST", fmt.Sprintf("kind%d", i), SentRequest{}, errors.New("no"), time.Time{})
	}
	for range 3 {
		r.RecordAnswer("POST", "kind7", SentRequest{}, errors.New("again"), time.Time{})
	}
	r.RecordAnswer("POST", "t", SentRequest{}, TemplateError{errors.New("x")}, time.Time{})
	list := r.FrequentFailures()
	g.Expect(list).To(HaveLen(mostErrors))
	g.Expect(list[0]).To(Equal(v1alpha1.LoadError{Reason: "Unknown", Request: "POST kind7", Count: 4, Message: "no"}))
	g.Expect(r.Failed.Load()).To(BeEquivalentTo(304))
	g.Expect(reasonOf(TemplateError{errors.New("x")})).To(Equal("Template"))
}
