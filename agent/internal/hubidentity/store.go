package hubidentity

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

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

// loadMemory reads the memory if it is not known.
func (v *Verifier) loadMemory(ctx context.Context) error {
	if v.loaded {
		return nil
	}
	memory, err := v.Store.loadMemory(ctx)
	if err != nil {
		return err
	}
	v.loaded, v.stored = true, memory
	v.mu.Lock()
	v.memory, v.storedRenewal = memory, memory.Current().Renewed
	v.mu.Unlock()
	return nil
}

// worthStoring reports whether next differs from what is stored by more than a renewal that is not much later.
func (v *Verifier) worthStoring(next Memory) bool {
	renewed, stored := next.Current().Renewed, v.stored.Current().Renewed
	if hasMoved(renewed, stored) {
		return true
	}
	return !reflect.DeepEqual(withRenewal(next, stored), v.stored)
}

// hasMoved reports whether a renewal is so far from the one that is stored that it has to be stored too.
func hasMoved(renewed, stored time.Time) bool {
	return renewed.IsZero() != stored.IsZero() || renewed.Sub(stored).Abs() >= storeEvery
}

// withRenewal is memory with another last renewal.
func withRenewal(memory Memory, renewed time.Time) Memory {
	if memory.Finding != nil {
		finding := *memory.Finding
		memory.Finding = &finding
	}
	memory.Current().Renewed = renewed
	return memory
}

func (v *Verifier) saveMemory(ctx context.Context, memory Memory) error {
	if err := v.Store.saveMemory(ctx, memory); err != nil {
		v.loaded = false // Whatever came of it, it is read again.
		return err
	}
	v.stored = memory
	v.mu.Lock()
	v.storedRenewal = memory.Current().Renewed
	v.mu.Unlock()
	return nil
}
