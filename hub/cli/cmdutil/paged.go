package cmdutil

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is how many objects an API server is asked for at once: ten thousand Machines are two questions, and no answer is unbounded.
const pageSize = 5000

// ListPaged is a List in pages, into a list that is empty. The objects are as they were at one time.
func ListPaged(ctx context.Context, c client.Reader, list client.ObjectList, options ...client.ListOption) error {
	all, empty := append([]client.ListOption{client.Limit(pageSize)}, options...), list.DeepCopyObject()
	if err := c.List(ctx, list, all...); err != nil {
		return err
	}
	next := list.GetContinue()
	if next == "" {
		return nil
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("reading a page: %w", err)
	}
	for next != "" {
		page, ok := empty.DeepCopyObject().(client.ObjectList)
		if !ok {
			return fmt.Errorf("reading a page: %T is not a list", list)
		}
		err := c.List(ctx, page, append([]client.ListOption{client.Continue(next)}, all...)...)
		if apierrors.IsResourceExpired(err) { // The pages took too long: the next one would not be of the same time.
			return c.List(ctx, list, options...)
		}
		if err != nil {
			return err
		}
		more, err := meta.ExtractList(page)
		if err != nil {
			return fmt.Errorf("reading a page: %w", err)
		}
		items, next = append(items, more...), page.GetContinue()
		list.SetResourceVersion(page.GetResourceVersion())
	}
	list.SetContinue("")
	list.SetRemainingItemCount(nil)
	return setItems(list, items)
}

func setItems(list client.ObjectList, items []runtime.Object) error {
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("joining pages: %w", err)
	}
	return nil
}
