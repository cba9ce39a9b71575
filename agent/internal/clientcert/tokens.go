package clientcert

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// requestToken gets a token of the agent's ServiceAccount.
func (k *Manager) requestToken(ctx context.Context, hub client.Client) (*Credential, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: k.Cluster, Name: v1alpha1.AgentServiceAccount}}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(k.Lifetime / time.Second))},
	}
	if err := hub.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("requesting a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	taken, err := fromToken(k.Cluster, request.Status.Token)
	if err != nil {
		return nil, err
	}
	return &taken, nil
}
