package template

import (
	"errors"
	"fmt"

	"github.com/hollowfleet/hollowfleet/internal/strictyaml"
)

// mostText is how many bytes a template may have: as many as the API of the hub allows, whatever schema let it in.
const mostText = 16 << 10

// readYAML returns an object of a template as JSON. Without aliases it is not much longer than its text.
func readYAML(rendered []byte) ([]byte, error) {
	content, err := strictyaml.ToJSON(rendered)
	if errors.Is(err, strictyaml.ErrManyObjects) {
		return nil, fmt.Errorf("%w: use a template for each", err)
	}
	if err != nil {
		return nil, err
	}
	if len(content) > mostRendered {
		return nil, fmt.Errorf("the object has more than %d bytes", mostRendered)
	}
	return content, nil
}
