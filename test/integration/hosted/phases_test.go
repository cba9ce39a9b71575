package hosted

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// watchful is how often to look for a phase: some take no longer than a few writes.
const watchful = 10 * time.Millisecond

// sight is what the hub has of a set at one moment.
type sight struct {
	set        *v1alpha1.SimulatedClusterSet
	ones       []v1alpha1.SimulatedCluster
	clusters   []v1alpha1.Cluster
	machines   []v1alpha1.Machine
	namespaces []corev1.Namespace
}

// look looks at a set. It fails while the hub's API server is away.
func (f *localFleet) look(ctx context.Context, name string) (*sight, error) {
	s := &sight{set: &v1alpha1.SimulatedClusterSet{}}
	if err := f.hub.Get(ctx, client.ObjectKey{Name: name}, s.set); err != nil {
		return nil, err
	}
	ones, clusters, machines, namespaces := &v1alpha1.SimulatedClusterList{}, &v1alpha1.ClusterList{}, &v1alpha1.MachineList{}, &corev1.NamespaceList{}
	for _, list := range []client.ObjectList{clusters, namespaces, machines, ones} {
		if err := f.hub.List(ctx, list); err != nil {
			return nil, err
		}
	}
	s.ones, s.machines = ones.Items, machines.Items
	s.clusters = slices.DeleteFunc(clusters.Items, func(c v1alpha1.Cluster) bool { return !c.IsSimulated() })
	s.namespaces = slices.DeleteFunc(namespaces.Items, func(n corev1.Namespace) bool { return n.Annotations[v1alpha1.SimulatedClusterAnnotation] == "" })
	return s, nil
}

// any reports whether one of the SimulatedClusters is so.
func (s *sight) any(is func(*v1alpha1.SimulatedCluster) bool) bool {
	return slices.ContainsFunc(s.ones, func(one v1alpha1.SimulatedCluster) bool { return is(&one) })
}

// anySays reports whether one of them has a condition with that reason, and anyIs whether one has it True.
func (s *sight) anySays(kind, reason string) bool {
	return s.any(func(one *v1alpha1.SimulatedCluster) bool {
		condition := meta.FindStatusCondition(one.Status.Conditions, kind)
		return condition != nil && condition.Reason == reason
	})
}

func (s *sight) anyIs(kind string) bool {
	return s.any(func(one *v1alpha1.SimulatedCluster) bool {
		return meta.IsStatusConditionTrue(one.Status.Conditions, kind)
	})
}

// count is how many of them are so.
func (s *sight) count(is func(*v1alpha1.SimulatedCluster) bool) (count int) {
	for i := range s.ones {
		if is(&s.ones[i]) {
			count++
		}
	}
	return count
}

// phase is one that conditions or status name. is reports that it is the present one of a cluster of the set, isOver that it is over in all
// of them.
type phase struct {
	name       string
	is, isOver func(*sight) bool
}

func isDeleting(one *v1alpha1.SimulatedCluster) bool { return one.DeletionTimestamp != nil }

// wants reports whether a SimulatedCluster was given the newer version.
func wants(one *v1alpha1.SimulatedCluster) bool { return one.Spec.Versions.ControlPlane == newer }

func isReady(one *v1alpha1.SimulatedCluster) bool {
	return meta.IsStatusConditionTrue(one.Status.Conditions, v1alpha1.ReadyCondition)
}

// areAll is over when all of a set's clusters are so.
func areAll(is func(*v1alpha1.SimulatedCluster) bool) func(*sight) bool {
	return func(s *sight) bool {
		return len(s.ones) > 0 && len(s.ones) == int(*s.set.Spec.Replicas) && s.count(is) == len(s.ones)
	}
}

var creation = []phase{
	{"SimulatedClusters exist, and no Cluster", func(s *sight) bool { return len(s.ones) > 0 && len(s.clusters) == 0 }, func(s *sight) bool { return len(s.clusters) > 0 }},
	{"ClusterCreated", func(s *sight) bool {
		return s.anyIs(v1alpha1.ClusterCreatedCondition) && !s.anyIs(v1alpha1.ControlPlaneReadyCondition)
	}, areAll(isReady)},
	{"AwaitingCredential", func(s *sight) bool {
		return s.anySays(v1alpha1.ControlPlaneReadyCondition, v1alpha1.ReasonAwaitingCredential)
	}, areAll(isReady)},
	{"Starting", func(s *sight) bool { return s.anySays(v1alpha1.ControlPlaneReadyCondition, v1alpha1.ReasonStarting) }, areAll(isReady)},
	{"MachineDeploymentsCreated, and no Machine is ready", func(s *sight) bool {
		return s.anyIs(v1alpha1.MachineDeploymentsCreatedCondition) && s.readyMachines() == 0
	}, func(s *sight) bool { return s.readyMachines() > 0 }},
	{"ControlPlaneReady, and not Ready", func(s *sight) bool {
		return s.any(func(one *v1alpha1.SimulatedCluster) bool {
			return !isReady(one) && meta.IsStatusConditionTrue(one.Status.Conditions, v1alpha1.ControlPlaneReadyCondition)
		})
	}, areAll(isReady)},
}

func (s *sight) readyMachines() (count int) {
	for i := range s.machines {
		if meta.IsStatusConditionTrue(s.machines[i].Status.Conditions, v1alpha1.ReadyCondition) {
			count++
		}
	}
	return count
}

// isUpgraded reports whether a SimulatedCluster runs the newer version.
func isUpgraded(one *v1alpha1.SimulatedCluster) bool {
	return wants(one) && isReady(one) && minorRuns(one) == newer
}

var upgrade = []phase{
	{"the rollout is kept, and nothing started", func(s *sight) bool {
		return s.set.Status.Rollout.Started != nil && s.set.Status.Rollout.Revision == newer && s.count(wants) == 0
	}, func(s *sight) bool { return s.count(wants) > 0 }},
	{"the first one is started", func(s *sight) bool { return s.count(wants) == 1 && s.count(isUpgraded) == 0 }, func(s *sight) bool { return s.count(isUpgraded) > 0 }},
	{"Updating", func(s *sight) bool { return s.anySays(v1alpha1.ControlPlaneReadyCondition, v1alpha1.ReasonUpdating) }, areAll(isUpgraded)},
	{"the first one runs it, and is not Ready", func(s *sight) bool {
		return s.any(func(one *v1alpha1.SimulatedCluster) bool { return minorRuns(one) == newer && !isReady(one) })
	}, areAll(isUpgraded)},
	{"the second one is started", func(s *sight) bool { return s.count(wants) == 2 && s.count(isUpgraded) == 1 }, areAll(isUpgraded)},
	{"the second one does not run", func(s *sight) bool {
		return s.any(func(one *v1alpha1.SimulatedCluster) bool {
			return s.count(wants) == 2 && !isUpgraded(one) && !meta.IsStatusConditionTrue(one.Status.Conditions, v1alpha1.ControlPlaneReadyCondition)
		})
	}, areAll(isUpgraded)},
}

func isEmpty(s *sight) bool { return len(s.ones) == 0 }

var removal = []phase{
	{"deleted, and no Machine is", func(s *sight) bool { return s.any(isDeleting) && !s.anyMachineGoes() }, isEmpty},
	{"Machines are deleted", func(s *sight) bool { return s.anyMachineGoes() }, isEmpty},
	{"MachinesRemoved", func(s *sight) bool { return s.anyIs(v1alpha1.MachinesRemovedCondition) }, isEmpty},
	{"the control plane goes", func(s *sight) bool {
		return s.any(isDeleting) && s.anySays(v1alpha1.ControlPlaneReadyCondition, v1alpha1.ReasonDeleting)
	}, isEmpty},
	{"the host's agent is done", func(s *sight) bool {
		return s.any(func(one *v1alpha1.SimulatedCluster) bool {
			return isDeleting(one) && !controllerutil.ContainsFinalizer(one, v1alpha1.SimulatedClusterFinalizer)
		})
	}, isEmpty},
	{"the Cluster is deleted", func(s *sight) bool {
		return slices.ContainsFunc(s.clusters, func(c v1alpha1.Cluster) bool { return c.DeletionTimestamp != nil })
	}, isEmpty},
	{"the namespace is deleted", func(s *sight) bool {
		return slices.ContainsFunc(s.namespaces, func(n corev1.Namespace) bool { return n.DeletionTimestamp != nil })
	}, isEmpty},
}

func (s *sight) anyMachineGoes() bool {
	return slices.ContainsFunc(s.machines, func(m v1alpha1.Machine) bool { return m.DeletionTimestamp != nil })
}

// minorRuns is the minor of the API server that the host's agent reports.
func minorRuns(one *v1alpha1.SimulatedCluster) string {
	if one.Status.Versions == nil {
		return ""
	}
	parts := strings.Split(one.Status.Versions.ControlPlane, ".")
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "." + parts[1]
}

// await waits for a phase, and reports whether it was seen before it was over.
func (f *localFleet) await(ctx context.Context, set string, p phase) (seen bool) {
	GinkgoHelper()
	Eventually(ctx, func() bool {
		s, err := f.look(ctx, set)
		if err != nil {
			return false
		}
		seen = p.is(s)
		return seen || p.isOver(s)
	}).WithPolling(watchful).Should(BeTrue(), "phase %q", p.name)
	return seen
}
