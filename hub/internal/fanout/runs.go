package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

const (
	// MostFailures and MostMessage bound the failures in a status.
	MostFailures, MostMessage = 20, 512
)

// Parent is an object of the hub that has runs.
type Parent struct {
	client.Object
	// Kind is the object's. Label is that of its runs, whose value is the object's name.
	Kind, Label string
}

// NewMeta is that of what is made for the parent in a cluster. The name follows from the parent's, so that nothing is made twice. When the
// parent is deleted, the API server's garbage collector deletes it, and the agent ends what there is of it.
func (p Parent) NewMeta(cluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: cluster, Name: name, Labels: map[string]string{p.Label: p.GetName()},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: p.Kind, Name: p.GetName(), UID: p.GetUID(), Controller: new(true),
		}},
	}
}

// Owner is whose an object of a run's name is.
type Owner int

const (
	// NoOne: there is no such object. Ours is the parent's, Leftover that of a deleted parent of the same name.
	NoOne Owner = iota
	Ours
	Leftover
	Others
)

// OwnerOf says whose an object is.
func (p Parent) OwnerOf(object metav1.Object) Owner {
	switch controller := metav1.GetControllerOfNoCopy(object); {
	case controller == nil:
		return Others
	case controller.UID == p.GetUID():
		return Ours
	case controller.Kind == p.Kind && controller.Name == p.GetName():
		return Leftover
	}
	return Others
}

// Create makes an object for the parent, and returns whose the object of that name is then. There is where one is read that is there
// already: from live, because the cache need not know of it yet.
func (p Parent) Create(ctx context.Context, c client.Client, live client.Reader, object, there client.Object) (Owner, error) {
	err := c.Create(ctx, object)
	if err == nil {
		return Ours, nil
	}
	key := client.ObjectKeyFromObject(object)
	if !apierrors.IsAlreadyExists(err) {
		return NoOne, fmt.Errorf("creating %T %s: %w", object, key, err)
	}
	if err := live.Get(ctx, key, there); err != nil {
		return NoOne, fmt.Errorf("getting %T %s, which already exists: %w", object, key, err)
	}
	return p.OwnerOf(there), nil
}

// PatchAll writes the same patch to all objects, which may be of the cache: they are not changed. One that cannot be written stops no
// other.
func PatchAll[T client.Object](ctx context.Context, c client.Client, objects []T, patch []byte) error {
	var problems []error
	for _, object := range objects {
		copied, is := object.DeepCopyObject().(client.Object)
		if !is {
			continue
		}
		if err := c.Patch(ctx, copied, client.RawPatch(client.Merge.Type(), patch)); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("patching %T %s: %w", object, client.ObjectKeyFromObject(object), err))
		}
	}
	return errors.Join(problems...)
}

// NoteFailure names a cluster in failures, once, as long as there is room.
func NoteFailure(failures *[]v1alpha1.ClusterFailure, cluster, message string) {
	failure := v1alpha1.ClusterFailure{Cluster: cluster, Message: conditions.Shorten(message, MostMessage)}
	at := slices.IndexFunc(*failures, func(f v1alpha1.ClusterFailure) bool { return f.Cluster == cluster })
	switch {
	case at >= 0:
		(*failures)[at] = failure
	case len(*failures) < MostFailures:
		*failures = append(*failures, failure)
	}
}

// FailureOf is what failures say of a cluster, or otherwise if they do not name it.
func FailureOf(failures []v1alpha1.ClusterFailure, cluster, otherwise string) string {
	for _, failure := range failures {
		if failure.Cluster == cluster {
			return failure.Message
		}
	}
	return otherwise
}
