package pods

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
)

// checkOwned refuses an object that the driver has not made for the SimulatedCluster of that UID.
func checkOwned(object client.Object, kind, uid string) error {
	if object.GetLabels()[rendering.UIDLabel] == uid && object.GetAnnotations()[rendering.NameAnnotation] != "" {
		return nil
	}
	return refuseCluster(clusterdriver.NameTaken, "%s exists and was not made for this SimulatedCluster: it has no label %s=%s and annotation %s: remove it, or choose another name for the SimulatedCluster",
		describeObject(kind, object), rendering.UIDLabel, uid, rendering.NameAnnotation)
}

func describeObject(kind string, object client.Object) string {
	if object.GetNamespace() == "" {
		return kind + " " + object.GetName()
	}
	return kind + " " + object.GetNamespace() + "/" + object.GetName()
}

// readNamespace returns the namespace of the cluster; nil if there is none. With it, it refuses one that is another's.
func (d *Driver) readNamespace(ctx context.Context, name, uid string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	err := d.client.Get(ctx, client.ObjectKey{Name: rendering.NamespaceOf(name)}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil // There is none, and that is known.
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", rendering.NamespaceOf(name), err)
	}
	if err := checkOwned(namespace, "Namespace", uid); err != nil {
		return namespace, err
	}
	if host := namespace.Labels[rendering.HostLabel]; host != d.Host {
		return namespace, refuseCluster(clusterdriver.Invalid, "label %s of Namespace %s: want %s, got %q: correct it", rendering.HostLabel, namespace.Name, d.Host, host)
	}
	return namespace, nil
}

// readStatefulSet returns the StatefulSet; nil if there is none. It refuses one that is another's.
func (d *Driver) readStatefulSet(ctx context.Context, name, uid string) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	err := d.client.Get(ctx, client.ObjectKey{Namespace: rendering.NamespaceOf(name), Name: rendering.Name}, set)
	if apierrors.IsNotFound(err) {
		return nil, nil // There is none, and that is known.
	}
	if err != nil {
		return nil, fmt.Errorf("reading the StatefulSet of %s: %w", name, err)
	}
	return set, checkOwned(set, "StatefulSet", uid)
}

// applyOwned makes an object as it is to be, unless there is one of its name that is another's.
func (d *Driver) applyOwned(ctx context.Context, object client.Object, uid string) error {
	kind := object.GetObjectKind().GroupVersionKind()
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err := d.client.Get(ctx, client.ObjectKeyFromObject(object), found)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading %s: %w", describeObject(kind.Kind, object), err)
	}
	if err == nil {
		if err := checkOwned(found, kind.Kind, uid); err != nil {
			return err
		}
	}
	wanted, err := toApply(object)
	if err != nil {
		return err
	}
	// The object that was checked, and no other one of its name.
	wanted.SetUID(found.UID)
	if err := d.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s: %w", describeObject(kind.Kind, object), err)
	}
	return nil
}

// toApply has only the fields of an object that the driver sets.
func toApply(object client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", object.GetName(), err)
	}
	delete(content, "status")
	removeNulls(content)
	return &unstructured.Unstructured{Object: content}, nil
}

func removeNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, each := range value {
			if each == nil {
				delete(value, key)
				continue
			}
			removeNulls(each)
		}
	case []any:
		for _, each := range value {
			removeNulls(each)
		}
	}
}
