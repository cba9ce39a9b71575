package localclusters

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// resource is one of Resources. field is that of Desired, and spec that of a SimulatedCluster.
type resource struct{ field, spec, quantity string }

func (r Resources) listQuantities() []resource {
	return []resource{
		{"resources.requestsMemory", "spec.resources.requests.memory", r.RequestsMemory}, {"resources.requestsCPU", "spec.resources.requests.cpu", r.RequestsCPU},
		{"resources.limitsMemory", "spec.resources.limits.memory", r.LimitsMemory}, {"resources.limitsCPU", "spec.resources.limits.cpu", r.LimitsCPU},
	}
}

// validateQuantities returns a Problem for the first that cannot be read.
func (r Resources) validateQuantities() error {
	for _, each := range r.listQuantities() {
		if each.quantity == "" {
			continue
		}
		if _, err := parseBytes(each.quantity); err != nil {
			return invalidError(each.field, "%v", err)
		}
	}
	return nil
}

func parseBytes(quantity string) (int64, error) {
	quoted, err := json.Marshal(quantity)
	if err != nil {
		return 0, fmt.Errorf("reading %q: %w", quantity, err)
	}
	parsed, err := v1alpha1.DecodeQuantity(quoted)
	if err != nil {
		return 0, err //nolint:wrapcheck // It names the text.
	}
	if parsed.Sign() < 0 {
		return 0, fmt.Errorf("%s is negative: write 0 or more", quantity)
	}
	return parsed.Value(), nil
}

// Memory is how many bytes are asked for; 0 if none are. What is more than an int64 takes is the most of it.
func (r Resources) Memory() int64 {
	if r.RequestsMemory == "" {
		return 0
	}
	bytes, err := parseBytes(r.RequestsMemory)
	if err != nil {
		return 0
	}
	return bytes
}

// DescribeUnenforced says which of them a keeper does not enforce; empty if it enforces all.
func (r Resources) DescribeUnenforced() string {
	var fields []string
	for _, each := range r.listQuantities()[1:] {
		if each.quantity != "" {
			fields = append(fields, each.spec)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return "not enforced, because the host runs control planes as processes of one machine: " + strings.Join(fields, ", ")
}
