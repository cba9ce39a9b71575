package pods

import (
	"context"
	"fmt"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
)

// choosePKI says who makes the certificates of a new cluster.
func (d *Driver) choosePKI() (rendering.PKI, error) {
	if d.Certificates == PKISelfSigned {
		return rendering.SelfSigned, nil
	}
	_, err := d.discovery.ServerResourcesForGroupVersion(certmanagerv1.SchemeGroupVersion.String())
	switch {
	case err == nil:
		return rendering.CertManager, nil
	case !apierrors.IsNotFound(err):
		return "", fmt.Errorf("asking the host whether it has cert-manager: %w", err)
	case d.Certificates == PKICertManager:
		return "", refuseCluster(clusterdriver.Invalid, "--simulated-clusters-pki=cert-manager: the host does not have cert-manager: install it, or have its administrator set self-signed")
	}
	return rendering.SelfSigned, nil
}

// explainPKI names cert-manager as the cause of an error about its kinds.
func explainPKI(err error, cluster rendering.Cluster) error {
	if cluster.Certificates == rendering.CertManager && apierrors.IsNotFound(err) {
		return fmt.Errorf("the certificates of the cluster are made by cert-manager, which the host does not have any more, install it again: %w", err)
	}
	return err
}

// ensureCertificates makes the certificates of a cluster, and renews them when a third of their lifetime is left. The pod rereads them.
// isRunning is that there is a StatefulSet: then a lost authority is not replaced, because no client would trust another one.
func (d *Driver) ensureCertificates(ctx context.Context, cluster rendering.Cluster, isRunning bool) error {
	now := d.Clock.Now()
	held, found, err := d.readPair(ctx, cluster, rendering.Authority)
	if err != nil {
		return err
	}
	if !found {
		if isRunning {
			return refuseCluster(clusterdriver.Invalid, "Secret %s/%s with the authority of the cluster is gone: restore it, or remove the SimulatedCluster", rendering.NamespaceOf(cluster.Name), rendering.SecretOf(rendering.Authority))
		}
		if held, err = rendering.NewAuthority(cluster.Name, now); err != nil {
			return err
		}
		if err := d.applyOwned(ctx, cluster.PairSecret(rendering.Authority, held), cluster.UID); err != nil {
			return err
		}
	}
	for _, wanted := range rendering.Certificates(cluster.Name) {
		issued, _, err := d.readPair(ctx, cluster, wanted.Name)
		if err != nil {
			return err
		}
		if !held.Needs(issued, wanted, now) {
			continue
		}
		if issued, err = held.Issue(wanted, now); err != nil {
			return err
		}
		if err := d.applyOwned(ctx, cluster.PairSecret(wanted.Name, issued), cluster.UID); err != nil {
			return err
		}
	}
	return nil
}

// readPair reads a certificate. It refuses a Secret that is another's.
func (d *Driver) readPair(ctx context.Context, cluster rendering.Cluster, name string) (pair rendering.Pair, found bool, err error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: rendering.NamespaceOf(cluster.Name), Name: rendering.SecretOf(name)}
	err = d.client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return rendering.Pair{}, false, nil
	}
	if err != nil {
		return rendering.Pair{}, false, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return rendering.PairOf(secret), true, checkOwned(secret, "Secret", cluster.UID)
}
