package overlap

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// claim is one of that age in minutes, which selects pool=x and makes what carries that label.
func claim(name string, age int) Claim {
	return Claim{
		Kind: "MachineSet", Name: name, UID: types.UID(name), Created: metav1.NewTime(start.Add(-time.Duration(age) * time.Minute)),
		Selector: labels.SelectorFromSet(labels.Set{"pool": "x"}), Labels: labels.Set{"pool": "x"},
	}
}

func change(c Claim, by func(*Claim)) Claim {
	by(&c)
	return c
}

func TestExactlyOneOfTwoThatOverlapWaits(t *testing.T) {
	elsewhere := func(c *Claim) {
		c.Selector, c.Labels = labels.SelectorFromSet(labels.Set{"pool": "y"}), labels.Set{"pool": "y"}
	}
	for name, test := range map[string]struct {
		a, b Claim
		// waits is the name of the one that does; empty for none.
		waits string
	}{
		"the younger":             {claim("a", 2), claim("b", 1), "b"},
		"the younger, first name": {claim("a", 1), claim("b", 2), "a"},
		"of one age":              {claim("a", 1), claim("b", 1), "b"},
		"no overlap":              {claim("a", 2), change(claim("b", 1), elsewhere), ""},
		"one selects the other":   {claim("a", 1), change(claim("b", 2), func(c *Claim) { c.Selector = labels.Nothing() }), "a"},
		"an older one is not first": {
			claim("a", 2), change(claim("b", 1), func(c *Claim) { c.First = true }), "a"},
		"both first": {
			change(claim("a", 2), func(c *Claim) { c.First = true }), change(claim("b", 1), func(c *Claim) { c.First = true }), "b"},
		"itself": {claim("a", 2), claim("a", 2), ""},
		"created in the same second, as a backup does, under one name of two kinds": {
			change(claim("a", 1), func(c *Claim) { c.UID = "1" }), change(claim("a", 1), func(c *Claim) { c.UID, c.Name = "2", "a" }), "a"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			first, second := test.a.WaitsFor(test.b), test.b.WaitsFor(test.a)
			g.Expect(first && second).To(BeFalse(), "both wait: nobody works")
			g.Expect(first || second).To(Equal(test.waits != ""))
			g.Expect(first && test.a.Name != test.waits || second && test.b.Name != test.waits).To(BeFalse(), "the other one waits")
		})
	}
}

func TestTheMessageNamesWhoIsFirstAndTheRemedy(t *testing.T) {
	g := NewWithT(t)
	older, younger := claim("a", 2), claim("b", 1)
	g.Expect(Explain(older, []Claim{older, younger}, "Machines")).To(BeEmpty())
	g.Expect(Explain(younger, []Claim{older, younger}, "Machines")).To(Equal("spec.selector.matchLabels: this selector and that of MachineSet a match Machines of each other, " +
		"so this object, the younger, is not reconciled: delete it, and recreate it with a selector that has a unique label"))
	controlled := change(claim("d", 0), func(c *Claim) { c.Kind, c.First = "MachineDeployment", true })
	g.Expect(Explain(older, []Claim{controlled, controlled}, "Machines")).To(And(
		ContainSubstring("that of MachineDeployment d match"), ContainSubstring("which no MachineDeployment controls"),
		ContainSubstring("give it the label hollowfleet.io/machine-deployment-name=d")), "each once, and the remedy keeps the Machines")
	var many []Claim
	for age := range 1000 {
		many = append(many, claim(string(rune('A'+age%26))+"-"+time.Duration(age).String(), age+2))
	}
	g.Expect(len(Explain(younger, many, "Machines"))).To(BeNumerically("<", 1024))
}
