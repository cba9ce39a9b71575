// Package fake is a Driver that keeps its instances in memory. Tests script how they fare.
package fake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Driver is a driver.Driver in memory. The zero value is not usable: see New.
type Driver struct {
	// Changed is called with a Machine's name after each change of its instance. Optional; set it before the
	// first call.
	Changed func(machine string)

	cluster string

	mu        sync.Mutex
	instances map[string]instance
	failures  map[string][]error
	calls     []string
	// lingering instances stay Deleting until Finish.
	lingering bool
	// rigid instances are never updated in place.
	rigid bool
	// configurable: KubeletConfigurations are taken.
	configurable bool
}

type instance struct {
	driver.Instance
	config string
}

// New returns a Driver for a cluster of that name.
func New(cluster string) *Driver {
	return &Driver{cluster: cluster, instances: map[string]instance{}, failures: map[string][]error{}}
}

// Factory returns a Factory that gives out d.
func (d *Driver) Factory() driver.Factory {
	return func(_ context.Context, environment driver.Environment) (driver.Driver, error) {
		d.Changed = environment.Changed
		return d, nil
	}
}

// Fail lets the next call of a method ("Create", "CheckUpdate", "Update", "Get", "Delete", "List") return err. Several
// wait in line.
func (d *Driver) Fail(method string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures[method] = append(d.failures[method], err)
}

// Linger lets deleted instances stay Deleting until Finish is called for them.
func (d *Driver) Linger() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lingering = true
}

// RefuseInPlace lets the driver be one that cannot update in place.
func (d *Driver) RefuseInPlace() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rigid = true
}

// AcceptKubeletConfigurations lets the driver be one that takes them. One with the text "invalid" is refused.
func (d *Driver) AcceptKubeletConfigurations() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.configurable = true
}

// TakesKubeletConfiguration implements driver.Configurable.
func (d *Driver) TakesKubeletConfiguration() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.configurable
}

// Finish removes the instance of a Machine at once, as if it were lost or its deletion had come to its end.
func (d *Driver) Finish(machine string) {
	d.mu.Lock()
	delete(d.instances, machine)
	d.mu.Unlock()
	d.signalChange(machine)
}

// Set puts the instance of a Machine into a state. There must be one.
func (d *Driver) Set(machine string, state driver.State, message string) error {
	d.mu.Lock()
	found, ok := d.instances[machine]
	if ok {
		found.State, found.Message = state, message
		d.instances[machine] = found
	}
	d.mu.Unlock()
	if !ok {
		return d.notFound(machine)
	}
	d.signalChange(machine)
	return nil
}

// Add puts an instance there that no Machine asked for.
func (d *Driver) Add(machine string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.instances[machine] = instance{Instance: d.runningInstance(machine)}
}

// Calls returns the changing calls so far, as "Create m1".
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// ProviderID returns the ID that an instance of the Machine has.
func (d *Driver) ProviderID(machine string) string { return "fake://" + d.cluster + "/" + machine }

// Create implements driver.Driver. The configuration {"invalid": …} is refused.
func (d *Driver) Create(ctx context.Context, request driver.Request) (driver.Instance, error) {
	name := request.Machine.Name
	if err := d.beginCall(ctx, "Create", name); err != nil {
		return driver.Instance{}, err
	}
	config := configOf(request)
	if err := validateConfig(config); err != nil {
		return driver.Instance{}, err
	}
	d.mu.Lock()
	found, ok := d.instances[name]
	if !ok {
		found = instance{Instance: d.runningInstance(name), config: config}
		found.KubeletConfiguration = contentHashOf(request)
		d.instances[name] = found
	}
	d.mu.Unlock()
	if !ok {
		d.signalChange(name)
	}
	return judgeInstance(found, request), nil
}

// CheckUpdate implements driver.Driver.
func (d *Driver) CheckUpdate(ctx context.Context, request driver.Request) error {
	if err := d.beginCall(ctx, "CheckUpdate", ""); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.checkUpdatable(request)
}

// checkUpdatable returns why the instance of request cannot be updated.
func (d *Driver) checkUpdatable(request driver.Request) error {
	if d.rigid {
		return &driver.InPlaceUnsupportedError{Problem: "instances of this provider are never changed"}
	}
	return validateConfig(configOf(request))
}

// Update implements driver.Driver: it changes the instance in place.
func (d *Driver) Update(ctx context.Context, request driver.Request) (driver.Instance, error) {
	name := request.Machine.Name
	if err := d.beginCall(ctx, "Update", name); err != nil {
		return driver.Instance{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.instances[name]
	if !ok {
		return driver.Instance{}, d.notFound(name)
	}
	if err := d.checkUpdatable(request); err != nil {
		return driver.Instance{}, err
	}
	found.config, found.KubeletConfiguration = configOf(request), contentHashOf(request)
	d.instances[name] = found
	return judgeInstance(found, request), nil
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, request driver.Request) (driver.Instance, error) {
	name := request.Machine.Name
	if err := d.beginCall(ctx, "Get", ""); err != nil {
		return driver.Instance{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.instances[name]
	if !ok {
		return driver.Instance{}, d.notFound(name)
	}
	return judgeInstance(found, request), nil
}

// Delete implements driver.Driver.
func (d *Driver) Delete(ctx context.Context, machine *v1alpha1.Machine) error {
	if err := d.beginCall(ctx, "Delete", machine.Name); err != nil {
		return err
	}
	d.mu.Lock()
	found, ok := d.instances[machine.Name]
	if ok && d.lingering {
		found.State = driver.Deleting
		d.instances[machine.Name] = found
	} else {
		delete(d.instances, machine.Name)
	}
	d.mu.Unlock()
	if ok {
		d.signalChange(machine.Name)
	}
	return nil
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context) ([]driver.Instance, error) {
	if err := d.beginCall(ctx, "List", ""); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []driver.Instance
	for _, found := range d.instances {
		all = append(all, found.Instance)
	}
	slices.SortFunc(all, func(a, b driver.Instance) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// beginCall records a changing call and returns the failure that is next in line for method.
func (d *Driver) beginCall(ctx context.Context, method, machine string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("calling the fake driver: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if machine != "" {
		d.calls = append(d.calls, method+" "+machine)
	}
	waiting := d.failures[method]
	if len(waiting) == 0 {
		return nil
	}
	d.failures[method] = waiting[1:]
	return waiting[0]
}

func (d *Driver) runningInstance(machine string) driver.Instance {
	return driver.Instance{Name: machine, ProviderID: d.ProviderID(machine), State: driver.Running, UpToDate: true}
}

func (d *Driver) notFound(machine string) error {
	return &driver.NotFoundError{Machine: machine, ProviderID: d.ProviderID(machine)}
}

func (d *Driver) signalChange(machine string) {
	if d.Changed != nil {
		d.Changed(machine)
	}
}

func configOf(request driver.Request) string {
	if request.Class == nil {
		return ""
	}
	config := contentOf(request)
	if request.Class.Config != nil {
		config += string(request.Class.Config.Raw)
	}
	return config
}

func contentOf(request driver.Request) string {
	if source := request.Machine.Spec.ConfigSource; source != nil && source.Resolved != nil {
		return source.Resolved.Content
	}
	return ""
}

func contentHashOf(request driver.Request) string {
	if content := contentOf(request); content != "" {
		return v1alpha1.ContentHash(content)
	}
	return ""
}

func validateConfig(config string) error {
	if strings.Contains(config, `"invalid"`) {
		return driver.Invalid("providerConfig.invalid", "unknown field: remove it")
	}
	return nil
}

func judgeInstance(found instance, request driver.Request) driver.Instance {
	found.UpToDate = request.Class == nil || found.config == configOf(request)
	return found.Instance
}
