// Package hollow is the built-in provider: a Machine becomes one hollow-node pod and one Secret of the same
// name, in the agent's namespace on the host cluster.
//
// The Secret carries the hollow-node's configuration file and a kubeconfig with a bootstrap token. The token
// is one of ServiceAccount hollow-node-bootstrap of the target cluster, lives for ten minutes and may do
// nothing but ask for a kubelet's client certificate. Its ID is noted on the Secret: the approver of CSRs
// grants the identity of a Node only to the token that was made for exactly that Machine.
//
// Nothing is changed in a running pod. Another configuration means another pod; labels and taints are the
// exception, because the agent keeps those in sync on the Node itself: they are part of the configuration
// only until the Node has joined.
package hollow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/relist"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// Options are what the agent's command line says about hollow nodes.
type Options struct {
	// Image of the hollow-node pods. Its kubelet code is of hollownode.BuiltInMinor.
	Image string
	// MinorImages are images with the kubelet code of other minors, such as 1.36. A Machine of a minor that has none gets Image, which
	// only reports its version.
	MinorImages map[string]string
	// ServerURL and ServerCA (PEM) are the target's API server as a hollow-node reaches it.
	ServerURL string
	ServerCA  []byte
	// HollowTaint holds for Machines whose class says nothing of it. Default Auto.
	HollowTaint v1alpha1.HollowTaint
	// NodeMonitorGracePeriod is how long the cluster's node controller waits for a heartbeat until it marks a Node Unknown. Default
	// DefaultGracePeriod.
	NodeMonitorGracePeriod time.Duration
	// StaticPodNamespaces are the namespaces of the target in which static pods may be, or AnyNamespace. Default: none.
	StaticPodNamespaces []string
}

// DefaultGracePeriod is the shortest default of a kube-controller-manager: it was 40 seconds until v1.31, and is 50 since.
const DefaultGracePeriod = 40 * time.Second

// Driver makes hollow nodes. It implements driver.Driver.
type Driver struct {
	options     Options
	environment driver.Environment
	expiries    expiries
	// pods is what the host's API server itself has told of the pods.
	pods relist.Tracker
}

// Factory returns a Factory of drivers with these options.
func Factory(options Options) driver.Factory {
	return func(ctx context.Context, environment driver.Environment) (driver.Driver, error) {
		return New(ctx, options, environment)
	}
}

// New returns a Driver that asks the agent to look at a Machine whenever its pod changes.
func New(ctx context.Context, options Options, environment driver.Environment) (*Driver, error) {
	if options.Image == "" || options.ServerURL == "" {
		return nil, errors.New("the hollow driver needs an image and the URL of the target's API server")
	}
	d := &Driver{options: options, environment: environment}
	if err := d.watchPods(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// TakesKubeletConfiguration implements driver.Configurable.
func (d *Driver) TakesKubeletConfiguration() bool { return true }

// Create implements driver.Driver: first the Secret, then the pod that needs it.
func (d *Driver) Create(ctx context.Context, request driver.Request) (driver.Instance, error) {
	want, err := d.resolveDesired(request)
	if err != nil {
		return driver.Instance{}, err
	}
	name := request.Machine.Name
	existing, err := d.readPod(ctx, name)
	if err == nil {
		return d.describeInstance(ctx, existing, request)
	}
	if !errors.Is(err, driver.ErrNotFound) {
		return driver.Instance{}, err
	}
	image, err := d.imageOf(want)
	if err != nil {
		return driver.Instance{}, err
	}
	// A plan that came later would be too late for a node that is not to join.
	plan, err := d.disruptionPlan(ctx, request.Machine)
	if err != nil {
		return driver.Instance{}, err
	}
	if err := d.writeSecret(ctx, name, want); err != nil {
		return driver.Instance{}, err
	}
	pod := renderPod(d.environment.ClusterName, d.environment.Host.Namespace, name, image, want)
	if plan != "" {
		pod.Annotations[disrupt.Annotation] = plan
	}
	telemetry.Stamp(ctx, pod)
	if err := d.environment.Host.Client.Create(ctx, pod); err != nil {
		return driver.Instance{}, fmt.Errorf("creating pod %s/%s: %w", pod.Namespace, pod.Name, explainQuota(err))
	}
	d.pods.Observed(pod)
	return d.describeInstance(ctx, pod, request)
}

// disruptionPlan returns the plan of disruptions that a Machine's pod is created with; empty for none.
func (d *Driver) disruptionPlan(ctx context.Context, machine *v1alpha1.Machine) (string, error) {
	if d.environment.DisruptionPlan == nil {
		return "", nil
	}
	return d.environment.DisruptionPlan(ctx, machine)
}

// CheckUpdate implements driver.Driver: another pod of the same name continues with the Node.
func (d *Driver) CheckUpdate(_ context.Context, request driver.Request) error {
	want, err := d.resolveDesired(request)
	if err == nil {
		_, err = d.imageOf(want)
	}
	return err
}

// Update implements driver.Driver. A pod of another configuration is deleted; Create makes the next one. A
// bootstrap token that is about to expire is replaced without touching the pod.
func (d *Driver) Update(ctx context.Context, request driver.Request) (driver.Instance, error) {
	want, err := d.resolveDesired(request)
	if err != nil {
		return driver.Instance{}, err
	}
	pod, err := d.readPod(ctx, request.Machine.Name)
	if err != nil {
		return driver.Instance{}, err
	}
	switch {
	case pod.DeletionTimestamp != nil:
	case !matchesDesired(pod, want, request.Machine):
		if _, err := d.imageOf(want); err != nil {
			return driver.Instance{}, err
		}
		if err := d.deletePod(ctx, pod); err != nil {
			return driver.Instance{}, err
		}
		return driver.Instance{
			Name: pod.Name, ProviderID: d.providerID(pod.Name), State: driver.Deleting,
			Message: "the pod is being replaced because its configuration changed",
		}, nil
	default:
		expiry, err := d.tokenExpiry(ctx, request.Machine)
		if err != nil {
			return driver.Instance{}, err
		}
		if !hasJoined(request.Machine) && d.environment.Clock.Now().After(expiry.Add(-refreshBefore)) {
			if err := d.writeSecret(ctx, request.Machine.Name, want); err != nil {
				return driver.Instance{}, err
			}
		}
	}
	return d.describeInstance(ctx, pod, request)
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, request driver.Request) (driver.Instance, error) {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: d.environment.Host.Namespace, Name: request.Machine.Name}
	err := d.environment.Host.Client.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) || err == nil && d.pods.Behind(pod) {
		pod, err = d.readPod(ctx, request.Machine.Name)
	}
	if err == nil {
		err = d.checkOwnership(pod, "pod")
	}
	if isForeign(err) {
		err = &driver.NotFoundError{Machine: request.Machine.Name, ProviderID: d.providerID(request.Machine.Name)}
	}
	if err != nil {
		return driver.Instance{}, fmt.Errorf("getting pod %s: %w", key, err)
	}
	return d.describeInstance(ctx, pod, request)
}

// Delete implements driver.Driver.
func (d *Driver) Delete(ctx context.Context, machine *v1alpha1.Machine) error {
	pod, err := d.readPod(ctx, machine.Name)
	switch {
	case errors.Is(err, driver.ErrNotFound), isForeign(err):
		d.pods.Forget(client.ObjectKey{Namespace: d.environment.Host.Namespace, Name: machine.Name})
	case err != nil:
		return err
	case pod.DeletionTimestamp == nil:
		if err := d.deletePod(ctx, pod); err != nil {
			return err
		}
	}
	secret, err := d.readSecret(ctx, machine.Name)
	if isForeign(err) {
		return nil
	}
	if err != nil || secret == nil {
		return err
	}
	d.expiries.forget(machine.Name)
	if err := d.environment.Host.Client.Delete(ctx, secret, preconditionsOf(secret)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// List implements driver.Driver. It asks the API server.
func (d *Driver) List(ctx context.Context) ([]driver.Instance, error) {
	pods := &corev1.PodList{}
	err := d.environment.Host.Reader.List(ctx, pods, client.InNamespace(d.environment.Host.Namespace),
		client.MatchingLabels{v1alpha1.ClusterNameLabel: d.environment.ClusterName})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	instances := make([]driver.Instance, 0, len(pods.Items))
	for i := range pods.Items {
		pod := &pods.Items[i]
		state, message := stateOf(pod)
		instances = append(instances, driver.Instance{
			Name: pod.Name, ProviderID: d.providerID(pod.Name), State: state, Message: message, UpToDate: true,
		})
	}
	return instances, nil
}

// cacheTimeout bounds how long a count waits for a cache that is not there yet.
const cacheTimeout = time.Second

// Count implements driver.Counter. The cache is enough to know of pods; that there are none is asked of the API server.
func (d *Driver) Count(ctx context.Context) (int, error) {
	bounded, cancel := context.WithTimeout(ctx, cacheTimeout)
	defer cancel()
	pods := &corev1.PodList{}
	err := d.environment.Host.Client.List(bounded, pods, client.InNamespace(d.environment.Host.Namespace),
		client.MatchingLabels{v1alpha1.ClusterNameLabel: d.environment.ClusterName}, client.UnsafeDisableDeepCopy)
	count := 0
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			count++
		}
	}
	if err == nil && count > 0 {
		return count, nil
	}
	instances, err := d.List(ctx)
	if err != nil {
		return 0, err
	}
	return len(slices.DeleteFunc(instances, func(i driver.Instance) bool { return i.State == driver.Deleting })), nil
}

// readPod gets a Machine's pod from the API server. One that is not this cluster's is an error.
func (d *Driver) readPod(ctx context.Context, machine string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: d.environment.Host.Namespace, Name: machine}
	if err := d.environment.Host.Reader.Get(ctx, key, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &driver.NotFoundError{Machine: machine, ProviderID: d.providerID(machine)}
		}
		return nil, fmt.Errorf("getting pod %s: %w", key, err)
	}
	if err := d.checkOwnership(pod, "pod"); err != nil {
		return nil, err
	}
	d.pods.Observed(pod)
	return pod, nil
}

func (d *Driver) deletePod(ctx context.Context, pod *corev1.Pod) error {
	if err := d.environment.Host.Client.Delete(ctx, pod, preconditionsOf(pod)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// preconditionsOf lets a deletion fail with a conflict if object is not what it was when it was read.
func preconditionsOf(object client.Object) client.Preconditions {
	uid, version := object.GetUID(), object.GetResourceVersion()
	return client.Preconditions{UID: &uid, ResourceVersion: &version}
}

// describeInstance describes pod. It is out of date when it was made from another configuration, or when its
// bootstrap token has to be replaced.
func (d *Driver) describeInstance(ctx context.Context, pod *corev1.Pod, request driver.Request) (driver.Instance, error) {
	state, message := stateOf(pod)
	found := driver.Instance{
		Name: pod.Name, ProviderID: d.providerID(pod.Name), State: state, Message: message, UpToDate: true,
		KubeletConfiguration: pod.Annotations[kubeletConfigurationAnnotation],
	}
	if request.Class == nil || state == driver.Deleting {
		return found, nil
	}
	// With a configuration that cannot be read the pod is as it is, and Update says what is wrong with it.
	want, invalid := d.resolveDesired(request)
	found.UpToDate = invalid == nil && matchesDesired(pod, want, request.Machine)
	if invalid != nil {
		return found, nil //nolint:nilerr // the instance is there, whatever its configuration says by now
	}
	if want.kubelet != nil {
		found.IgnoredFields = want.kubelet.ignored
	}
	found.Taints, found.UnwantedTaints = d.nodeTaints(want)
	if hasJoined(request.Machine) {
		d.expiries.forget(request.Machine.Name)
		return found, nil
	}
	expiry, err := d.tokenExpiry(ctx, request.Machine)
	if err != nil {
		return driver.Instance{}, err
	}
	found.RecheckAfter = max(expiry.Add(-refreshBefore).Sub(d.environment.Clock.Now()), time.Second)
	if !d.environment.Clock.Now().Before(expiry.Add(-refreshBefore)) {
		found.UpToDate = false
	}
	return found, nil
}

// tokenExpiry returns when a Machine's bootstrap token expires, the zero time if it has none.
func (d *Driver) tokenExpiry(ctx context.Context, machine *v1alpha1.Machine) (time.Time, error) {
	if expiry, ok := d.expiries.get(machine.Name); ok {
		return expiry, nil
	}
	secret, err := d.readSecret(ctx, machine.Name)
	if err != nil || secret == nil {
		return time.Time{}, err
	}
	expiry := expiryOf(secret)
	d.expiries.set(machine.Name, expiry)
	return expiry, nil
}

func (d *Driver) providerID(machine string) string {
	return ProviderID(d.environment.ClusterName, machine)
}

// matchesDesired reports whether pod was made from want.
func matchesDesired(pod *corev1.Pod, want desired, machine *v1alpha1.Machine) bool {
	return pod.Annotations[configurationHashAnnotation] == want.configurationHash &&
		(hasJoined(machine) || pod.Annotations[registrationHashAnnotation] == want.registrationHash)
}

// hasJoined reports whether the Machine's Node has registered, so that the hollow-node has its own identity.
func hasJoined(machine *v1alpha1.Machine) bool { return machine.Spec.ProviderID != nil }

// explainQuota turns a refusal by a quota into what it means.
func explainQuota(err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota") {
		return &driver.ExhaustedError{Resource: "quota of the host namespace: " + err.Error()}
	}
	return err
}
