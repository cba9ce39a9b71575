package pods

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

// The API server lets the driver into a new namespace soon after it has the RoleBinding.
const rightsInterval, rightsTimeout = 100 * time.Millisecond, 10 * time.Second

// Ensure implements clusterdriver.Driver. It writes all that the cluster takes; what is missing after an error is written when it is
// called again, or by Repair.
func (d *Driver) Ensure(ctx context.Context, desired clusterdriver.Desired) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("asking for simulated cluster %s: %w", desired.Name, err)
	}
	unlock := d.turns.lockName(desired.Name)
	defer unlock()
	if err := d.ensureObjects(ctx, desired, true); err != nil {
		return fmt.Errorf("asking for simulated cluster %s: %w", desired.Name, err)
	}
	return nil
}

func (d *Driver) ensureObjects(ctx context.Context, desired clusterdriver.Desired, isNewAllowed bool) error {
	cluster, err := d.checkDesired(desired)
	if err != nil {
		return err
	}
	namespace, err := d.readNamespace(ctx, desired.Name, desired.UID)
	switch {
	case namespace != nil && (namespace.DeletionTimestamp != nil || d.isRemoving(desired.UID)):
		return refuseCluster(clusterdriver.BeingRemoved, "Namespace %s is being removed", namespace.Name)
	case err != nil:
		return err
	case namespace == nil && !isNewAllowed:
		return nil
	case namespace == nil:
		if err := d.checkQuota(cluster); err != nil {
			return err
		}
		if namespace, err = d.createNamespace(ctx, cluster, desired.Credential); err != nil {
			return err
		}
	}
	cluster.Certificates = rendering.PKI(namespace.Annotations[rendering.CertificatesAnnotation])
	if cluster.Certificates != rendering.CertManager && cluster.Certificates != rendering.SelfSigned {
		return refuseCluster(clusterdriver.Invalid, "annotation %s of namespace %s: want %s or %s, got %q", rendering.CertificatesAnnotation, namespace.Name, rendering.CertManager, rendering.SelfSigned, cluster.Certificates)
	}
	if err := d.enterNamespace(ctx, cluster); err != nil {
		return err
	}
	if err := d.applyCluster(ctx, cluster, desired); err != nil {
		return err
	}
	desired.Credential = nil
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ensured[desired.UID] = desired
	return nil
}

// checkDesired refuses what cannot be right, before anything is read.
func (d *Driver) checkDesired(desired clusterdriver.Desired) (rendering.Cluster, error) {
	asked := localclusters.Desired{
		UID: desired.UID, ControlPlaneVersion: desired.ControlPlaneVersion,
		Hub: localclusters.HubAccess{Server: desired.Hub.Server, CA: desired.Hub.CA},
	}
	if desired.Credential != nil {
		asked.Certificate, asked.Key = desired.Credential.Certificate, desired.Credential.Key
	}
	if err := asked.Validate(desired.Name, d.Clock.Now()); err != nil {
		return rendering.Cluster{}, refuseCluster(clusterdriver.Invalid, "%v", err)
	}
	if len(desired.Name) > rendering.MaxName {
		return rendering.Cluster{}, refuseCluster(clusterdriver.Invalid, "metadata.name: want at most %d characters for a simulated cluster as a pod, got %d: choose a shorter name", rendering.MaxName, len(desired.Name))
	}
	emulated, err := emulatedMinor(desired.ControlPlaneVersion)
	if err != nil {
		return rendering.Cluster{}, err
	}
	kubeconfig, err := joining.Server{URL: desired.Hub.Server, CA: desired.Hub.CA}.Kubeconfig(desired.Name, "")
	if err != nil {
		return rendering.Cluster{}, refuseCluster(clusterdriver.Invalid, "%v", err)
	}
	return rendering.Cluster{
		Name: desired.Name, UID: desired.UID, Version: cmp.Or(desired.ControlPlaneVersion, programVersion), EmulatedVersion: emulated,
		HubServer: desired.Hub.Server, HubKubeconfig: kubeconfig, Resources: desired.Resources,
	}, nil
}

// checkQuota refuses a pod that the quota of its namespace does not let in.
func (d *Driver) checkQuota(cluster rendering.Cluster) error {
	excess := d.FindExcess(cluster)
	if excess == nil {
		return nil
	}
	return refuseCluster(clusterdriver.NoRoom, "spec.resources.%s: with its agent it takes %s, and the host's quota for the namespace of each simulated cluster has %s=%s: ask for less, or have the host's administrator raise that",
		excess.Field, excess.Needs.String(), excess.Name, excess.Has.String())
}

// createNamespace records a new cluster.
func (d *Driver) createNamespace(ctx context.Context, cluster rendering.Cluster, credential *clusterdriver.Credential) (*corev1.Namespace, error) {
	if credential == nil {
		return nil, refuseCluster(clusterdriver.Invalid, "certificate: a new cluster needs one")
	}
	var err error
	if cluster.Certificates, err = d.choosePKI(); err != nil {
		return nil, err
	}
	d.creating.Lock()
	defer d.creating.Unlock()
	namespaces, err := d.listNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	if len(namespaces) >= d.MaxClusters {
		return nil, refuseCluster(clusterdriver.NoRoom, "the host has %d simulated clusters, and --simulated-clusters-max=%d allows no more: remove some, or have its administrator raise that", len(namespaces), d.MaxClusters)
	}
	namespace := d.Namespace(cluster)
	// Create fails if there is one: it is another's.
	err = d.client.Create(ctx, namespace, client.FieldOwner(fieldManager))
	if apierrors.IsAlreadyExists(err) {
		return nil, refuseCluster(clusterdriver.NameTaken, "Namespace %s has just been created by another: remove it, or choose another name for the SimulatedCluster", namespace.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("creating namespace %s: %w", namespace.Name, err)
	}
	return namespace, nil
}

// enterNamespace gives the driver its rights there, and waits until the API server knows them.
func (d *Driver) enterNamespace(ctx context.Context, cluster rendering.Cluster) error {
	binding := d.HostBinding(cluster)
	if err := d.client.Create(ctx, binding, client.FieldOwner(fieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s: %w", describeObject("RoleBinding", binding), err)
	}
	var refused error
	err := wait.PollUntilContextTimeout(ctx, rightsInterval, rightsTimeout, true, func(ctx context.Context) (done bool, err error) {
		_, refused = d.readStatefulSet(ctx, cluster.Name, cluster.UID)
		return !apierrors.IsForbidden(refused), nil
	})
	if err != nil && refused != nil {
		return fmt.Errorf("waiting for rights in namespace %s: %w", binding.Namespace, refused)
	}
	if err != nil {
		return fmt.Errorf("waiting for rights in namespace %s: %w", binding.Namespace, err)
	}
	return nil
}

// applyCluster writes all that is in the namespace. A version that the control plane cannot get yet is refused; all else is written.
func (d *Driver) applyCluster(ctx context.Context, cluster rendering.Cluster, desired clusterdriver.Desired) error {
	set, err := d.readStatefulSet(ctx, cluster.Name, cluster.UID)
	if err != nil {
		return err
	}
	if set != nil {
		if set.DeletionTimestamp != nil {
			return refuseCluster(clusterdriver.BeingRemoved, "%s is being removed", describeObject("StatefulSet", set))
		}
		cluster.Claims = claimsOf(set.Spec.VolumeClaimTemplates)
	}
	// A pod that runs stays, also if the quota has become smaller since.
	if set == nil || !equality.Semantic.DeepEqual(planeResourcesOf(set), cluster.ControlPlaneResources()) {
		if err := d.checkQuota(cluster); err != nil {
			return err
		}
	}
	cluster, waiting, err := d.admitVersion(ctx, cluster, set)
	if err != nil {
		return err
	}
	if err := d.storeCredential(ctx, cluster, desired.Credential); err != nil {
		return err
	}
	if cluster.Certificates == rendering.SelfSigned {
		if err := d.ensureCertificates(ctx, cluster, set != nil); err != nil {
			return err
		}
	}
	objects, err := d.Objects(cluster)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := d.applyOwned(ctx, object, cluster.UID); err != nil {
			return explainPKI(err, cluster)
		}
	}
	return waiting
}

// planeResourcesOf are those of the control plane as it was made.
func planeResourcesOf(set *appsv1.StatefulSet) corev1.ResourceRequirements {
	for _, container := range set.Spec.Template.Spec.InitContainers {
		if container.Name == rendering.ControlPlaneContainer {
			return container.Resources
		}
	}
	return corev1.ResourceRequirements{}
}

// claimsOf are the templates of claims as they were made.
func claimsOf(found []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	claims := make([]corev1.PersistentVolumeClaim, 0, len(found))
	for _, each := range found {
		each.Status = corev1.PersistentVolumeClaimStatus{}
		claims = append(claims, each)
	}
	return claims
}

func (d *Driver) isRemoving(uid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.removing[uid]
}
