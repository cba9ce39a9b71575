package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// witness watches everything that belongs to one pool and misses no change: after a break it goes on with the
// resource version at which it stopped.
type witness struct {
	machines, pods, nodes *journal
}

// journal is what has happened to the objects of one kind.
type journal struct {
	kind string
	// list reads what is there now.
	list func(ctx context.Context) (client.ObjectList, error)
	// counts tells which objects belong to the pool.
	counts func(client.Object) bool

	mu sync.Mutex
	// live, made and ending are names by UID: there now, ever seen, and ever seen being deleted or gone.
	live, made, ending map[types.UID]string
	// ready were Ready when last seen.
	ready map[types.UID]bool
	// wrong is what must never happen.
	wrong []string
}

// watchPool begins to watch a pool of member, until the spec or suite that calls it ends.
func watchPool(ctx context.Context, member *localfleet.Member, pool string) *witness {
	GinkgoHelper()
	target, err := member.Cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	labelled := client.MatchingLabels{fleettest.PoolLabel: pool}
	everything := func(client.Object) bool { return true }
	// Pods carry no label of the pool; they are named after their Machines, and those after their pool.
	named := func(o client.Object) bool { return strings.HasPrefix(o.GetName(), pool+"-") }
	return &witness{
		machines: watchKind(ctx, "Machine", fleet.HubConfig, &v1alpha1.MachineList{}, everything, client.InNamespace(member.Name), labelled),
		pods:     watchKind(ctx, "Pod", target, &corev1.PodList{}, named, client.HasLabels{v1alpha1.MachineNameLabel}),
		nodes:    watchKind(ctx, "Node", target, &corev1.NodeList{}, everything, labelled),
	}
}

func watchKind(ctx context.Context, kind string, config *rest.Config, list client.ObjectList, counts func(client.Object) bool, options ...client.ListOption) *journal {
	GinkgoHelper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: fleet.HubClient.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	j := &journal{
		kind: kind, counts: counts, live: map[types.UID]string{}, made: map[types.UID]string{}, ending: map[types.UID]string{}, ready: map[types.UID]bool{},
		list: func(ctx context.Context) (client.ObjectList, error) {
			now := list.DeepCopyObject().(client.ObjectList)
			return now, c.List(ctx, now, options...)
		},
	}
	first, err := j.list(ctx)
	Expect(err).NotTo(HaveOccurred())
	j.each(first, func(object client.Object) { j.see(watch.Added, object) })
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	watcher, err := watchtools.NewRetryWatcherWithContext(watching, first.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list.DeepCopyObject().(client.ObjectList), append(slices.Clone(options), &client.ListOptions{Raw: &raw})...)
		},
	})
	Expect(err).NotTo(HaveOccurred())
	go func() {
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(client.Object)
			if !ok || event.Type == watch.Error {
				j.accuse("the watch broke: %v", event.Object)
				continue
			}
			j.see(event.Type, object)
		}
	}()
	DeferCleanup(func() {
		cancel()
		<-watcher.Done()
	})
	return j
}

func (j *journal) accuse(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrong = append(j.wrong, j.kind+": "+fmt.Sprintf(format, args...))
}

// each calls do for every object of list that counts.
func (j *journal) each(list client.ObjectList, do func(client.Object)) {
	Expect(meta.EachListItem(list, func(item runtime.Object) error {
		if object := item.(client.Object); j.counts(object) {
			do(object)
		}
		return nil
	})).To(Succeed())
}

func (j *journal) see(event watch.EventType, object client.Object) {
	if !j.counts(object) || event == watch.Bookmark {
		return
	}
	name, uid := object.GetName(), object.GetUID()
	if restarts := restartsOf(object); restarts > 0 {
		j.accuse("%s has restarted %d times", name, restarts)
	}
	ready, ending := readyOf(object), event == watch.Deleted || object.GetDeletionTimestamp() != nil
	j.mu.Lock()
	lost := j.ready[uid] && !ready && !ending
	j.ready[uid], j.made[uid] = ready, name
	if ending {
		j.ending[uid] = name
	}
	if event == watch.Deleted {
		delete(j.live, uid)
	} else {
		j.live[uid] = name
	}
	j.mu.Unlock()
	if lost {
		j.accuse("%s has lost its readiness", name)
	}
}

// readyOf tells whether an object says that it is Ready; of pods it is not asked.
func readyOf(object client.Object) bool {
	switch object := object.(type) {
	case *v1alpha1.Machine:
		return fleettest.MachineReady(object)
	case *corev1.Node:
		return fleettest.NodeReady(*object)
	}
	return false
}

func restartsOf(object client.Object) int32 {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return 0
	}
	var restarts int32
	for _, container := range pod.Status.ContainerStatuses {
		restarts += container.RestartCount
	}
	return restarts
}

// doomed is how many Machines have been ordered to go so far.
func (w *witness) doomed() int { return len(w.machines.names(ending)) }

func (j *journal) names(of func(*journal) map[types.UID]string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(maps.Values(of(j)))
}

func made(j *journal) map[types.UID]string   { return j.made }
func ending(j *journal) map[types.UID]string { return j.ending }
func live(j *journal) map[types.UID]string   { return j.live }

// expect says how the pool has fared since the witness came: exactly so many Machines made, the first ones
// included, and so many deleted, each with one pod and one Node, and no pod or Node gone whose Machine was not
// ordered to go.
func (w *witness) expect(ctx context.Context, wasMade, wasDeleted int) {
	GinkgoHelper()
	for _, j := range []*journal{w.machines, w.pods, w.nodes} {
		j.catchUp(ctx)
		Expect(j.verdict()).To(BeEmpty())
		Expect(j.names(made)).To(HaveLen(wasMade), "every %s that ever was", j.kind)
		Expect(j.names(ending)).To(HaveLen(wasDeleted), "every %s that was deleted", j.kind)
		Expect(j.names(ending)).To(Equal(w.machines.names(ending)), "a %s goes for its Machine alone", j.kind)
	}
}

func (j *journal) verdict() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.wrong)
}

// catchUp waits until the watch has told all that the API server knows.
func (j *journal) catchUp(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		list, err := j.list(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		var names []string
		j.each(list, func(object client.Object) { names = append(names, object.GetName()) })
		slices.Sort(names)
		g.Expect(j.names(live)).To(Equal(names))
	}).Should(Succeed(), "the watch of every %s goes on", j.kind)
}
