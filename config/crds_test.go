package config

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// lateMapper finds a kind when it has been asked often enough.
type lateMapper struct {
	meta.RESTMapper
	misses  int
	err     error
	version string
}

func (m *lateMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.version = strings.Join(versions, ",")
	if m.err != nil {
		return nil, m.err
	}
	if m.misses--; m.misses >= 0 {
		return nil, &meta.NoKindMatchError{GroupKind: kind}
	}
	return &meta.RESTMapping{}, nil
}

func TestAKindThatIsNotDiscoveredYetIsWaitedFor(t *testing.T) {
	broken := errors.New("no connection")
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "hollowfleet.io", "names": map[string]any{"kind": "Machine"},
		"versions": []any{map[string]any{"name": "v1alpha1", "storage": false}, map[string]any{"name": "v1beta1", "storage": true}},
	}}}
	for name, c := range map[string]struct {
		mapper *lateMapper
		want   error
	}{
		"found at the third look":    {&lateMapper{misses: 2}, nil},
		"never found":                {&lateMapper{misses: 1 << 30}, context.DeadlineExceeded},
		"discovery is broken at all": {&lateMapper{err: broken}, broken},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			err := waitUntilDiscovered(ctx, fake.NewClientBuilder().WithRESTMapper(c.mapper).Build(), crd)
			if c.want == nil {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(c.mapper.misses).To(BeNumerically("<", 0), "it was looked for until it was there")
				g.Expect(c.mapper.version).To(Equal("v1beta1"), "a mapper that knows another version of the group does not find it else")
				return
			}
			g.Expect(err).To(MatchError(c.want))
			g.Expect(err).To(MatchError(ContainSubstring("Machine.hollowfleet.io")))
		})
	}
}
