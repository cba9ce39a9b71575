package rollout

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
)

func TestFieldsOfManagersAreFound(t *testing.T) {
	set := map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}, "f:metadata": map[string]any{"f:labels": map[string]any{"f:a.b/c": map[string]any{}}}}
	for path, is := range map[string]bool{"spec.replicas": true, "spec.paused": false, "metadata.labels[a.b/c]": true, "metadata.labels[a]": false, "spec.replicas.x": false} {
		NewWithT(t).Expect(hasField(set, path)).To(Equal(is), fmt.Sprint(path))
	}
}
