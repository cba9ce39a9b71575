package pods

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

// storeCredential leaves a credential where the cluster's agent keeps its own, which it renews there itself: so one that lasts longer
// stays.
func (d *Driver) storeCredential(ctx context.Context, cluster rendering.Cluster, given *clusterdriver.Credential) error {
	if given == nil {
		return nil
	}
	leaf, err := localclusters.ParseCredential(cluster.Name, given.Certificate, given.Key)
	if err != nil {
		return refuseCluster(clusterdriver.Invalid, "certificate: %v", err)
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: rendering.NamespaceOf(cluster.Name), Name: rendering.CredentialSecret}
	err = d.client.Get(ctx, key, secret)
	isNew := apierrors.IsNotFound(err)
	if err != nil && !isNew {
		return fmt.Errorf("reading Secret %s: %w", key, err)
	}
	if isNew {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{rendering.UIDLabel: cluster.UID}, Annotations: map[string]string{rendering.NameAnnotation: cluster.Name},
		}}
	} else if err := checkOwned(secret, "Secret", cluster.UID); err != nil {
		return err
	}
	if !leaf.NotAfter.After(credentialExpiry(cluster.Name, secret)) {
		return nil
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = given.Certificate, given.Key
	if isNew {
		err = d.client.Create(ctx, secret, client.FieldOwner(fieldManager))
	} else {
		// It has the resourceVersion that was read: the agent may have written in between.
		err = d.client.Update(ctx, secret, client.FieldOwner(fieldManager))
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s: %w", key, err)
	}
	return nil
}

// credentialExpiry is when the credential in a Secret expires; zero if there is none that is of any use.
func credentialExpiry(cluster string, secret *corev1.Secret) time.Time {
	for _, key := range []string{corev1.TLSPrivateKeyKey, "pending.key"} {
		if leaf, err := localclusters.ParseCredential(cluster, secret.Data[corev1.TLSCertKey], secret.Data[key]); err == nil {
			return leaf.NotAfter
		}
	}
	return time.Time{}
}
