package script_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/test/fidelity/script"
)

// Claim: A difference between a hollow node and a real one shows unless it is declared, and a declaration that is out of date shows too. Broken: a fact of one side only is left out; a time beyond its tolerance; two names that came in another order; a state that only one has, at its end; a first state that only the hollow node has; a side that failed; a declaration that does not show.
func TestCompare(t *testing.T) {
	order := func(groups ...string) map[string][][]string {
		var all [][]string
		for _, group := range groups {
			all = append(all, strings.Split(group, "+"))
		}
		return map[string][][]string{"order": all}
	}
	sequence := func(states ...string) map[string][]string { return map[string][]string{"sequence": states} }
	seconds := func(s float64) map[string]time.Duration {
		return map[string]time.Duration{"time": time.Duration(s * float64(time.Second))}
	}
	declared := func(figure string) []script.Declared {
		return []script.Declared{{Figure: figure, Because: "of a reason"}}
	}
	sometimes := declared("a")
	sometimes[0].Sometimes = true
	tolerance := map[string]script.Tolerance{"time": {Absolute: time.Second, Percent: 10}}
	for name, c := range map[string]struct {
		step         script.Step
		real, hollow script.Record
		want         script.Result
	}{
		"the same fact":                                   {want: script.ResultSame, real: script.Record{Facts: map[string]string{"a": "x"}}, hollow: script.Record{Facts: map[string]string{"a": "x"}}},
		"another fact":                                    {want: script.ResultDiffers, real: script.Record{Facts: map[string]string{"a": "x"}}, hollow: script.Record{Facts: map[string]string{"a": "y"}}},
		"a fact of the real node only":                    {want: script.ResultDiffers, real: script.Record{Facts: map[string]string{"a": ""}}},
		"a fact of the hollow node only":                  {want: script.ResultDiffers, hollow: script.Record{Facts: map[string]string{"a": ""}}},
		"another fact that is declared":                   {want: script.ResultDeclared, step: script.Step{Declared: declared("a")}, real: script.Record{Facts: map[string]string{"a": "x"}}},
		"a declaration that does not show":                {want: script.ResultDiffers, step: script.Step{Declared: declared("a")}, real: script.Record{Facts: map[string]string{"a": "x"}}, hollow: script.Record{Facts: map[string]string{"a": "x"}}},
		"a declaration of another figure":                 {want: script.ResultDiffers, step: script.Step{Declared: declared("a")}, real: script.Record{Facts: map[string]string{"a": "x", "b": "x"}}},
		"a time at its tolerance":                         {want: script.ResultSame, step: script.Step{Tolerances: tolerance}, real: script.Record{Times: seconds(8)}, hollow: script.Record{Times: seconds(10)}},
		"a time beyond its tolerance":                     {want: script.ResultDiffers, step: script.Step{Tolerances: tolerance}, real: script.Record{Times: seconds(7.9)}, hollow: script.Record{Times: seconds(10)}},
		"a time that is shorter":                          {want: script.ResultDiffers, step: script.Step{Tolerances: tolerance}, real: script.Record{Times: seconds(10)}, hollow: script.Record{Times: seconds(7.9)}},
		"a time of one side only":                         {want: script.ResultDiffers, real: script.Record{Times: seconds(0)}},
		"a time within the default":                       {want: script.ResultSame, real: script.Record{Times: seconds(0)}, hollow: script.Record{Times: seconds(3)}},
		"a state that one did not see":                    {want: script.ResultSame, real: script.Record{Sequences: sequence("a", "b", "c")}, hollow: script.Record{Sequences: sequence("a", "c")}},
		"another state":                                   {want: script.ResultDiffers, real: script.Record{Sequences: sequence("a", "b", "c")}, hollow: script.Record{Sequences: sequence("a", "x", "c")}},
		"another last state":                              {want: script.ResultDiffers, real: script.Record{Sequences: sequence("a", "b", "c")}, hollow: script.Record{Sequences: sequence("a", "b")}},
		"a first state that the hollow node did not show": {want: script.ResultDeclared, real: script.Record{Sequences: sequence("a", "b", "c")}, hollow: script.Record{Sequences: sequence("b", "c")}},
		"a first state that the real node did not show":   {want: script.ResultDiffers, real: script.Record{Sequences: sequence("b", "c")}, hollow: script.Record{Sequences: sequence("a", "b", "c")}},
		"states that repeat, in another order":            {want: script.ResultSame, step: script.Step{Repeats: []string{"sequence"}}, real: script.Record{Sequences: sequence("a", "b", "a", "b")}, hollow: script.Record{Sequences: sequence("b", "a")}},
		"states that repeat, of one side only":            {want: script.ResultDiffers, step: script.Step{Repeats: []string{"sequence"}}, real: script.Record{Sequences: sequence("a", "b", "c", "a", "b")}, hollow: script.Record{Sequences: sequence("a", "b")}},
		"a declaration that need not show":                {want: script.ResultSame, step: script.Step{Declared: sometimes}, real: script.Record{Facts: map[string]string{"a": "x"}}, hollow: script.Record{Facts: map[string]string{"a": "x"}}},
		"a declaration that need not show, and does":      {want: script.ResultDeclared, step: script.Step{Declared: sometimes}, real: script.Record{Facts: map[string]string{"a": "x"}}, hollow: script.Record{Facts: map[string]string{"a": "y"}}},
		"another first state":                             {want: script.ResultDiffers, real: script.Record{Sequences: sequence("b", "c")}, hollow: script.Record{Sequences: sequence("a", "c")}},
		"states of one side only":                         {want: script.ResultDiffers, real: script.Record{Sequences: sequence("a")}},
		"an order":                                        {want: script.ResultSame, real: script.Record{Orders: order("a", "b")}, hollow: script.Record{Orders: order("a", "b")}},
		"another order":                                   {want: script.ResultDiffers, real: script.Record{Orders: order("a", "b")}, hollow: script.Record{Orders: order("b", "a")}},
		"at once, and one after the other":                {want: script.ResultSame, real: script.Record{Orders: order("a+b")}, hollow: script.Record{Orders: order("b", "a")}},
		"another order beside what is there":              {want: script.ResultDiffers, real: script.Record{Orders: order("a", "c", "b")}, hollow: script.Record{Orders: order("b", "a")}},
		"a side that failed":                              {want: script.ResultDiffers, hollow: script.Record{Error: "no pod"}},
		"a step that is not run":                          {want: script.ResultNotRun, step: script.Step{NotRun: "because"}, hollow: script.Record{Error: "not reached"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			compared := script.Compare(&c.step, &c.real, &c.hollow)
			g.Expect(compared.Result).To(Equal(c.want), "%v", compared.Differences)
			var table strings.Builder
			g.Expect(script.WriteTable(&table, []script.Comparison{compared})).To(Succeed())
			g.Expect(table.String()).To(ContainSubstring(string(c.want)))
			g.Expect(strings.Contains(table.String(), "NOT DECLARED")).To(Equal(c.want == script.ResultDiffers))
			undeclared := 0
			if c.want == script.ResultDiffers {
				undeclared = 1
			}
			g.Expect(script.Undeclared([]script.Comparison{compared})).To(Equal(undeclared))
		})
	}
}
