// Package upcoming tells which version the control plane of a simulated cluster is about to have. Kubelets that are upgraded together with
// it wait for that.
package upcoming

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// ReadVersion returns what the control plane of a simulated cluster is to have, by its SimulatedCluster or the set of that; empty if that is not
// known, or it is another's.
func ReadVersion(ctx context.Context, reader client.Reader, cluster *v1alpha1.Cluster) (string, error) {
	namespace, _, simulated := strings.Cut(cluster.Annotations[v1alpha1.SimulatedClusterAnnotation], "/")
	if !simulated {
		return "", nil
	}
	one := &v1alpha1.SimulatedCluster{}
	switch err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: cluster.Name}, one); {
	case isHidden(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading simulated cluster %s/%s: %w", namespace, cluster.Name, err)
	case one.ProofOfSimulation() != cluster.Annotations[v1alpha1.SimulatedClusterAnnotation]:
		return "", nil
	}
	version, owner := one.Spec.Versions.ControlPlane, metav1.GetControllerOfNoCopy(one)
	if owner == nil || owner.Kind != "SimulatedClusterSet" {
		return version, nil
	}
	set := &v1alpha1.SimulatedClusterSet{}
	switch err := reader.Get(ctx, client.ObjectKey{Name: owner.Name}, set); {
	case isHidden(err):
		return version, nil
	case err != nil:
		return "", fmt.Errorf("reading simulated cluster set %s: %w", owner.Name, err)
	case set.UID == owner.UID && (version == "" || v1alpha1.IsEarlierMinor(version, set.Spec.Template.Spec.Versions.ControlPlane)):
		return set.Spec.Template.Spec.Versions.ControlPlane, nil
	}
	return version, nil
}

// isHidden reports whether an object does not exist, or may not be seen by a user who looks at a fleet, or cannot be read.
func isHidden(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) || undecodable.Is(err)
}
