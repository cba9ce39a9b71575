//go:build linux

package local

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// countsTimeout is the longest time to wait for the counts of Machines: the hub writes counts that have changed before up to a minute late.
const countsTimeout = 5 * time.Second

// hubClient is the administrator's client of a fleet's hub.
func hubClient(kubeconfig string) (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the hub: %w", err)
	}
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, fmt.Errorf("making a client of the hub: %w", err)
	}
	return c, nil
}

// createMachines waits for the clusters, makes machines in each, and waits for those.
func (o *upOptions) createMachines(ctx context.Context) error {
	report, err := localfleet.ReadReport(o.dir)
	if err != nil {
		return err
	}
	c, err := hubClient(report.Hub.Kubeconfig)
	if err != nil {
		return err
	}
	names, err := o.createSet(ctx, c)
	if err != nil {
		return err
	}
	var ready []string
	for i, name := range names {
		err := o.awaitMember(ctx, c, i, name)
		if err == nil {
			o.printf("  %s: ready", name)
			err = o.createWorkers(ctx, c, i, name)
		}
		if o.isRemoved(ctx, c, name, err) {
			continue
		}
		if err != nil {
			return err
		}
		ready = append(ready, name)
	}
	return o.awaitWorkers(ctx, c, ready)
}

// isRemoved reports whether waiting for a cluster has failed because a user has taken it away meanwhile.
func (o *upOptions) isRemoved(ctx context.Context, c client.Client, name string, failed error) bool {
	if failed == nil {
		return false
	}
	one := &v1alpha1.SimulatedCluster{}
	err := c.Get(ctx, client.ObjectKey{Namespace: localfleet.HostName, Name: name}, one)
	if isGone := apierrors.IsNotFound(err) || err == nil && one.DeletionTimestamp != nil; !isGone {
		return false
	}
	o.printf("  %s: removed meanwhile", name)
	return true
}

// awaitWorkers waits for the machines of clusters.
func (o *upOptions) awaitWorkers(ctx context.Context, c client.WithWatch, names []string) error {
	if o.workers.machines == 0 {
		return nil
	}
	var counted []string
	for _, name := range names {
		switch err := awaitMachines(ctx, c, name, o.workers.machines); {
		case cmdutil.Code(err) == cmdutil.Missing:
			o.printf("  %s: its machines were removed meanwhile", name)
		case err != nil:
			return fmt.Errorf("waiting for the machines of cluster %s: %w", name, err)
		default:
			o.printf("  %s: %s ready", name, plural.Count(o.workers.machines, "machine"))
			counted = append(counted, name)
		}
	}
	return awaitCounts(ctx, c, counted)
}

// createWorkers creates the MachineDeployment if the set, which has one version, does not.
func (o *upOptions) createWorkers(ctx context.Context, c client.Client, index int, name string) error {
	if o.workers.machines == 0 || o.startsWithMachines() {
		return nil
	}
	for _, object := range localfleet.Workers(name, int32(o.workers.machines), o.workers.versionOf(index)) {
		if _, isClass := object.(*v1alpha1.MachineClass); isClass {
			continue // The set gives it to its clusters.
		}
		if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %T %s/%s: %w", object, name, object.GetName(), err)
		}
	}
	return nil
}

// versionOf is the kubelet version for the cluster of that index: they take turns.
func (w workers) versionOf(index int) string {
	if len(w.versions) == 0 {
		return ""
	}
	return w.versions[index%len(w.versions)]
}

func awaitReady(ctx context.Context, c client.WithWatch, name string) error {
	return cmdutil.Until(ctx, c, &v1alpha1.ClusterList{}, client.ObjectKey{Name: name}, &v1alpha1.Cluster{},
		func(cluster *v1alpha1.Cluster) (bool, error) {
			return meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ReadyCondition), nil
		})
}

// awaitMachines waits until so many Machines are ready, or as many as a user wants meanwhile.
func awaitMachines(ctx context.Context, c client.WithWatch, cluster string, most int) error {
	return cmdutil.Until(ctx, c, &v1alpha1.MachineDeploymentList{},
		client.ObjectKey{Namespace: cluster, Name: localfleet.WorkersName}, &v1alpha1.MachineDeployment{},
		func(deployment *v1alpha1.MachineDeployment) (bool, error) {
			want := min(most, v1alpha1.DesiredReplicas(deployment.Spec.Replicas))
			return int(deployment.Status.ReadyReplicas) >= want, explainStall("the machine deployment "+deployment.Name, deployment.Generation, deployment.Status.Conditions)
		})
}

// awaitCounts waits until the Clusters say that all their Machines are ready, as the commands do that a user tries next. The hub
// writes the counts some seconds later; the fleet is up all the same when it takes longer than countsTimeout.
func awaitCounts(ctx context.Context, c client.WithWatch, names []string) error {
	return cmdutil.Within(ctx, countsTimeout, func(ctx context.Context) error {
		for _, name := range names {
			err := cmdutil.Until(ctx, c, &v1alpha1.ClusterList{}, client.ObjectKey{Name: name}, &v1alpha1.Cluster{},
				func(cluster *v1alpha1.Cluster) (bool, error) {
					counts := cluster.Status.Machines
					return counts != nil && counts.Ready > 0 && counts.Ready == counts.Total, nil
				})
			if err != nil && cmdutil.Code(err) != cmdutil.Missing {
				return fmt.Errorf("waiting for the counts of cluster %s: %w", name, err)
			}
		}
		return nil
	}, func() error { return nil })
}
