package reconciler

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

func TestReportUnwoken(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	ReportUnwoken(ctx, fmt.Errorf("listing: %w", &cache.ErrResourceNotCached{GVK: schema.GroupVersionKind{Kind: "MachineFleet"}}), "Listing")
	g.Expect(lines).To(BeEmpty(), "its watch is still to come")
	ReportUnwoken(ctx, errors.New("timed out"), "Listing", "namespace", "a")
	g.Expect(lines).To(ConsistOf(And(ContainSubstring("timed out"), ContainSubstring(`"namespace"="a"`))))
}
