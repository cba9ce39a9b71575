package confine

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// quantityFields are the fields below which all texts are quantities, in the kinds that a template may have.
var quantityFields = map[string]bool{
	"requests": true, "limits": true, "sizeLimit": true, "divisor": true, "overhead": true, "capacity": true, "hard": true,
	"max": true, "min": true, "default": true, "defaultRequest": true, "maxLimitRequestRatio": true,
}

// freeFields are those below which a user chooses keys and values.
var freeFields = map[string]bool{
	"metadata": true, "data": true, "stringData": true, "binaryData": true, "matchLabels": true, "nodeSelector": true, "selector": true,
}

// checkQuantities refuses a quantity that costs minutes to read: "1e-2000000000" is a number of two thousand million digits for agent
// and API server.
func checkQuantities(at string, value any, isQuantity bool) error {
	switch value := value.(type) {
	case string:
		if isQuantity {
			return checkQuantity(at, value)
		}
	case map[string]any:
		for _, key := range sortedKeys(value) {
			if freeFields[key] && !isQuantity {
				continue
			}
			path := strings.TrimPrefix(at+"."+key, ".")
			if err := checkQuantities(path, value[key], isQuantity && key != "type" || quantityFields[key]); err != nil {
				return err
			}
		}
	case []any:
		for i, each := range value {
			if err := checkQuantities(fmt.Sprintf("%s[%d]", at, i), each, isQuantity); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkQuantity(at, text string) error {
	raw, err := json.Marshal(text)
	if err == nil {
		_, err = v1alpha1.DecodeQuantity(raw)
	}
	if err != nil {
		return refuseField(at, "%s", err)
	}
	return nil
}
