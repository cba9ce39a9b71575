package loadtest

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
		r.recordAnswer("POST", fmt.Sprintf("kind%d", i), sentRequest{}, errors.New("no"), time.Time{})
	}
	for range 3 {
		r.recordAnswer("POST", "kind7", sentRequest{}, errors.New("again"), time.Time{})
	}
	r.recordAnswer("POST", "t", sentRequest{}, templateError{errors.New("x")}, time.Time{})
	list := r.frequentFailures()
	g.Expect(list).To(HaveLen(mostErrors))
	g.Expect(list[0]).To(Equal(v1alpha1.LoadError{Reason: "Unknown", Request: "POST kind7", Count: 4, Message: "no"}))
	g.Expect(r.failed.Load()).To(BeEquivalentTo(304))
	g.Expect(reasonOf(templateError{errors.New("x")})).To(Equal("Template"))
}
