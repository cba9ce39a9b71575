package poll

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/go-logr/logr"
)

// Failures logs the errors of what is tried again: each when it is another one than the last, and once that it is over. Errors that differ
// in their digits only are the same: ports, times and versions change with each attempt. It is for one goroutine.
type Failures struct {
	Log logr.Logger
	// last are the errors of what fails, by what that is.
	last map[string]string
}

// Note takes in how something ended. doing says what it is, as the start of a sentence such as "Reading for checks"; the keys and values
// tell attempts of one kind apart from each other in the log, and doing has to differ where they do.
func (f *Failures) Note(doing string, err error, keysAndValues ...any) {
	before, failed := f.last[doing]
	switch {
	case err == nil && failed:
		delete(f.last, doing)
		f.Log.Info(doing+" works again", keysAndValues...)
	case err != nil && (!failed || before != withoutDigits(err)):
		if f.last == nil {
			f.last = map[string]string{}
		}
		f.last[doing] = withoutDigits(err)
		f.Log.Error(err, doing+" failed; trying again", keysAndValues...)
	}
}

// withoutDigits is the text of an error without its digits.
func withoutDigits(err error) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
}

// Retain forgets what is not one of doing.
func (f *Failures) Retain(doing ...string) {
	maps.DeleteFunc(f.last, func(known, _ string) bool { return !slices.Contains(doing, known) })
}
