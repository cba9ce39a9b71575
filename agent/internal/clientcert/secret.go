package clientcert

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Secret is a Store in a Secret of the workload cluster. Several agents of one cluster may share it.
type Secret struct {
	client client.Client
	key    client.ObjectKey
	// known is the Secret as it was last loaded or saved; nil if there was none.
	known *corev1.Secret
}

// NewSecret returns a Store in the Secret key.
func NewSecret(workload client.Client, key client.ObjectKey) *Secret {
	return &Secret{client: workload, key: key}
}

func (s *Secret) String() string { return "Secret " + s.key.String() }

// Load implements Store.
func (s *Secret) Load(ctx context.Context) (Contents, error) {
	contents := Contents{}
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, s.key, secret)
	if apierrors.IsNotFound(err) {
		s.known = nil
		return contents, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting Secret %s: %w", s.key, err)
	}
	s.known = secret
	for _, name := range names {
		if content := secret.Data[name]; len(content) > 0 {
			contents[name] = content
		}
	}
	return contents, nil
}

// Save implements Store. It writes all at once, and fails when another client has written since the last Load. What
// else stands in the Secret stays.
func (s *Secret) Save(ctx context.Context, contents Contents) error {
	next := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}}
	if s.known != nil {
		next = s.known.DeepCopy()
	}
	data := map[string][]byte{}
	maps.Copy(data, next.Data)
	for _, name := range names {
		delete(data, name)
		if len(contents[name]) > 0 {
			data[name] = contents[name]
		}
	}
	var err error
	switch {
	case s.known == nil:
		next.Data = data
		err = s.client.Create(ctx, next)
	case !maps.EqualFunc(data, next.Data, bytes.Equal):
		next.Data = data
		err = s.client.Update(ctx, next)
	}
	if err != nil {
		return fmt.Errorf("storing the credential in Secret %s: %w", s.key, err)
	}
	s.known = next
	return nil
}
