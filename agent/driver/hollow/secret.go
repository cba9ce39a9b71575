package hollow

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// writeSecret makes or renews a Machine's Secret, with a fresh bootstrap token.
func (d *Driver) writeSecret(ctx context.Context, machine string, want desired) error {
	secret, err := d.readSecret(ctx, machine)
	if err != nil {
		return err
	}
	fresh, err := mint(ctx, d.environment.Target.Client, d.environment.Target.Namespace)
	if err != nil {
		return err
	}
	file, err := hollownode.Marshal(want.configuration)
	if err != nil {
		return fmt.Errorf("writing the configuration of the hollow-node: %w", err)
	}
	kubeconfig, err := bootstrapKubeconfig(d.options.ServerURL, d.options.ServerCA, fresh.token)
	if err != nil {
		return err
	}
	written := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.environment.Host.Namespace, Name: machine}}
	if secret != nil {
		written = secret.DeepCopy()
	}
	written.Labels = objectLabels(d.environment.ClusterName, machine)
	written.Annotations = map[string]string{
		tokenIDsAnnotation:    withTokenID(secret, fresh.id),
		tokenExpiryAnnotation: fresh.expiry.UTC().Format(time.RFC3339),
	}
	written.Data = map[string][]byte{
		hollownode.ConfigFileName:              file,
		hollownode.BootstrapKubeconfigFileName: kubeconfig,
	}
	if secret == nil {
		err = d.environment.Host.Client.Create(ctx, written)
	} else {
		err = d.environment.Host.Client.Update(ctx, written)
	}
	if err != nil {
		return fmt.Errorf("writing secret %s/%s: %w", written.Namespace, written.Name, err)
	}
	d.expiries.set(machine, fresh.expiry)
	return nil
}

// readSecret returns a Machine's Secret, nil if there is none. One that is not this cluster's is an error.
func (d *Driver) readSecret(ctx context.Context, machine string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: d.environment.Host.Namespace, Name: machine}
	if err := d.environment.Host.Reader.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("getting secret %s: %w", key, err)
	}
	if err := d.own(secret, "secret"); err != nil {
		return nil, err
	}
	return secret, nil
}

// own reports an object of the host that has a Machine's name and is not of this cluster.
func (d *Driver) own(object client.Object, kind string) error {
	cluster := object.GetLabels()[v1alpha1.ClusterNameLabel]
	if cluster == d.environment.ClusterName {
		return nil
	}
	return fmt.Errorf("%s %s/%s is not of cluster %q (label %s is %q): give each cluster a host namespace of its own",
		kind, object.GetNamespace(), object.GetName(), d.environment.ClusterName, v1alpha1.ClusterNameLabel, cluster)
}
