package kubeburner

import (
	"fmt"
	"slices"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// NoteKind says what happened to something that a configuration asks for.
type NoteKind string

// The kinds of notes, the gravest first.
const (
	// LeftOut is part of the load, or a threshold, and is not carried out.
	LeftOut NoteKind = "left out"
	// Changed is carried out, but not as kube-burner does it.
	Changed NoteKind = "changed"
	// Needs is carried out if the user does something in the clusters first.
	Needs NoteKind = "needs"
	// Ignored has no influence on the load.
	Ignored NoteKind = "ignored"
)

var kindsOfNotes = []NoteKind{LeftOut, Changed, Needs, Ignored}

// Note says how a LoadTest differs from the configuration that it was made of.
type Note struct {
	Kind NoteKind
	// Path is the setting of the configuration, such as jobs[0].objects[1].
	Path string
	Text string
}

// String is a line for a user.
func (n Note) String() string { return fmt.Sprintf("%s: %s: %s", n.Kind, n.Path, n.Text) }

// Result is a LoadTest made of a configuration, and how it differs from that.
type Result struct {
	Test *v1alpha1.LoadTest
	// Notes has every difference, the gravest first.
	Notes []Note
}

// LeftOut is how many parts of the load, or thresholds, are not carried out.
func (r *Result) LeftOut() int {
	count := 0
	for _, note := range r.Notes {
		if note.Kind == LeftOut {
			count++
		}
	}
	return count
}

// sortNotes has the gravest first, and otherwise leaves them in the order of the configuration.
func sortNotes(notes []Note) {
	slices.SortStableFunc(notes, func(a, b Note) int {
		return slices.Index(kindsOfNotes, a.Kind) - slices.Index(kindsOfNotes, b.Kind)
	})
}

func (c *conversion) addNote(kind NoteKind, path, format string, args ...any) {
	note := Note{kind, path, fmt.Sprintf(format, args...)}
	if !slices.Contains(c.notes, note) {
		c.notes = append(c.notes, note)
	}
}
