package machinestate

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Each calls do with every Machine that reader lists, in pages if there is a client.Limit among options.
func Each(ctx context.Context, reader client.Reader, do func(*v1alpha1.Machine), options ...client.ListOption) error {
	page := (&client.ListOptions{}).ApplyOptions(options)
	for {
		list := &v1alpha1.MachineList{}
		if err := reader.List(ctx, list, page); err != nil {
			return fmt.Errorf("listing machines: %w", err)
		}
		for i := range list.Items {
			do(&list.Items[i])
		}
		// A cache has no pages, and yet marks every list as one that goes on.
		if page.Limit == 0 || list.Continue == "" {
			return nil
		}
		page.Continue = list.Continue
	}
}
