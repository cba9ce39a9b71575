// Package fake is a clusterdriver.Driver that keeps its clusters in memory. Tests script how they fare.
package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
)

// Driver is a clusterdriver.Driver in memory. The zero value is not usable: see New.
type Driver struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	clusters map[string]clusterdriver.Observed
	desired  map[string]clusterdriver.Desired
	versions []string
	calls    []string
	failures map[string][]error
	// silent is why no call is answered; nil if it is. lingering clusters stay Removing until Finish, idle ones Starting until Set.
	silent          error
	lingering, idle bool
	// memory is the most that a control plane may ask for; nil if that is not bounded.
	memory *resource.Quantity
}

// New returns a Driver that runs control planes of these versions, the first by default.
func New(by clock.PassiveClock, versions ...string) *Driver {
	return &Driver{
		clock: by, versions: versions, clusters: map[string]clusterdriver.Observed{}, desired: map[string]clusterdriver.Desired{}, failures: map[string][]error{},
	}
}

// Silence lets every call fail with err, until it is nil.
func (d *Driver) Silence(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent = err
}

// Fail lets the next call of a method for a cluster ("Ensure c1", "Remove c1") return err. Several wait in line.
func (d *Driver) Fail(call string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures[call] = append(d.failures[call], err)
}

// BoundMemory lets control planes that ask for more be refused.
func (d *Driver) BoundMemory(most resource.Quantity) *Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory = &most
	return d
}

// Linger lets removed clusters stay Removing until Finish is called for them, and new ones Starting until Set is.
func (d *Driver) Linger() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lingering, d.idle = true, true
}

// Set puts a cluster there as it is, or changes it.
func (d *Driver) Set(observed clusterdriver.Observed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clusters[observed.Name] = observed
}

// Finish removes a cluster at once, as if it were lost or its removal had come to its end.
func (d *Driver) Finish(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.clusters, name)
}

// Calls returns the changing calls so far, as "Ensure c1".
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// Desired returns what was asked for a cluster last, with the credential that was given last.
func (d *Driver) Desired(name string) clusterdriver.Desired {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.desired[name]
}

// Ensure implements clusterdriver.Driver.
func (d *Driver) Ensure(ctx context.Context, desired clusterdriver.Desired) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.beginCall(ctx, "Ensure "+desired.Name); err != nil {
		return err
	}
	found, exists := d.clusters[desired.Name]
	version := desired.ControlPlaneVersion
	if version == "" {
		version = d.versions[0]
	}
	if err := d.refuseDesired(found, exists, desired, version); err != nil {
		return err
	}
	if !exists {
		found = clusterdriver.Observed{Name: desired.Name, UID: desired.UID, Phase: clusterdriver.Starting}
	}
	if desired.Credential != nil {
		certificates, err := cert.ParseCertsPEM(desired.Credential.Certificate)
		if err != nil {
			return &clusterdriver.RefusedError{Refusal: clusterdriver.Invalid, Problem: "certificate: " + err.Error()}
		}
		found.CredentialExpires = certificates[0].NotAfter
	} else {
		desired.Credential = d.desired[desired.Name].Credential
	}
	if !d.idle {
		found.Phase, found.Version, found.ControllerManager, found.Scheduler = clusterdriver.Running, version, version, version
	}
	d.clusters[desired.Name], d.desired[desired.Name] = found, desired
	return nil
}

// refuseDesired refuses what a driver refuses before it changes anything; found is what there is of the cluster.
func (d *Driver) refuseDesired(found clusterdriver.Observed, exists bool, desired clusterdriver.Desired, version string) error {
	switch {
	case exists && found.UID != desired.UID:
		return &clusterdriver.RefusedError{Refusal: clusterdriver.NameTaken, Problem: "name: a cluster of this name exists and has another UID"}
	case exists && found.Phase == clusterdriver.Removing:
		return &clusterdriver.RefusedError{Refusal: clusterdriver.BeingRemoved, Problem: "it is being removed"}
	case !slices.Contains(d.versions, version):
		return &clusterdriver.RefusedError{
			Refusal: clusterdriver.VersionNotSupported, Problem: "choose one of " + strings.Join(d.versions, ", "), Versions: slices.Clone(d.versions),
		}
	case exists && isEarlier(version, found.Version, 0):
		return &clusterdriver.RefusedError{Refusal: clusterdriver.Downgrade, Problem: "a control plane cannot go back from " + found.Version + " to " + version}
	case exists && isEarlier(found.Version, version, 1):
		return &clusterdriver.RefusedError{Refusal: clusterdriver.Changing, Problem: "an upgrade skips no minor: from " + found.Version + " ask for the next one first"}
	case d.memory != nil && desired.Resources.Requests.Memory().Cmp(*d.memory) > 0:
		return &clusterdriver.RefusedError{Refusal: clusterdriver.NoRoom, Problem: "spec.resources.requests.memory: want at most " + d.memory.String()}
	case !exists && desired.Credential == nil:
		return &clusterdriver.RefusedError{Refusal: clusterdriver.Invalid, Problem: "certificate: a new cluster needs one"}
	}
	return nil
}

// isEarlier reports whether a version is more than some minors before another. One that is not known is not.
func isEarlier(a, b string, minors uint) bool {
	first, errFirst := version.ParseGeneric(a)
	second, errSecond := version.ParseGeneric(b)
	return errFirst == nil && errSecond == nil && first.Minor()+minors < second.Minor()
}

// Remove implements clusterdriver.Driver.
func (d *Driver) Remove(ctx context.Context, name, uid string) (gone bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.beginCall(ctx, "Remove "+name); err != nil {
		return false, err
	}
	found, exists := d.clusters[name]
	switch {
	case !exists || found.UID != uid:
		return true, nil
	case d.lingering:
		found.Phase = clusterdriver.Removing
		d.clusters[name] = found
		return false, nil
	}
	delete(d.clusters, name)
	return true, nil
}

// List implements clusterdriver.Driver. What runs has just been checked.
func (d *Driver) List(ctx context.Context) (clusterdriver.Inventory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.beginCall(ctx, ""); err != nil {
		return clusterdriver.Inventory{}, err
	}
	inventory := clusterdriver.Inventory{Versions: slices.Clone(d.versions)}
	for _, name := range slices.Sorted(maps.Keys(d.clusters)) {
		one := d.clusters[name]
		if one.Phase == clusterdriver.Running && one.Checked.IsZero() {
			one.Checked = d.clock.Now().Add(-time.Second)
		}
		inventory.Clusters = append(inventory.Clusters, one)
	}
	return inventory, nil
}

// beginCall records a changing call and returns the failure that is next in line for it.
func (d *Driver) beginCall(ctx context.Context, call string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("calling the fake driver: %w", err)
	}
	if d.silent != nil {
		return d.silent
	}
	if call != "" {
		d.calls = append(d.calls, call)
	}
	waiting := d.failures[call]
	if len(waiting) == 0 {
		return nil
	}
	d.failures[call] = waiting[1:]
	return waiting[0]
}
