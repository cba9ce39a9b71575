package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

const (
	// frequent and impatient are the heartbeat of the cluster that is cut off, in two steps, because its agent is to renew more
	// often before the hub waits for less long. With the defaults the demo's user would wait for 40 seconds.
	frequent  = `{"periodSeconds":1}`
	impatient = `{"graceSeconds":5}`

	soak = time.Second
)

// newMachineFleet is a fleet over all clusters but the host, whose template is what their MachineDeployments have.
func newMachineFleet() *v1alpha1.MachineFleet {
	fleet := &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: deploymentName}}
	fleet.Spec.ClusterSelector, fleet.Spec.Adopt = workloadClusters(), true
	fleet.Spec.Groups = []v1alpha1.MachineFleetGroup{{
		Name:            localfleet.StageCanary,
		ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{localfleet.StageLabel: localfleet.StageCanary}},
	}}
	fleet.Spec.RolloutStrategy = clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.Progressive, Progressive: &clusterv1alpha1.RolloutProgressive{
		RolloutConfig:  clusterv1alpha1.RolloutConfig{MinSuccessTime: metav1.Duration{Duration: soak}},
		MaxConcurrency: intstr.FromInt32(2),
		MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{
			MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: localfleet.StageCanary}},
		},
	}}
	for _, object := range localfleet.Workers("", 0, kubeletVersion) {
		if deployment, is := object.(*v1alpha1.MachineDeployment); is {
			fleet.Spec.Template.Spec.Selector, fleet.Spec.Template.Spec.Template = deployment.Spec.Selector, deployment.Spec.Template
		}
	}
	return fleet
}

// workloadClusters selects all clusters but the one that hosts them.
func workloadClusters() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: localfleet.StageLabel, Operator: metav1.LabelSelectorOpExists}}}
}

// setHeartbeat changes how soon the hub notices that the agent of a cluster is silent.
func (d *demo) setHeartbeat(ctx context.Context, name, heartbeat string) error {
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"heartbeat":%s}}`, heartbeat))
	if err := d.fleet.client.Patch(ctx, cluster, patch); err != nil {
		return fmt.Errorf("setting the heartbeat of Cluster %s: %w", name, err)
	}
	return nil
}

func (d *demo) machineNames(ctx context.Context) ([]string, error) {
	machines := &v1alpha1.MachineList{}
	if err := d.fleet.client.List(ctx, machines); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	var names []string
	for _, machine := range machines.Items {
		names = append(names, machine.Namespace+"/"+machine.Name)
	}
	slices.Sort(names)
	return names, nil
}

func (d *demo) sameMachines(before []string) look {
	return func(ctx context.Context) (string, bool, error) {
		now, err := d.machineNames(ctx)
		same := len(slices.DeleteFunc(slices.Clone(now), func(name string) bool { return !slices.Contains(before, name) }))
		return fmt.Sprintf("%d of %d Machines are the same", same, len(before)), slices.Equal(before, now), err
	}
}

// fleetIs looks at a condition of the MachineFleet, once the hub has seen its current spec.
func (d *demo) fleetIs(kind string, status metav1.ConditionStatus, reason string) look {
	return func(ctx context.Context) (string, bool, error) {
		fleet := &v1alpha1.MachineFleet{}
		if err := d.fleet.client.Get(ctx, client.ObjectKey{Name: deploymentName}, fleet); err != nil {
			return "", false, err
		}
		condition := meta.FindStatusCondition(fleet.Status.Conditions, kind)
		if condition == nil || condition.ObservedGeneration != fleet.Generation {
			return "the hub has not observed it yet", false, nil
		}
		seen := fmt.Sprintf("%s=%s, %s", kind, condition.Status, condition.Reason)
		if condition.Status == status && condition.Reason == reason {
			return seen, true, nil
		}
		return seen + ": " + fleet.Status.Message, false, nil
	}
}

func (d *demo) fleetReady() look {
	return d.fleetIs(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

func (d *demo) fleetWaits() look {
	return d.fleetIs(v1alpha1.ProgressingCondition, metav1.ConditionUnknown, v1alpha1.ReasonClustersHeld)
}

// record is what the hub keeps of one cluster's part in a rollout.
type record struct {
	Phase string    `json:"phase"`
	Since time.Time `json:"since"`
	Held  bool      `json:"held"`
}

func (r record) String() string {
	if r.Held {
		return r.Phase + ", held"
	}
	return r.Phase
}

// recordOf returns the record of a cluster, if it is one of the upgrade.
func (d *demo) recordOf(ctx context.Context, cluster string) (record, error) {
	deployment, r := &v1alpha1.MachineDeployment{}, record{}
	if err := d.fleet.client.Get(ctx, client.ObjectKey{Namespace: cluster, Name: deploymentName}, deployment); err != nil {
		return r, err
	}
	if deployment.Spec.Template.Spec.Versions.Kubelet != upgradeVersion {
		return record{Phase: "waiting"}, nil
	}
	err := json.Unmarshal([]byte(deployment.Annotations[v1alpha1.FleetRecordAnnotation]), &r)
	return r, err
}

// inMidUpgrade holds when the first new Machine of a cluster is there, and old ones are too.
func (d *demo) inMidUpgrade(cluster string) look {
	return func(ctx context.Context) (string, bool, error) {
		machines := &v1alpha1.MachineList{}
		if err := d.fleet.client.List(ctx, machines, client.InNamespace(cluster)); err != nil {
			return "", false, err
		}
		updated := 0
		for _, machine := range machines.Items {
			if machine.Spec.Versions.Kubelet == upgradeVersion {
				updated++
			}
		}
		return fmt.Sprintf("%d of %d Machines are new", updated, len(machines.Items)), updated > 0 && updated < len(machines.Items), nil
	}
}

func (d *demo) held(cluster string) look {
	return func(ctx context.Context) (string, bool, error) {
		r, err := d.recordOf(ctx, cluster)
		return r.String(), r.Held, err
	}
}

func (d *demo) updated(cluster string) look {
	return func(ctx context.Context) (string, bool, error) {
		r, err := d.recordOf(ctx, cluster)
		return r.String(), r.Phase == "Succeeded", err
	}
}

// canaryFirst compares when the canary had succeeded with when the first new Machine of the others was made.
func (d *demo) canaryFirst(canary *member, others ...*member) look {
	return func(ctx context.Context) (string, bool, error) {
		proven, err := d.recordOf(ctx, canary.Name)
		if err != nil {
			return "", false, err
		}
		var first time.Time
		for _, member := range others {
			machines := &v1alpha1.MachineList{}
			if err := d.fleet.client.List(ctx, machines, client.InNamespace(member.Name)); err != nil {
				return "", false, err
			}
			for _, machine := range machines.Items {
				if made := machine.CreationTimestamp.Time; first.IsZero() || made.Before(first) {
					first = made
				}
			}
		}
		const clock = "15:04:05"
		seen := fmt.Sprintf("%s at %s, their first new Machine is of %s", proven, proven.Since.UTC().Format(clock), first.UTC().Format(clock))
		// The time of a Machine's creation has whole seconds.
		return seen, proven.Phase == "Succeeded" && !first.Before(proven.Since.Truncate(time.Second)), nil
	}
}
