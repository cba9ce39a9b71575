package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// classes tell what a Machine is to be: its driver, configuration and limits, or why it cannot be.
type classes struct {
	hub     Hub
	drivers drivers
	// serverVersion is that of the target's API server, empty while it is not known.
	serverVersion func() string
}

// validateMachine checks what the hub's API server cannot, before anything is made.
func (c *classes) validateMachine(machine *v1alpha1.Machine) *Terminal {
	if machine.Spec.ClusterName != c.hub.ClusterName {
		return &Terminal{
			Reason: v1alpha1.ErrorInvalidConfiguration, Node: true,
			Message: fmt.Sprintf("spec.clusterName: want %q, the cluster of this namespace, got %q: create the machine in the other namespace", c.hub.ClusterName, machine.Spec.ClusterName),
		}
	}
	if err := node.Validate(machine); err != nil {
		return &Terminal{Reason: v1alpha1.ErrorInvalidConfiguration, Message: err.Error(), Node: true}
	}
	return nil
}

// checkVersion refuses a kubelet that the target's API server does not support, when the Machine is about to get it.
func (c *classes) checkVersion(s *scope) {
	if s.Terminal == nil && BringsKubelet(s.Observation) {
		s.Terminal = Skewed(s.Machine, c.serverVersion())
	}
}

// resolveClass finds driver and class, or the terminal error that keeps it from doing so.
func (c *classes) resolveClass(ctx context.Context, s *scope) error {
	config := s.Machine.Spec.ProviderConfig
	provider := config.Provider
	if provider == "" {
		provider = v1alpha1.ProviderHollow
	}
	s.class = &driver.Class{Path: "spec.providerConfig.value", Config: config.Value}
	field, remedy := "spec.providerConfig.provider", "name one of these"
	if config.ValueRef != nil {
		class, err := c.findClass(ctx, s.Machine.Namespace, config.ValueRef.Name)
		if err != nil {
			return noteUnresolved(s, err)
		}
		if class == nil {
			s.class = nil
			s.Terminal = &Terminal{Reason: v1alpha1.ErrorMachineClassNotFound, Message: fmt.Sprintf(
				"spec.providerConfig.valueRef.name: no MachineClass %q in namespace %q: create it, or use another class", config.ValueRef.Name, s.Machine.Namespace)}
			return nil
		}
		field, provider = fmt.Sprintf("spec.provider of MachineClass %q", class.Name), class.Spec.Provider
		remedy = "create another MachineClass with one of these, because the provider of a class cannot be changed"
		s.Limits = LimitsOf(s.Machine, class)
		s.class = &driver.Class{Path: "spec.providerConfig", Config: class.Spec.ProviderConfig, NodeTemplate: class.Spec.NodeTemplate}
		if class.Spec.SecretRef != nil {
			s.class.SecretName = class.Spec.SecretRef.Name
		}
	}
	known, ok := c.drivers[provider]
	if !ok {
		s.class = nil
		s.Terminal = &Terminal{Reason: v1alpha1.ErrorUnknownProvider, Message: fmt.Sprintf(
			"%s: the agent of cluster %q has no provider %q: it has %s: %s", field, c.hub.ClusterName, provider, strings.Join(c.drivers.providerNames(), ", "), remedy)}
		return nil
	}
	s.driver, s.provider = known, provider
	return nil
}

// noteUnresolved notes why the Machine's class could not be read. Without the class neither the driver nor the timeouts are known,
// so everything stays as it is. A class that cannot be decoded is no error: its repair comes with an event.
func noteUnresolved(s *scope, err error) error {
	s.class = nil
	s.Unresolved = &Unresolved{Reason: v1alpha1.ReasonUnknown, Message: err.Error()}
	var left *undecodable.Error
	if !errors.As(err, &left) {
		return err
	}
	s.Unresolved = &Unresolved{Reason: v1alpha1.ReasonUndecodable, Message: left.Error()}
	return nil
}

// findClass returns a MachineClass, nil if there is none. That there is none is asked of the API server: the cache
// may not have seen yet what was created just before the Machine.
func (c *classes) findClass(ctx context.Context, namespace, name string) (*v1alpha1.MachineClass, error) {
	class := &v1alpha1.MachineClass{}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	err := c.hub.Client.Get(ctx, key, class)
	if apierrors.IsNotFound(err) {
		err = c.hub.Reader.Get(ctx, key, class)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting MachineClass %s: %w", key, err)
	}
	return class, nil
}

// limitsOf finds out how a Machine that is being deleted wants to be drained. Without its class the defaults hold.
func (c *classes) limitsOf(ctx context.Context, machine *v1alpha1.Machine) (Limits, error) {
	reference := machine.Spec.ProviderConfig.ValueRef
	if reference == nil {
		return LimitsOf(machine, nil), nil
	}
	class, err := c.findClass(ctx, machine.Namespace, reference.Name)
	return LimitsOf(machine, class), err
}
