package hubidentity

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// namePrefix, followed by the cluster's name, is the name of the ConfigMap.
	namePrefix = "hollowfleet-hub-"
	memoryKey  = "memory.json"
)

// Store keeps a memory in the workload cluster. Its client is not gated: this bookkeeping continues while the agent is
// frozen.
type Store struct {
	client client.Client
	object *corev1.ConfigMap
}

// StoreKey is the ConfigMap of a cluster's Store in namespace.
func StoreKey(namespace, cluster string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: namePrefix + cluster}
}

// NewStore returns the Store of a cluster in namespace.
func NewStore(direct client.Client, namespace, cluster string) *Store {
	key := StoreKey(namespace, cluster)
	return &Store{client: direct, object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{v1alpha1.ClusterNameLabel: cluster},
	}}}
}

// loadMemory reads the memory; without one it is empty.
func (s *Store) loadMemory(ctx context.Context) (Memory, error) {
	var memory Memory
	key, found := client.ObjectKeyFromObject(s.object), &corev1.ConfigMap{}
	err := s.client.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		s.object.ResourceVersion = ""
		return memory, nil
	}
	if err != nil {
		return memory, fmt.Errorf("reading what is known of the hub: %w", err)
	}
	if err := json.Unmarshal([]byte(found.Data[memoryKey]), &memory); err != nil {
		return memory, fmt.Errorf("reading %s of ConfigMap %s, which you can delete if this hub is the right one: %w", memoryKey, key, err)
	}
	s.object = found
	return memory, nil
}

// saveMemory writes the memory. Another writer's memory is not overwritten: after an error it has to be loaded again.
func (s *Store) saveMemory(ctx context.Context, memory Memory) error {
	content, err := json.Marshal(memory)
	if err != nil {
		return fmt.Errorf("encoding what is known of the hub: %w", err)
	}
	next := s.object.DeepCopy()
	next.Data = map[string]string{memoryKey: string(content)}
	if next.ResourceVersion == "" {
		err = s.client.Create(ctx, next)
	} else {
		err = s.client.Update(ctx, next)
	}
	if err != nil {
		return fmt.Errorf("storing what is known of the hub: %w", err)
	}
	s.object = next
	return nil
}
