package pods

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
)

// admitVersion refuses a version that the control plane can never get from what it was asked for before. waiting is why it cannot get it
// now, because it is not healthy there yet: then admitted has the version from before.
func (d *Driver) admitVersion(ctx context.Context, cluster rendering.Cluster, set *appsv1.StatefulSet) (admitted rendering.Cluster, waiting, err error) {
	before, err := d.readAskedVersion(ctx, cluster.Name, set)
	if err != nil || set == nil && before == "" {
		return cluster, nil, err
	}
	if err := checkUpgrade(before, cluster.Version); err != nil {
		return cluster, nil, err
	}
	if set == nil || !isEarlier(cmp.Or(before, programVersion), cluster.Version) {
		return cluster, nil, nil
	}
	lags := d.checkReached(ctx, cluster, before)
	if lags == nil {
		return cluster, nil, nil
	}
	waiting = refuseCluster(clusterdriver.Changing, "spec.versions.controlPlane: it gets %s when all of its components are healthy in %s: %v", cluster.Version, before, lags)
	if cluster.EmulatedVersion, err = emulatedMinor(before); err != nil {
		return cluster, nil, err
	}
	cluster.Version = before
	return cluster, waiting, nil
}

// readAskedVersion returns the version that the control plane was asked for before; empty for a new one.
func (d *Driver) readAskedVersion(ctx context.Context, name string, set *appsv1.StatefulSet) (string, error) {
	asked := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: rendering.NamespaceOf(name), Name: rendering.VersionMap}
	if err := d.client.Get(ctx, key, asked); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	if set == nil {
		return asked.Data[rendering.VersionKey], nil
	}
	return cmp.Or(asked.Data[rendering.VersionKey], set.Annotations[rendering.VersionAnnotation]), nil
}

// checkReached reports what of a control plane is not healthy in a version, or a later one.
func (d *Driver) checkReached(ctx context.Context, cluster rendering.Cluster, version string) error {
	authority := &corev1.Secret{}
	key := client.ObjectKey{Namespace: rendering.NamespaceOf(cluster.Name), Name: rendering.SecretOf(rendering.Authority)}
	if err := d.client.Get(ctx, key, authority); err != nil {
		return fmt.Errorf("reading Secret %s: %w", key, err)
	}
	asks, err := d.proofOf(cluster.Name, cluster.UID, authority.Data[corev1.TLSCertKey])
	if err != nil {
		return err
	}
	server, err := asks.askVersion(ctx)
	if err != nil {
		return err
	}
	report, err := asks.askReport(ctx)
	if err != nil {
		return err
	}
	for _, component := range []struct{ name, runs string }{
		{"kube-apiserver", server}, {"kube-controller-manager", report.ControllerManager}, {"kube-scheduler", report.Scheduler},
	} {
		switch {
		case component.runs == "":
			return fmt.Errorf("%s is not healthy", component.name)
		case isEarlier(component.runs, version):
			return fmt.Errorf("%s runs %s", component.name, component.runs)
		}
	}
	return nil
}
