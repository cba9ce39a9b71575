package v1alpha1

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// boundedQuantity is what the API server accepts as a quantity; hack/crdbounds writes it into the schemas.
var boundedQuantity = regexp.MustCompile(`^[-+]?([0-9]{1,20}(\.[0-9]{0,18})?|\.[0-9]{1,18})([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$`)

// DecodeQuantity decodes a quantity of at most 20 digits with an exponent of at most two. The type's own decoder computes
// as many digits as the exponent says: "1e-50000000" takes it a quarter of a minute.
func DecodeQuantity(raw json.RawMessage) (resource.Quantity, error) {
	text := string(raw)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(raw, &text); err != nil {
			return resource.Quantity{}, err
		}
	}
	if !boundedQuantity.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf(`no quantity, or one of too many digits: %.64q: write it as "4" or "16Gi"`, text)
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, err
	}
	return writableQuantity(quantity), nil
}

// writableQuantity is quantity in a form that can be read again. No suffix is larger than E, and the type writes 1000E as 1. With a
// fraction it may write more digits than are accepted: then the smallest part of the number is rounded up.
// What is larger than any exponent of two digits can write becomes 1e99.
func writableQuantity(quantity resource.Quantity) resource.Quantity {
	written := quantity // The type keeps what it has written in the value that is asked.
	if again, err := resource.ParseQuantity(written.String()); err != nil || again.Cmp(quantity) != 0 {
		quantity.Format = resource.DecimalExponent
	}
	for scale := resource.Nano; scale <= 99; scale += 3 {
		if written := quantity; boundedQuantity.MatchString(written.String()) {
			return quantity
		}
		quantity.Format = resource.DecimalExponent
		quantity.RoundUp(scale)
	}
	if quantity.Sign() < 0 {
		return resource.MustParse("-1e99")
	}
	return resource.MustParse("1e99")
}

// boundedResources decodes like a corev1.ResourceList, with the bounds of DecodeQuantity.
type boundedResources corev1.ResourceList

// UnmarshalJSON implements json.Unmarshaler.
func (r *boundedResources) UnmarshalJSON(data []byte) error {
	var quantities map[corev1.ResourceName]json.RawMessage
	if err := utiljson.Unmarshal(data, &quantities); err != nil || quantities == nil {
		*r = nil
		return err
	}
	*r = make(boundedResources, len(quantities))
	for name, raw := range quantities {
		quantity, err := DecodeQuantity(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		(*r)[name] = quantity
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler; it bounds what the quantities cost.
func (t *NodeTemplate) UnmarshalJSON(data []byte) error {
	type plain NodeTemplate
	decoded := struct {
		plain    `json:",inline"`
		Capacity boundedResources `json:"capacity"`
	}{}
	if err := utiljson.Unmarshal(data, &decoded); err != nil {
		return err
	}
	*t = NodeTemplate(decoded.plain)
	t.Capacity = corev1.ResourceList(decoded.Capacity)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler; it bounds what the quantities cost.
func (s *ClusterStatus) UnmarshalJSON(data []byte) error {
	type plain ClusterStatus
	decoded := struct {
		plain    `json:",inline"`
		Capacity boundedResources `json:"capacity"`
	}{}
	if err := utiljson.Unmarshal(data, &decoded); err != nil {
		return err
	}
	*s = ClusterStatus(decoded.plain)
	s.Capacity = corev1.ResourceList(decoded.Capacity)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler; it bounds what the quantities cost.
func (c *HollowNodeConfig) UnmarshalJSON(data []byte) error {
	type plain HollowNodeConfig
	decoded := struct {
		plain        `json:",inline"`
		Capacity     boundedResources `json:"capacity"`
		PodResources boundedResources `json:"podResources"`
	}{}
	if err := utiljson.Unmarshal(data, &decoded); err != nil {
		return err
	}
	*c = HollowNodeConfig(decoded.plain)
	c.Capacity, c.PodResources = corev1.ResourceList(decoded.Capacity), corev1.ResourceList(decoded.PodResources)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler; it bounds what the quantities cost.
func (d *HollowDevices) UnmarshalJSON(data []byte) error {
	type plain HollowDevices
	decoded := struct {
		plain    `json:",inline"`
		Capacity boundedResources `json:"capacity"`
	}{}
	if err := utiljson.Unmarshal(data, &decoded); err != nil {
		return err
	}
	*d = HollowDevices(decoded.plain)
	d.Capacity = nil
	for name, quantity := range decoded.Capacity {
		if d.Capacity == nil {
			d.Capacity = map[string]resource.Quantity{}
		}
		d.Capacity[string(name)] = quantity
	}
	return nil
}

// UnmarshalJSON implements json.Unmarshaler; it bounds what the quantities cost.
func (c *KwokNodeConfig) UnmarshalJSON(data []byte) error {
	type plain KwokNodeConfig
	decoded := struct {
		plain    `json:",inline"`
		Capacity boundedResources `json:"capacity"`
	}{}
	if err := utiljson.Unmarshal(data, &decoded); err != nil {
		return err
	}
	*c = KwokNodeConfig(decoded.plain)
	c.Capacity = corev1.ResourceList(decoded.Capacity)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler; it bounds what the quantities cost.
func (r *ControlPlaneResources) UnmarshalJSON(data []byte) error {
	decoded := struct {
		Requests boundedResources `json:"requests"`
		Limits   boundedResources `json:"limits"`
	}{}
	if err := utiljson.Unmarshal(data, &decoded); err != nil {
		return err
	}
	r.Requests, r.Limits = corev1.ResourceList(decoded.Requests), corev1.ResourceList(decoded.Limits)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler; it bounds what the quantity costs.
func (p *HollowImagePull) UnmarshalJSON(data []byte) error {
	type plain HollowImagePull
	decoded := struct {
		plain          `json:",inline"`
		BytesPerSecond json.RawMessage `json:"bytesPerSecond"`
	}{}
	if err := utiljson.Unmarshal(data, &decoded); err != nil {
		return err
	}
	*p = HollowImagePull(decoded.plain)
	p.BytesPerSecond = nil
	if raw := decoded.BytesPerSecond; len(raw) > 0 && string(raw) != "null" {
		quantity, err := DecodeQuantity(raw)
		if err != nil {
			return fmt.Errorf("bytesPerSecond: %w", err)
		}
		p.BytesPerSecond = &quantity
	}
	return nil
}
