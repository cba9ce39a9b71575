package cmdutil_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

func TestCodes(t *testing.T) {
	resource := schema.GroupResource{Group: "hollowfleet.io", Resource: "clusters"}
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"nothing":              {nil, 0},
		"anything":             {errors.New("no route to host"), 1},
		"usage":                {cmdutil.Usage("unknown flag"), 2},
		"an error as usage":    {cmdutil.AsUsage(errors.New("unknown flag")), 2},
		"no error as usage":    {cmdutil.AsUsage(nil), 0},
		"not found":            {cmdutil.NotFound("no such cluster"), 3},
		"not found, server":    {apierrors.NewNotFound(resource, "c1"), 3},
		"refused":              {cmdutil.Refusal("joined already"), 4},
		"conflict, server":     {apierrors.NewConflict(resource, "c1", errors.New("changed")), 4},
		"forbidden, server":    {apierrors.NewForbidden(resource, "c1", errors.New("no")), 4},
		"unauthorized, server": {apierrors.NewUnauthorized("no"), 4},
		"exists, server":       {apierrors.NewAlreadyExists(resource, "c1"), 4},
		"invalid, server":      {apierrors.NewInvalid(schema.GroupKind{Kind: "Cluster"}, "c1", nil), 4},
		"timeout":              {cmdutil.Timeout("not ready"), 5},
		"deadline":             {context.DeadlineExceeded, 5},
		"interrupted":          {context.Canceled, 130},
		"wrapped":              {fmt.Errorf("reading Cluster c1: %w", apierrors.NewNotFound(resource, "c1")), 3},
		"joined":               {errors.Join(errors.New("also"), cmdutil.Timeout("not ready")), 5},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(cmdutil.Code(test.err)).To(Equal(test.want))
		})
	}
}
