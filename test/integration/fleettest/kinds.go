package fleettest

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// WatchKind keeps a journal of the objects of a kind until the spec or suite that calls it ends. list is an empty list of them, and counts
// tells which of them count; nil for all.
func WatchKind(ctx context.Context, config *rest.Config, kind string, list client.ObjectList, counts func(client.Object) bool) *Journal {
	GinkgoHelper()
	return keepJournal(ctx, subject{kind: kind, config: config, scheme: scheme.New(), list: list, counts: counts})
}
