package relist

import (
	"testing"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// What a thaw waits for stands in the status and in events of the Cluster.
// Edge case: Events named Go types.
func TestACacheIsNamedInPlainWords(t *testing.T) {
	caches := &Caches{}
	caches.NewInformer("hub")(&toolscache.ListWatch{}, &v1alpha1.Machine{}, 0, toolscache.Indexers{})
	if got := caches.allInformers()[0].what; got != "Machine objects of the hub" {
		t.Errorf("the cache is called %q", got)
	}
}
