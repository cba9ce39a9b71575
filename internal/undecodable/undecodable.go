// Package undecodable keeps objects that could not be decoded from stopping others, and from being taken for what they are
// not. Such an object has its metadata and an empty spec and status: see v1alpha1.Machine.DecodeError.
//
// Its readers return an error for it, so that no controller takes an empty spec for the user's will. Lists do contain it:
// an object that exists and is missing in a list would look like one that was deleted.
package undecodable

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Error says that an object exists and cannot be decoded.
type Error struct {
	// Kind, Namespace and Name of the object; Namespace is empty for a Cluster.
	Kind, Namespace, Name string
	// Problem is what the decoder said.
	Problem string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s cannot be decoded: %s: %s", e.String(), e.Problem, e.describeRemedy())
}

// describeRemedy is what a person can do. What was measured, or is on Nodes, follows the spec that there was, which is never changed.
func (e *Error) describeRemedy() string {
	switch e.Kind {
	case "LoadTest", "LoadTestRun", "NodeDisruption", "NodeDisruptionRun":
		return "delete it, and create another one"
	}
	return "repair it with kubectl edit"
}

// String names the object.
func (e *Error) String() string {
	if e.Namespace == "" {
		return e.Kind + " " + e.Name
	}
	return e.Kind + " " + e.Namespace + "/" + e.Name
}

// Is reports whether err says that an object cannot be decoded.
func Is(err error) bool {
	var undecodable *Error
	return errors.As(err, &undecodable)
}

// Check returns an *Error for an object that was not decoded, and nil for any other.
func Check(object client.Object) error {
	if found := errorOf(object); found != nil {
		return found
	}
	return nil
}

func errorOf(object client.Object) *Error {
	decoded, may := object.(interface{ NotDecoded() string })
	if !may || decoded.NotDecoded() == "" {
		return nil
	}
	kind := fmt.Sprintf("%T", object)
	return &Error{
		Kind: kind[strings.LastIndex(kind, ".")+1:], Namespace: object.GetNamespace(), Name: object.GetName(), Problem: decoded.NotDecoded(),
	}
}

// NewClient is a client.NewClientFunc: the client's Get returns an *Error for an object that was not decoded.
func NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	inner, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	return checkedClient{inner}, nil
}

type checkedClient struct{ client.Client }

func (c checkedClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return getObject(ctx, c.Client, key, into, options)
}

// WithWatch is inner, except that Get returns an *Error for an object that was not decoded.
func WithWatch(inner client.WithWatch) client.WithWatch { return checkedWatch{inner} }

type checkedWatch struct{ client.WithWatch }

func (c checkedWatch) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return getObject(ctx, c.WithWatch, key, into, options)
}

// Reader is a reader whose Get returns an *Error for an object that was not decoded.
func Reader(inner client.Reader) client.Reader { return checkedReader{inner} }

type checkedReader struct{ client.Reader }

func (r checkedReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return getObject(ctx, r.Reader, key, into, options)
}

func getObject(ctx context.Context, from client.Reader, key client.ObjectKey, into client.Object, options []client.GetOption) error {
	if err := from.Get(ctx, key, into, options...); err != nil {
		return err
	}
	return Check(into)
}
