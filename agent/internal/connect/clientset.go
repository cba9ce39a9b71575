package connect

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// libraryQPS and libraryBurst leave room for many drains at a time; each does little at a time.
const libraryQPS, libraryBurst = 200, 400

// NewGatedClientset returns a clientset for a library that wants one. Its requests pass gate.
func NewGatedClientset(config *rest.Config, gate func(http.RoundTripper) http.RoundTripper) (kubernetes.Interface, error) {
	if gate == nil {
		return nil, errors.New("a clientset needs the freeze gate")
	}
	gated := rest.CopyConfig(config)
	gated.QPS, gated.Burst = libraryQPS, libraryBurst
	gated.Wrap(gate)
	clientset, err := kubernetes.NewForConfig(gated)
	if err != nil {
		return nil, fmt.Errorf("making a clientset: %w", err)
	}
	return clientset, nil
}
