// Package v1alpha1 holds the API of Hollowfleet: the kinds of the group hollowfleet.io, served by a hub.
//
// Every field says who writes it. A field has one writer (see docs/design); the hub's controllers, the
// agent of a cluster and the user never share one.
//
// +kubebuilder:object:generate=true
// +groupName=hollowfleet.io
package v1alpha1
