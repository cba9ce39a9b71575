package csrapprover

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A decision that is made for the first time is an increase, so each is shown before.
func TestEveryDecisionIsCountedFromZero(t *testing.T) {
	g := NewWithT(t)
	files, err := parser.ParseFile(gotoken.NewFileSet(), "policy.go", nil, 0)
	g.Expect(err).NotTo(HaveOccurred())
	reasons := 0
	ast.Inspect(files, func(node ast.Node) bool {
		if spec, is := node.(*ast.ValueSpec); is && strings.HasPrefix(spec.Names[0].Name, "Reason") {
			reasons++
		}
		return true
	})
	var all []string
	for _, some := range countedDecisions {
		all = append(all, some...)
	}
	g.Expect(reasons).To(BeNumerically(">", 10))
	g.Expect(all).To(HaveLen(reasons), "each reason has one verdict")
	g.Expect(slices.Compact(slices.Sorted(slices.Values(all)))).To(HaveLen(reasons))
	g.Expect(testutil.CollectAndCount(decisions)).To(BeNumerically(">=", reasons))
}
