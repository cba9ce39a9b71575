package machines

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// KeepReplicas returns what spec.replicas becomes where it is left out: as many as there are, and 1 for a new object, but no fewer and
// no more than the autoscaler may make of it. What is left out is another owner's, such as the autoscaler's.
func KeepReplicas(object metav1.Object, there int, isNew bool) int32 {
	count := there
	if isNew && there == 0 {
		count = 1
	}
	if least, err := strconv.ParseUint(object.GetAnnotations()[v1alpha1.AutoscalerMinSizeAnnotation], 10, 31); err == nil {
		count = max(count, int(least))
	}
	if most, err := strconv.ParseUint(object.GetAnnotations()[v1alpha1.AutoscalerMaxSizeAnnotation], 10, 31); err == nil {
		count = min(count, int(most))
	}
	return int32(min(count, v1alpha1.MaxReplicas))
}
