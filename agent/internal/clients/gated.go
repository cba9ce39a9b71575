package clients

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// libraryQPS and libraryBurst leave room for many drains at a time; each does little at a time.
const libraryQPS, libraryBurst = 200, 400

// Gated returns config for clients each of whose attempts passes gate, those that client-go repeats by itself too.
func Gated(config *rest.Config, gate func(http.RoundTripper) http.RoundTripper) *rest.Config {
	gated := rest.CopyConfig(config)
	gated.Wrap(gate)
	return gated
}

// NewGatedClientset returns a clientset for a library that wants one. Its requests pass gate.
func NewGatedClientset(config *rest.Config, gate func(http.RoundTripper) http.RoundTripper) (kubernetes.Interface, error) {
	if gate == nil {
		return nil, errors.New("a clientset needs the freeze gate")
	}
	gated := Gated(config, gate)
	gated.QPS, gated.Burst = libraryQPS, libraryBurst
	clientset, err := kubernetes.NewForConfig(gated)
	if err != nil {
		return nil, fmt.Errorf("making a clientset: %w", err)
	}
	return clientset, nil
}
