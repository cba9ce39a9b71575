package joining

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// DefaultTokenTTL is how long a join token is good for.
const DefaultTokenTTL = time.Hour

// tokenSecretPrefix, followed by a token's ID, is the name that the API server looks a bootstrap token up by.
const tokenSecretPrefix = "bootstrap-token-"

// Token is a join token: a bootstrap token of the hub that is bound to one cluster.
type Token struct {
	ID, Secret string
	Expires    time.Time
}

// NewToken returns a random token that is good until expires.
func NewToken(expires time.Time) Token {
	// 22 of 26 letters and digits at 5 bits each: 80 bits are secret.
	text := strings.ToLower(rand.Text())
	return Token{ID: text[:6], Secret: text[6:22], Expires: expires.UTC().Truncate(time.Second)}
}

// SecretKey is the Secret that makes the hub's API server know the token of that ID.
func SecretKey(tokenID string) client.ObjectKey {
	return client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: tokenSecretPrefix + tokenID}
}

// String is the token as it is sent to the API server.
func (t Token) String() string { return t.ID + "." + t.Secret }

// Object is the Secret that makes the hub's API server know the token.
func (t Token) Object(cluster string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: tokenSecretPrefix + t.ID,
			Labels: map[string]string{v1alpha1.ClusterNameLabel: cluster},
		},
		Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"description":                    "Lets the agent of cluster " + cluster + " join the fleet",
			"token-id":                       t.ID,
			"token-secret":                   t.Secret,
			"expiration":                     t.Expires.Format(time.RFC3339),
			"usage-bootstrap-authentication": "true",
			"auth-extra-groups":              v1alpha1.JoinGroupPrefix + cluster,
		},
	}
}

// DeleteTokens deletes the join tokens of a cluster and returns how many there were.
func DeleteTokens(ctx context.Context, c client.Client, cluster string) (int, error) {
	return deleteTokens(ctx, c, cluster, func(*corev1.Secret) bool { return true })
}

// deleteExpired deletes the tokens of a cluster that are good for nothing any more: not every hub runs
// Kubernetes' token cleaner.
func deleteExpired(ctx context.Context, c client.Client, cluster string, now time.Time) error {
	_, err := deleteTokens(ctx, c, cluster, func(secret *corev1.Secret) bool {
		expires, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
		return err == nil && expires.Before(now)
	})
	return err
}

func deleteTokens(ctx context.Context, c client.Client, cluster string, chosen func(*corev1.Secret) bool) (int, error) {
	secrets := &corev1.SecretList{}
	labels := client.MatchingLabels{v1alpha1.ClusterNameLabel: cluster}
	if err := c.List(ctx, secrets, client.InNamespace(metav1.NamespaceSystem), labels); err != nil {
		return 0, fmt.Errorf("listing the join tokens of cluster %s: %w", cluster, err)
	}
	deleted := 0
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if secret.Type != corev1.SecretTypeBootstrapToken || !chosen(secret) {
			continue
		}
		if err := c.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return deleted, fmt.Errorf("deleting join token %s: %w", secret.Name, err)
		}
		deleted++
	}
	return deleted, nil
}

// reserved are names and prefixes of namespaces that a hub may have anyway, which may be a workload cluster too, with an
// agent. The CRD refuses them as well.
var (
	reservedNames    = []string{"default", "hollowfleet", "hollowfleet-system", "cert-manager"}
	reservedPrefixes = []string{"kube-", "openshift-", "open-cluster-management"}
)

// CheckName says what is wrong with a name for a cluster.
func CheckName(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("cluster name %q: %s", name, problems[0])
	}
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	if slices.Contains(reservedNames, name) || slices.ContainsFunc(reservedPrefixes, hasPrefix) {
		return fmt.Errorf("cluster name %q: reserved for a namespace of the hub itself or of an agent; choose another name", name)
	}
	return nil
}
