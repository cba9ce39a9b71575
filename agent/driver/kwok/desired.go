package kwok

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/hollow"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	defaultOSImage = "Hollow Linux"
	// defaultRuntime is the container runtime that a Node reports whose Machine names none.
	defaultRuntime = "kwok"
)

// desired is what a Machine's Node has to be.
type desired struct {
	// capacity has the pods too.
	capacity corev1.ResourceList
	// kubeletVersion is empty if the Machine names none.
	kubeletVersion, runtimeVersion, osImage string
	startupDelay                            time.Duration
	// hollowTaint is what the class says of the default taint; empty if it says nothing.
	hollowTaint v1alpha1.HollowTaint
	// hash changes with everything that a Node which exists has to be changed for.
	hash string
}

// resolveDesired computes desired, or says with *driver.InvalidConfigurationError why it cannot.
func (d *Driver) resolveDesired(request driver.Request) (desired, error) {
	machine, class := request.Machine, request.Class
	if machine.Spec.Versions.ControlPlane != "" {
		return desired{}, driver.Invalid("spec.versions.controlPlane", "provider kwok does not support control planes: remove the field")
	}
	if machine.Spec.RequireVersionCode {
		return desired{}, driver.Invalid("spec.requireVersionCode", "no kubelet code runs on a Node of provider kwok: remove the field, or use a MachineClass of provider hollow")
	}
	if class.SecretName != "" {
		return desired{}, driver.Invalid("spec.secretRef", "provider kwok does not use credentials: remove the field from the MachineClass")
	}
	fields, err := hollow.DecodeNodeFields(class.Config, class.Path, v1alpha1.KwokNodeConfigKind)
	if err != nil {
		return desired{}, err
	}
	capacity, maxPods, err := fields.ResolveCapacity(class)
	if err != nil {
		return desired{}, err
	}
	capacity[corev1.ResourcePods] = *resource.NewQuantity(int64(maxPods), resource.DecimalSI)
	want := desired{
		capacity: capacity, osImage: cmp.Or(fields.OSImage, defaultOSImage), runtimeVersion: defaultRuntime, hollowTaint: fields.HollowTaint,
	}
	if fields.StartupDelay != nil {
		want.startupDelay = fields.StartupDelay.Duration
		if err := hollow.CheckStartupDelay(want.startupDelay, request); err != nil {
			return desired{}, err
		}
	}
	if err := want.setVersions(machine.Spec.Versions); err != nil {
		return desired{}, err
	}
	want.hash, err = want.computeHash()
	return want, err
}

// setVersions takes over what the Node is to report: a version is only a name here.
func (d *desired) setVersions(versions v1alpha1.MachineVersions) error {
	if versions.Kubelet != "" {
		d.kubeletVersion = "v" + strings.TrimPrefix(versions.Kubelet, "v")
		if err := hollownode.CheckKubeletVersion(d.kubeletVersion); err != nil {
			return driver.Invalid("spec.versions.kubelet", "not a semantic version: write it as v1.36.2, got %q (%s)", versions.Kubelet, err)
		}
	}
	if engine := versions.ContainerRuntime; engine != nil {
		if err := hollownode.CheckContainerRuntimeVersion(engine.Version); err != nil {
			return driver.Invalid("spec.versions.containerRuntime.version", "not a version: write it as 2.1.4, got %q (%s)", engine.Version, err)
		}
		d.runtimeVersion = cmp.Or(engine.Name, defaultRuntime) + "://" + engine.Version
	}
	return nil
}

func (d *desired) computeHash() (string, error) {
	data, err := json.Marshal([]any{d.capacity, d.kubeletVersion, d.runtimeVersion, d.osImage})
	if err != nil {
		return "", fmt.Errorf("encoding a configuration to hash it: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), nil
}

// taintMode is what holds for a Machine's Node: what its class says, else what the agent is set to.
func (d *Driver) taintMode(want desired) v1alpha1.HollowTaint {
	return cmp.Or(want.hollowTaint, d.options.HollowTaint, v1alpha1.HollowTaintAuto)
}

// isTainted reports whether a Node is created with the default taint.
func (d *Driver) isTainted(ctx context.Context, want desired) (bool, error) {
	switch d.taintMode(want) {
	case v1alpha1.HollowTaintAlways:
		return true, nil
	case v1alpha1.HollowTaintNever:
		return false, nil
	case v1alpha1.HollowTaintAuto:
	}
	return hollow.HasRealNodes(ctx, d.environment.Target.Reader)
}

// nodeTaints are the taints that a Node has to have, and those that it must not have. With Auto it keeps what it has.
func (d *Driver) nodeTaints(want desired) (taints, unwanted []corev1.Taint) {
	switch d.taintMode(want) {
	case v1alpha1.HollowTaintAlways:
		return []corev1.Taint{hollow.DefaultTaint()}, nil
	case v1alpha1.HollowTaintNever:
		return nil, []corev1.Taint{hollow.DefaultTaint()}
	case v1alpha1.HollowTaintAuto:
	}
	return nil, nil
}
