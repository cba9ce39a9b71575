package machines

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// LivePage is how many Machines one live read asks for: it bounds the hub's memory, not the result.
	LivePage = 500
	// MostRereads is how many objects are read one by one. Where there are more, the whole namespace is listed.
	MostRereads = 20
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
		// A cache has no pages, and yet marks every list as one that continues.
		if page.Limit == 0 || list.Continue == "" {
			return nil
		}
		page.Continue = list.Continue
	}
}

// EachOf calls do with every Machine of namespace that carries labels, and with those called as in beside that do not: a user may have
// taken the labels away. A namespace can have many thousands of others, which cost it nothing.
func EachOf(ctx context.Context, live client.Reader, namespace string, labels client.MatchingLabels, beside map[string]bool, do func(*v1alpha1.Machine)) error {
	all := []client.ListOption{client.InNamespace(namespace), client.Limit(LivePage)}
	take := func(machine *v1alpha1.Machine) {
		delete(beside, machine.Name)
		do(machine)
	}
	if err := Each(ctx, live, take, append(all, labels)...); err != nil {
		return err
	}
	if len(beside) > MostRereads {
		return Each(ctx, live, func(machine *v1alpha1.Machine) {
			if beside[machine.Name] {
				do(machine)
			}
		}, all...)
	}
	for name := range beside {
		machine := &v1alpha1.Machine{}
		err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, machine)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading machine %s again: %w", name, err)
		} else if err == nil {
			do(machine)
		}
	}
	return nil
}
