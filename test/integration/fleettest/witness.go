package fleettest

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// Witness watches everything that belongs to one pool.
type Witness struct {
	Machines, Pods, Nodes *Journal
}

// Watch starts to watch a pool of member, until the spec or suite that calls it ends.
func (f *Fleet) Watch(ctx context.Context, member *localfleet.Member, pool string) *Witness {
	GinkgoHelper()
	target, err := member.Cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	scheme := f.HubClient.Scheme()
	labelled := client.MatchingLabels{PoolLabel: pool}
	// Pods carry no label of the pool; they are named after their Machines, and those after their pool.
	named := func(o client.Object) bool { return strings.HasPrefix(o.GetName(), pool+"-") }
	return &Witness{
		Machines: keepJournal(ctx, subject{
			kind: "Machine", config: f.HubConfig, scheme: scheme, list: &v1alpha1.MachineList{},
			options: []client.ListOption{client.InNamespace(member.Name), labelled}, ready: isReady,
		}),
		Pods: keepJournal(ctx, subject{
			kind: "Pod", config: target, scheme: scheme, list: &corev1.PodList{},
			options: []client.ListOption{client.HasLabels{v1alpha1.MachineNameLabel}}, counts: named,
		}),
		Nodes: keepJournal(ctx, subject{
			kind: "Node", config: target, scheme: scheme, list: &corev1.NodeList{},
			options: []client.ListOption{labelled}, ready: isReady,
		}),
	}
}

// Doomed is how many Machines have been ordered to go so far.
func (w *Witness) Doomed() int { return len(w.Machines.Ending()) }

// Each calls do for every journal.
func (w *Witness) Each(do func(*Journal)) {
	for _, j := range []*Journal{w.Machines, w.Pods, w.Nodes} {
		do(j)
	}
}

// Expect says how the pool has fared since the witness came: exactly so many Machines made, the first ones
// included, and so many deleted, each with one pod and one Node, and no pod or Node gone whose Machine was not
// ordered to go.
func (w *Witness) Expect(ctx context.Context, wasMade, wasDeleted int) {
	GinkgoHelper()
	w.Each(func(j *Journal) {
		j.CatchUp(ctx)
		Expect(j.Verdict()).To(BeEmpty())
		Expect(j.Made()).To(HaveLen(wasMade), "every %s that ever was", j.kind)
		Expect(j.Ending()).To(HaveLen(wasDeleted), "every %s that was deleted", j.kind)
		Expect(j.Ending()).To(Equal(w.Machines.Ending()), "a %s goes for its Machine alone", j.kind)
	})
}
