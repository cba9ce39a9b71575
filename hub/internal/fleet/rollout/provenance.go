package rollout

import (
	"bytes"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// provenRecord returns the record on a MachineDeployment, which may be nil, if it is the fleet's and of this very object. For a record
// of an older hub, which does not name its object, the API server is asked once who wrote it.
func (r *Observer) provenRecord(ctx context.Context, fleet *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) (*Record, error) {
	found := OwnRecord(fleet, deployment)
	if found == nil || !found.isLegacy() {
		return found, nil
	}
	proven, known := r.proven.ValueOf(deployment.UID)
	if !known {
		live := &v1alpha1.MachineDeployment{}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(deployment), live)
		switch {
		case apierrors.IsNotFound(err) || err == nil && live.UID != deployment.UID:
			return found, nil // Its event is on the way, and no write can succeed.
		case err != nil:
			return nil, fmt.Errorf("asking who wrote the record of machine deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
		}
		proven = wroteRecord(live)
		r.proven.SetValue(deployment.UID, proven)
	}
	if !proven {
		return nil, nil
	}
	return found, nil
}

// wroteRecord reports whether a hub wrote the record on this object. Whoever applies a copy is the manager of all fields in it.
func wroteRecord(deployment metav1.Object) bool {
	for _, entry := range deployment.GetManagedFields() {
		if entry.Manager == string(FieldOwner) && entry.FieldsV1 != nil &&
			bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:`+v1alpha1.FleetRecordAnnotation+`"`)) {
			return true
		}
	}
	return false
}

// adoptedDowngrade is the problem of a MachineDeployment that has a newer kubelet than the fleet would give to it. One that names no
// kubelet has that of the cluster.
func (s *Scope) adoptedDowngrade(d *v1alpha1.MachineDeployment, m *Member) []Problem {
	if s.Fleet.Spec.AllowDowngrade {
		return nil
	}
	has := d.Spec.Template.Spec.Versions.Kubelet
	if has == "" {
		has = m.Cluster.Status.KubernetesVersion
	}
	wanted, err := version.ParseSemantic(m.template.kubeletVersion())
	found, otherErr := version.ParseSemantic(has)
	if err != nil || otherErr != nil || !wanted.LessThan(found) {
		return nil
	}
	return []Problem{{v1alpha1.ReasonKubeletDowngrade, fmt.Sprintf(
		"%s.spec.template.spec.versions.kubelet: %s is older than the %s of MachineDeployment %s/%s, which should be adopted: choose another version, or set spec.allowDowngrade",
		m.template.field, m.template.kubeletVersion(), has, d.Namespace, d.Name)}}
}
