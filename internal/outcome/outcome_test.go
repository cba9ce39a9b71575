package outcome

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hidden is an error of another package that says itself that it is a Wait.
type hidden struct{}

func (hidden) Error() string { return "hidden" }

func (hidden) As(target any) bool {
	wait, is := target.(**Wait)
	if is {
		*wait = &Wait{After: 7 * time.Second}
	}
	return is
}

// Claim: A failure beside others that only wait is still told and tried again with back-off. Broken: an error is settled if any part is.
// Edge case: A failure whose cause is a conflict is none.
func TestWhatFollowsAnError(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "m", errors.New("changed"))
	refused := &Failure{"Refused", errors.New("no")}
	terminal := &Terminal{"Invalid", "correct it"}
	soon, event := &Wait{After: 3 * time.Second}, &Wait{}
	for name, test := range map[string]struct {
		err     error
		after   time.Duration
		settled bool
		told    string
	}{
		"success":                       {nil, 0, false, ""},
		"an error":                      {errors.New("x"), 0, false, ""},
		"a failure":                     {refused, 0, false, "Refused: no"},
		"a wrapped failure":             {fmt.Errorf("making it: %w", refused), 0, false, "Refused: making it: no"},
		"a wait":                        {soon, 3 * time.Second, true, ""},
		"a wait for an event":           {event, 0, true, ""},
		"a wrapped wait":                {fmt.Errorf("x: %w", soon), 3 * time.Second, true, ""},
		"another package's wait":        {fmt.Errorf("x: %w", hidden{}), 7 * time.Second, true, ""},
		"a conflict":                    {conflict, ConflictRetry, true, ""},
		"a failure by a conflict":       {&Failure{"Refused", fmt.Errorf("x: %w", conflict)}, ConflictRetry, true, ""},
		"a failure by a wait":           {&Failure{"Refused", soon}, 3 * time.Second, true, ""},
		"a terminal":                    {terminal, 0, true, "Invalid: correct it"},
		"the first wait counts":         {errors.Join(soon, event, conflict), ConflictRetry, true, ""},
		"a wait and a terminal":         {errors.Join(soon, terminal), 3 * time.Second, true, "Invalid: correct it"},
		"a wait beside an error":        {errors.Join(soon, errors.New("x")), 0, false, ""},
		"a wait beside a failure":       {errors.Join(soon, refused), 0, false, "Refused: no"},
		"a conflict beside a failure":   {errors.Join(conflict, refused), 0, false, "Refused: no"},
		"two failures in wrapped joins": {fmt.Errorf("x: %w", errors.Join(errors.Join(soon, refused), terminal)), 0, false, "Refused: no; Invalid: correct it"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			after, settled := Retry(test.err)
			g.Expect(settled).To(Equal(test.settled))
			g.Expect(after).To(Equal(test.after))
			told := ""
			for i, failure := range Failures(test.err) {
				if i > 0 {
					told += "; "
				}
				told += failure.Reason + ": " + failure.Error()
			}
			g.Expect(told).To(Equal(test.told))
		})
	}
}
