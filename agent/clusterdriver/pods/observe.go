package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
)

// concurrency is how many clusters are observed at a time.
const concurrency = 16

// List implements clusterdriver.Driver. Clusters that run are asked whether they are ready.
func (d *Driver) List(ctx context.Context) (clusterdriver.Inventory, error) {
	inventory := clusterdriver.Inventory{Versions: supportedVersions()}
	namespaces, err := d.listNamespaces(ctx)
	if err != nil {
		return clusterdriver.Inventory{}, err
	}
	inventory.Clusters = make([]clusterdriver.Observed, len(namespaces))
	group, bounded := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i := range namespaces {
		group.Go(func() error {
			observed, err := d.observe(bounded, &namespaces[i])
			inventory.Clusters[i] = observed
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return clusterdriver.Inventory{}, fmt.Errorf("looking at simulated clusters: %w", err)
	}
	return inventory, nil
}

// listNamespaces returns those of the host's simulated clusters.
func (d *Driver) listNamespaces(ctx context.Context) ([]corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	if err := d.client.List(ctx, list, client.MatchingLabels{rendering.HostLabel: d.Host}, client.HasLabels{rendering.UIDLabel}); err != nil {
		return nil, fmt.Errorf("listing the namespaces of simulated clusters: %w", err)
	}
	var own []corev1.Namespace
	for _, namespace := range list.Items {
		if name := namespace.Annotations[rendering.NameAnnotation]; rendering.NamespaceOf(name) == namespace.Name {
			own = append(own, namespace)
		}
	}
	return own, nil
}

// observe tells how one cluster is. An error is one of the host: what it says about this cluster is in the message.
func (d *Driver) observe(ctx context.Context, namespace *corev1.Namespace) (clusterdriver.Observed, error) {
	name, uid := namespace.Annotations[rendering.NameAnnotation], namespace.Labels[rendering.UIDLabel]
	observed := clusterdriver.Observed{Name: name, UID: uid, Phase: clusterdriver.Starting}
	if namespace.DeletionTimestamp != nil {
		observed.Phase, observed.Message = clusterdriver.Removing, describeTermination(namespace)
		return observed, nil
	}
	seen, err := d.lookAtPods(ctx, name, uid)
	switch {
	case apierrors.IsForbidden(err):
		observed.Message = "the host's agent has no rights in its namespace yet: " + err.Error()
		return observed, nil
	case err != nil:
		return observed, err
	}
	observed.CredentialExpires = credentialExpiry(name, &seen.credential)
	if d.isRemoving(uid) {
		observed.Phase, observed.Message = clusterdriver.Removing, seen.describeRemoval(namespace.Name)
		return observed, nil
	}
	state := describePod(seen.pod)
	certificates, isBroken := d.judgeCertificates(ctx, namespace, seen.hasSet)
	if state.runsControlPlane {
		d.proveComponents(ctx, &observed, &state, seen.authority)
	}
	observed.Message = strings.Join(append(state.problems, certificates), "; ")
	switch {
	case !observed.Checked.IsZero() && state.runsAgent && !state.isIncomplete:
		observed.Phase = clusterdriver.Running
	case state.isFailing || isBroken:
		observed.Phase = clusterdriver.Failed
	}
	return observed, nil
}

// proveComponents asks the API server whether it is ready and what runs, and adds it to what is observed.
func (d *Driver) proveComponents(ctx context.Context, observed *clusterdriver.Observed, state *podState, authority corev1.Secret) {
	asks, err := d.proofOf(observed.Name, observed.UID, authority.Data[corev1.TLSCertKey])
	if err == nil {
		observed.Version, err = asks.askVersion(ctx)
	}
	if err != nil {
		state.addProblem("%v", err)
		return
	}
	report, err := asks.askReport(ctx)
	if err != nil && !errors.Is(err, errNoReport) {
		state.addProblem("%v", err)
		return
	}
	observed.Checked = d.Clock.Now()
	if err != nil {
		state.addProblem("%v", err)
		return
	}
	observed.ControllerManager, observed.Scheduler = report.ControllerManager, report.Scheduler
	for _, component := range []struct{ name, runs string }{{"kube-controller-manager", report.ControllerManager}, {"kube-scheduler", report.Scheduler}} {
		if component.runs == "" {
			state.isIncomplete = true
			state.addProblem("%s is not healthy", component.name)
		}
	}
	if report.Problem != "" {
		state.isIncomplete, state.isFailing = true, true
		state.addProblem("%s", report.Problem)
	}
}

// sight is what there is of a cluster in its namespace. pod is nil if there is none.
type sight struct {
	pod                   *corev1.Pod
	hasSet                bool
	credential, authority corev1.Secret
}

// lookAtPods reads it from the API server. What is not there is empty, and what is another's is not there.
func (d *Driver) lookAtPods(ctx context.Context, name, uid string) (sight, error) {
	var seen sight
	in, pod := rendering.NamespaceOf(name), &corev1.Pod{}
	set, err := d.readStatefulSet(ctx, name, uid)
	if err != nil && set == nil {
		return seen, err
	}
	seen.hasSet = set != nil && err == nil
	for _, each := range []struct {
		name string
		into client.Object
	}{{rendering.PodName, pod}, {rendering.CredentialSecret, &seen.credential}, {rendering.SecretOf(rendering.Authority), &seen.authority}} {
		if err := d.client.Get(ctx, client.ObjectKey{Namespace: in, Name: each.name}, each.into); client.IgnoreNotFound(err) != nil {
			return seen, fmt.Errorf("reading %s of simulated cluster %s: %w", each.name, name, err)
		}
	}
	if pod.Labels[rendering.UIDLabel] == uid {
		seen.pod = pod
	}
	return seen, nil
}

// describeRemoval tells what is left.
func (s sight) describeRemoval(namespace string) string {
	switch {
	case s.pod != nil:
		return fmt.Sprintf("pod %s/%s is ending", namespace, s.pod.Name)
	case s.hasSet:
		return fmt.Sprintf("StatefulSet %s/%s is left", namespace, rendering.Name)
	}
	return "namespace " + namespace + " is left"
}

// describeTermination tells what keeps a namespace.
func describeTermination(namespace *corev1.Namespace) string {
	told := []string{"namespace " + namespace.Name + " is being removed"}
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			told = append(told, condition.Message)
		}
	}
	return strings.Join(told, ": ")
}
