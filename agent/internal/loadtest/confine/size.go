package confine

import (
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// mostDepth is how deep an object may be, and mostValues how many keys and items it may have.
	mostDepth, mostValues = 64, 20_000
	// mostPods is how many pods one object may ask for.
	mostPods = 10_000
)

// checkSize refuses an object that is costly to keep although its text is short.
func checkSize(object map[string]any) error {
	values := 0
	var visit func(value any, depth int) error
	visit = func(value any, depth int) error {
		if depth > mostDepth {
			return refuseField("object", "it is more than %d levels deep", mostDepth)
		}
		values++
		if values > mostValues {
			return refuseField("object", "it has more than %d keys and items", mostValues)
		}
		switch value := value.(type) {
		case map[string]any:
			for _, inner := range value {
				if err := visit(inner, depth+1); err != nil {
					return err
				}
			}
		case []any:
			for _, inner := range value {
				if err := visit(inner, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return visit(object, 0)
}

// Pods is how many pods an object asks for.
func (l Limits) Pods(object *unstructured.Unstructured) int64 {
	return podsOf(kinds[object.GroupVersionKind()], object.Object)
}

// podsOf is how many pods an object asks for.
func podsOf(known kind, object map[string]any) int64 {
	switch {
	case !known.hasPods:
		return 0
	case known.pods == nil:
		return 1
	}
	spec, _ := object["spec"].(map[string]any)
	return max(known.pods(spec), 0) // One that asks for fewer than none is the API server's to refuse.
}

func replicasOf(spec map[string]any) int64 { return readNumber(spec["replicas"], 1) }

// jobPods is how many pods a Job makes, beside those in the place of such as fail.
func jobPods(spec map[string]any) int64 {
	parallel := readNumber(spec["parallelism"], 1)
	return max(parallel, readNumber(spec["completions"], parallel))
}

// readNumber reads an amount. What is not a number is refused by the API server.
func readNumber(value any, otherwise int64) int64 {
	switch value := value.(type) {
	case int64:
		return value
	case float64:
		if value > math.MaxInt32 {
			return math.MaxInt32
		}
		return int64(value)
	}
	return otherwise
}
