package freeze

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Checker says whether something may be changed now.
type Checker interface {
	// Check returns nil, or *Error while frozen.
	Check() error
}

// Gate wraps everything through which the agent changes the world. The wrapped thing is not to be used beside.
type Gate struct {
	checker Checker
	metrics *Metrics
}

// NewGate returns a Gate that checker opens and closes.
func NewGate(checker Checker, metrics *Metrics) *Gate {
	return &Gate{checker: checker, metrics: metrics}
}

// pass returns nil when method may go on.
func (g *Gate) pass(ctx context.Context, method string) error {
	err := g.checker.Check()
	if err == nil {
		err = outdated(ctx)
	}
	if err != nil {
		g.metrics.refused.WithLabelValues(method).Inc()
	}
	return err
}

// Client lets reads through and refuses every change while frozen.
func (g *Gate) Client(inner client.Client) client.Client {
	return &gatedClient{Client: inner, gate: g, status: &gatedSubResource{SubResourceClient: inner.SubResource("status"), gate: g}}
}

// HubClient is Client, except that status may be written while frozen: reporting goes on.
func (g *Gate) HubClient(inner client.Client) client.Client {
	return &gatedClient{Client: inner, gate: g, status: inner.Status()}
}

// gatedClient spells every method of client.Writer out: a new one that it lacked would fail the package's test.
type gatedClient struct {
	client.Client
	gate   *Gate
	status client.SubResourceWriter
}

func (c *gatedClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := c.gate.pass(ctx, "Create"); err != nil {
		return err
	}
	return c.Client.Create(ctx, object, options...)
}

func (c *gatedClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if err := c.gate.pass(ctx, "Update"); err != nil {
		return err
	}
	return c.Client.Update(ctx, object, options...)
}

func (c *gatedClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := c.gate.pass(ctx, "Patch"); err != nil {
		return err
	}
	return c.Client.Patch(ctx, object, patch, options...)
}

func (c *gatedClient) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if err := c.gate.pass(ctx, "Apply"); err != nil {
		return err
	}
	return c.Client.Apply(ctx, object, options...)
}

func (c *gatedClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := c.gate.pass(ctx, "Delete"); err != nil {
		return err
	}
	return c.Client.Delete(ctx, object, options...)
}

func (c *gatedClient) DeleteAllOf(ctx context.Context, object client.Object, options ...client.DeleteAllOfOption) error {
	if err := c.gate.pass(ctx, "DeleteAllOf"); err != nil {
		return err
	}
	return c.Client.DeleteAllOf(ctx, object, options...)
}

func (c *gatedClient) Status() client.SubResourceWriter { return c.status }

// SubResource gates every subresource, so also eviction, token and approval, and status asked for by name.
func (c *gatedClient) SubResource(name string) client.SubResourceClient {
	return &gatedSubResource{SubResourceClient: c.Client.SubResource(name), gate: c.gate}
}

type gatedSubResource struct {
	client.SubResourceClient
	gate *Gate
}

func (s *gatedSubResource) Create(ctx context.Context, object, body client.Object, options ...client.SubResourceCreateOption) error {
	if err := s.gate.pass(ctx, "SubResourceCreate"); err != nil {
		return err
	}
	return s.SubResourceClient.Create(ctx, object, body, options...)
}

func (s *gatedSubResource) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	if err := s.gate.pass(ctx, "SubResourceUpdate"); err != nil {
		return err
	}
	return s.SubResourceClient.Update(ctx, object, options...)
}

func (s *gatedSubResource) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if err := s.gate.pass(ctx, "SubResourcePatch"); err != nil {
		return err
	}
	return s.SubResourceClient.Patch(ctx, object, patch, options...)
}

func (s *gatedSubResource) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	if err := s.gate.pass(ctx, "SubResourceApply"); err != nil {
		return err
	}
	return s.SubResourceClient.Apply(ctx, object, options...)
}

// Driver lets Get and List through and refuses every change while frozen.
func (g *Gate) Driver(inner driver.Driver) driver.Driver { return &gatedDriver{inner: inner, gate: g} }

type gatedDriver struct {
	inner driver.Driver
	gate  *Gate
}

func (d *gatedDriver) Create(ctx context.Context, request driver.Request) (driver.Instance, error) {
	if err := d.gate.pass(ctx, "DriverCreate"); err != nil {
		return driver.Instance{}, err
	}
	return d.inner.Create(ctx, request)
}

func (d *gatedDriver) Update(ctx context.Context, request driver.Request) (driver.Instance, error) {
	if err := d.gate.pass(ctx, "DriverUpdate"); err != nil {
		return driver.Instance{}, err
	}
	return d.inner.Update(ctx, request)
}

func (d *gatedDriver) CheckUpdate(ctx context.Context, request driver.Request) error {
	return d.inner.CheckUpdate(ctx, request)
}

func (d *gatedDriver) Get(ctx context.Context, request driver.Request) (driver.Instance, error) {
	return d.inner.Get(ctx, request)
}

func (d *gatedDriver) Delete(ctx context.Context, machine *v1alpha1.Machine) error {
	if err := d.gate.pass(ctx, "DriverDelete"); err != nil {
		return err
	}
	return d.inner.Delete(ctx, machine)
}

func (d *gatedDriver) List(ctx context.Context) ([]driver.Instance, error) { return d.inner.List(ctx) }
