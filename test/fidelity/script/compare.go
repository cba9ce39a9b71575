package script

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Result is how a step ended.
type Result string

// The results of a step.
const (
	ResultSame     Result = "same"
	ResultDeclared Result = "as declared"
	ResultDiffers  Result = "DIFFERS"
	ResultNotRun   Result = "not run"
)

// Difference is one figure that is not the same on both sides.
type Difference struct {
	Figure, Real, Hollow string
	// Because is the reason that the step declares, empty for none.
	Because string
}

// Comparison is a step with what both sides made of it.
type Comparison struct {
	Step   *Step
	Result Result
	// Compared is how many figures there are.
	Compared     int
	Differences  []Difference
	Real, Hollow *Record
}

// Compare says in what the records of a step differ. A side that could not carry the step out differs.
func Compare(step *Step, realNode, hollow *Record) Comparison {
	c := Comparison{Step: step, Result: ResultNotRun, Real: realNode, Hollow: hollow}
	if step.NotRun != "" {
		return c
	}
	if realNode.Error+hollow.Error != "" {
		c.addDifference("carried out", cmp.Or(realNode.Error, "yes"), cmp.Or(hollow.Error, "yes"))
	}
	for _, name := range namesOf(realNode.Facts, hollow.Facts) {
		c.compareFact(name)
	}
	for _, name := range namesOf(realNode.Sequences, hollow.Sequences) {
		c.compareSequence(name)
	}
	for _, name := range namesOf(realNode.Times, hollow.Times) {
		c.compareTime(name)
	}
	for _, name := range namesOf(realNode.Orders, hollow.Orders) {
		c.Compared++
		if haveConflict(realNode.Orders[name], hollow.Orders[name]) {
			c.addDifference(name, orderText(realNode.Orders[name]), orderText(hollow.Orders[name]))
		}
	}
	c.judgeDifferences()
	return c
}

func (c *Comparison) compareFact(name string) {
	c.Compared++
	a, here := c.Real.Facts[name]
	b, there := c.Hollow.Facts[name]
	if a != b || here != there {
		c.addDifference(name, a, b)
	}
}

func (c *Comparison) compareSequence(name string) {
	c.Compared++
	a, b := c.Real.Sequences[name], c.Hollow.Sequences[name]
	if slices.Contains(c.Step.Repeats, name) {
		if a, b = listStates(a), listStates(b); !slices.Equal(a, b) {
			c.addDifference(name, strings.Join(a, ", "), strings.Join(b, ", "))
		}
		return
	}
	switch {
	case !areSequencesAlike(a, b):
		c.addDifference(name, strings.Join(a, " > "), strings.Join(b, " > "))
	case len(a) > 0 && a[0] != b[0] && len(a) > len(b):
		c.Differences = append(c.Differences, Difference{Figure: firstState(name), Real: a[0], Hollow: b[0], Because: becauseFast})
	case len(a) > 0 && a[0] != b[0]:
		c.addDifference(firstState(name), a[0], b[0])
	}
}

func (c *Comparison) compareTime(name string) {
	c.Compared++
	a, here := c.Real.Times[name]
	b, there := c.Hollow.Times[name]
	tolerance, own := c.Step.Tolerances[name]
	if !own {
		tolerance = defaultTolerance
	}
	if !here || !there {
		c.addDifference(name, timeText(a, here), timeText(b, there))
	} else if !tolerance.allows(a, b) {
		c.addDifference(name, timeText(a, true), fmt.Sprintf("%s (tolerance %s and %d %%)", timeText(b, true), tolerance.Absolute, tolerance.Percent))
	}
}

func (c *Comparison) addDifference(figure, realNode, hollow string) {
	d := Difference{Figure: figure, Real: cmp.Or(realNode, "-"), Hollow: cmp.Or(hollow, "-")}
	for _, declared := range c.Step.Declared {
		if declared.Figure == figure {
			d.Because = declared.Because
		}
	}
	c.Differences = append(c.Differences, d)
}

// judgeDifferences also finds what is declared and does not show: such a line of the script is out of date.
func (c *Comparison) judgeDifferences() {
	for _, declared := range c.Step.Declared {
		shows := slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Figure == declared.Figure })
		if !shows && !declared.Sometimes {
			c.Differences = append(c.Differences, Difference{Figure: declared.Figure, Real: "declared to differ", Hollow: "and does not"})
		}
	}
	c.Result = ResultSame
	if len(c.Differences) > 0 {
		c.Result = ResultDeclared
	}
	if slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Because == "" }) {
		c.Result = ResultDiffers
	}
}

func namesOf[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

func timeText(d time.Duration, there bool) string {
	if !there {
		return ""
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func orderText(order [][]string) string {
	var groups []string
	for _, group := range order {
		groups = append(groups, strings.Join(group, "+"))
	}
	return strings.Join(groups, ", ")
}
