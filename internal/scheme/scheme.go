// Package scheme knows the kinds of Kubernetes and of Hollowfleet.
package scheme

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// New returns a scheme with all of them. It panics on two kinds of one name: a mistake in the code, which any
// start of a program shows.
func New() *runtime.Scheme {
	known := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(known))
	utilruntime.Must(v1alpha1.AddToScheme(known))
	return known
}
