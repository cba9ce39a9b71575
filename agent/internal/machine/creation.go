package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// creation makes the instances of Machines, and makes them again when they are lost or have ended.
type creation struct {
	drivers drivers
	orders  *orders
	events  *recorder
	clock   clock.PassiveClock
	// repairs bounds how often the instance of a Machine is recreated.
	repairs *flowcontrol.Backoff
	// replaced has the UIDs of Machines whose instance the agent itself took away to recreate it, so that it
	// does not count as lost. It is only a memory.
	replaced sync.Map
}

func newCreation(drivers drivers, orders *orders, events *recorder, clock clock.Clock) *creation {
	return &creation{
		drivers: drivers, orders: orders, events: events, clock: clock,
		repairs: flowcontrol.NewFakeBackOff(repairBackoffStart, repairBackoffMax, clock),
	}
}

func (c *creation) forgetMachine(uid types.UID) {
	c.replaced.Delete(uid)
	c.repairs.DeleteEntry(string(uid))
	c.orders.freeze.Forget(uid)
}

// observeInstance asks the Machine's driver for its instance. Without a driver nothing can be made of the
// Machine, but what was made for it before is still there to be seen.
func (c *creation) observeInstance(ctx context.Context, s *scope) error {
	if s.driver != nil {
		return c.getInstance(ctx, s, s.driver, s.driverRequest())
	}
	for _, name := range c.drivers.providerNames() {
		if err := c.getInstance(ctx, s, c.drivers[name], driver.Request{Machine: s.Machine.DeepCopy()}); err != nil || s.Instance != nil {
			return err
		}
	}
	return nil
}

func (c *creation) getInstance(ctx context.Context, s *scope, from driver.Driver, request driver.Request) error {
	instance, err := from.Get(ctx, request)
	var notFound *driver.NotFoundError
	switch {
	case err == nil:
		s.InstanceKnown = true
		s.adoptInstance(instance)
		c.judgeRepair(s)
	case errors.As(err, &notFound):
		s.InstanceKnown = true
		s.providerIDs = append(s.providerIDs, notFound.ProviderID)
		if s.ProviderID == "" {
			s.ProviderID = notFound.ProviderID
		}
	default:
		s.InstanceKnown, s.problem = false, err.Error()
		return fmt.Errorf("getting the instance: %w", err)
	}
	return nil
}

// judgeRepair says whether a failed instance may be recreated now, and if not, when.
func (c *creation) judgeRepair(s *scope) {
	id, now := string(s.Machine.UID), c.clock.Now()
	s.MayRepair = true
	switch {
	case s.Instance.State != Failed:
	case c.repairs.IsInBackOffSinceUpdate(id, now):
		s.MayRepair = false
		s.recheckWithin(c.repairs.Get(id))
	case !s.Frozen && s.Terminal == nil && c.orders.isRateLimited(s):
		s.MayRepair, s.problem = false, limitedMessage
	}
}

func (c *creation) createInstance(ctx context.Context, s *scope) error {
	if err := c.refuseSecondProvider(ctx, s); err != nil {
		return err
	}
	instance, err := s.driver.Create(ctx, s.driverRequest())
	if err != nil {
		return err
	}
	if s.Machine.Spec.ProviderID == nil {
		c.orders.freeze.Created(s.Machine.UID)
	}
	if _, replaced := c.replaced.LoadAndDelete(s.Machine.UID); !replaced && Lost(s.Observation) {
		c.events.recordRepair(s.Machine, causeLost, "its instance was gone")
	}
	s.adoptInstance(instance)
	return nil
}

// refuseSecondProvider keeps a Machine whose provider was changed from having two instances.
func (c *creation) refuseSecondProvider(ctx context.Context, s *scope) error {
	for _, name := range c.drivers.providerNames() {
		if name == s.Provider {
			continue
		}
		_, err := c.drivers[name].Get(ctx, driver.Request{Machine: s.Machine.DeepCopy()})
		if err == nil {
			return driver.Invalid("spec.providerConfig", "provider %q has already created this machine, so provider %q cannot: delete the machine and create another", name, s.Provider)
		}
		if !errors.Is(err, driver.ErrNotFound) {
			return fmt.Errorf("asking provider %q for the machine: %w", name, err)
		}
	}
	return nil
}

// removeEnded takes an instance away that has ended; when it is gone, the next one is created.
func (c *creation) removeEnded(ctx context.Context, s *scope) error {
	klog.FromContext(ctx).Info("Replacing the instance that has ended", "message", s.Instance.Message)
	if err := s.driver.Delete(ctx, s.Machine.DeepCopy()); err != nil {
		return err
	}
	c.replaced.Store(s.Machine.UID, true)
	c.repairs.Next(string(s.Machine.UID), c.clock.Now())
	c.events.recordRepair(s.Machine, causeEnded, s.Instance.Message)
	return nil
}

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
		if provider == v1alpha1.ProviderKwok {
			remedy += "; or enable it in the cluster by the agent's option --kwok-program, or kwok.enabled of its chart"
		}
		s.Terminal = &Terminal{Reason: v1alpha1.ErrorUnknownProvider, Message: fmt.Sprintf(
			"%s: the agent of cluster %q has no provider %q: it has %s: %s", field, c.hub.ClusterName, provider, strings.Join(c.drivers.providerNames(), ", "), remedy)}
		return nil
	}
	s.driver, s.Provider = known, provider
	return nil
}

// noteUnresolved notes why the Machine's class could not be read. Without the class neither the driver nor the timeouts are known,
// so everything stays as it is. A class that cannot be decoded is not an error: its repair comes with an event.
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
