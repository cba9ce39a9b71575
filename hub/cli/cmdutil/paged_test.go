package cmdutil

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pager is an API server that has pages of two, and whose pages expire after some.
type pager struct {
	client.Reader
	total, expiresAfter int
	asked               []string
}

func (p *pager) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	chosen := (&client.ListOptions{}).ApplyOptions(options)
	p.asked = append(p.asked, fmt.Sprintf("%d %s", chosen.Limit, chosen.Continue))
	if p.expiresAfter > 0 && len(p.asked) > p.expiresAfter && chosen.Continue != "" {
		return apierrors.NewResourceExpired("the pages are too old")
	}
	list := into.(*corev1.NamespaceList)
	from, to := 0, p.total
	if _, err := fmt.Sscanf(chosen.Continue, "from-%d", &from); err != nil {
		from = 0
	}
	if chosen.Limit > 0 {
		to = min(from+2, p.total)
	}
	list.Items = nil
	for i := from; i < to; i++ {
		list.Items = append(list.Items, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}})
	}
	list.ResourceVersion, list.Continue = "7", ""
	if to < p.total {
		list.Continue = fmt.Sprintf("from-%d", to)
	}
	return nil
}

// A list in pages has all objects once, and the version from which they are watched.
func TestListInPages(t *testing.T) {
	for _, test := range []struct{ total, expiresAfter, asked int }{{0, 0, 1}, {2, 0, 1}, {5, 0, 3}, {5, 1, 3}, {5, 2, 4}} {
		g := NewWithT(t)
		server, list := &pager{total: test.total, expiresAfter: test.expiresAfter}, &corev1.NamespaceList{}
		g.Expect(ListPaged(t.Context(), server, list)).To(Succeed())
		g.Expect(list.Items).To(HaveLen(test.total))
		for i := range list.Items {
			g.Expect(list.Items[i].Name).To(Equal(fmt.Sprint(i)))
		}
		g.Expect(list.ResourceVersion).To(Equal("7"))
		g.Expect(list.Continue).To(BeEmpty())
		g.Expect(server.asked).To(HaveLen(test.asked))
	}
}
