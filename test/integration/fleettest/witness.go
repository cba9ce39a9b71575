package fleettest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
)

// Witness watches everything that belongs to one pool. After a break it goes on with the resource version at which
// it stopped, and so misses nothing; only an API server that was restarted meanwhile may have forgotten that, and
// then the witness compares with what is there.
type Witness struct {
	Machines, Pods, Nodes *Journal
}

// Journal is what has happened to the objects of one kind.
type Journal struct {
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

// Watch begins to watch a pool of member, until the spec or suite that calls it ends.
func (f *Fleet) Watch(ctx context.Context, member *localfleet.Member, pool string) *Witness {
	GinkgoHelper()
	target, err := member.Cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	hub, scheme := f.HubConfig, f.HubClient.Scheme()
	labelled := client.MatchingLabels{PoolLabel: pool}
	everything := func(client.Object) bool { return true }
	// Pods carry no label of the pool; they are named after their Machines, and those after their pool.
	named := func(o client.Object) bool { return strings.HasPrefix(o.GetName(), pool+"-") }
	return &Witness{
		Machines: watchKind(ctx, "Machine", hub, scheme, &v1alpha1.MachineList{}, everything, client.InNamespace(member.Name), labelled),
		Pods:     watchKind(ctx, "Pod", target, scheme, &corev1.PodList{}, named, client.HasLabels{v1alpha1.MachineNameLabel}),
		Nodes:    watchKind(ctx, "Node", target, scheme, &corev1.NodeList{}, everything, labelled),
	}
}

func watchKind(ctx context.Context, kind string, config *rest.Config, scheme *runtime.Scheme, list client.ObjectList, counts func(client.Object) bool, options ...client.ListOption) *Journal {
	GinkgoHelper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	j := &Journal{
		kind: kind, counts: counts, live: map[types.UID]string{}, made: map[types.UID]string{}, ending: map[types.UID]string{}, ready: map[types.UID]bool{},
		list: func(ctx context.Context) (client.ObjectList, error) {
			now := list.DeepCopyObject().(client.ObjectList)
			return now, c.List(ctx, now, options...)
		},
	}
	version, err := j.look(ctx)
	Expect(err).NotTo(HaveOccurred())
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	lister := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
		return c.Watch(ctx, list.DeepCopyObject().(client.ObjectList), append(slices.Clone(options), &client.ListOptions{Raw: &raw})...)
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for watching.Err() == nil {
			j.follow(watching, lister, version)
			version = j.lookAgain(watching)
		}
	}()
	DeferCleanup(func() {
		cancel()
		<-done
	})
	return j
}

// follow notes what happens from version on, until ctx ends or the API server no longer knows that version.
func (j *Journal) follow(ctx context.Context, lister *cache.ListWatch, version string) {
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, lister)
	if err != nil {
		j.accuse("watching from %s: %v", version, err)
		return
	}
	defer func() { <-watcher.Done() }()
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(client.Object)
		if ok && event.Type != watch.Error {
			j.see(event.Type, object)
			continue
		}
		if !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
			j.accuse("the watch broke: %v", event.Object)
		}
		return
	}
}

// look compares with what is there, and returns the version of that.
func (j *Journal) look(ctx context.Context) (string, error) {
	now, err := j.list(ctx)
	if err != nil {
		return "", err
	}
	there := map[types.UID]bool{}
	err = j.each(now, func(object client.Object) {
		there[object.GetUID()] = true
		j.see(watch.Added, object)
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	for uid, name := range j.live {
		if !there[uid] {
			j.ending[uid] = name
			delete(j.live, uid)
		}
	}
	return now.GetResourceVersion(), err
}

// lookAgain looks until the API server answers.
func (j *Journal) lookAgain(ctx context.Context) string {
	ticker := time.NewTicker(Glance)
	defer ticker.Stop()
	for {
		if version, err := j.look(ctx); err == nil {
			return version
		}
		select {
		case <-ctx.Done():
			return ""
		case <-ticker.C:
		}
	}
}

func (j *Journal) accuse(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrong = append(j.wrong, j.kind+": "+fmt.Sprintf(format, args...))
}

// each calls do for every object of list that counts.
func (j *Journal) each(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		if object := item.(client.Object); j.counts(object) {
			do(object)
		}
		return nil
	})
}

func (j *Journal) see(event watch.EventType, object client.Object) {
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
		return MachineReady(object)
	case *corev1.Node:
		return NodeReady(*object)
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

// Doomed is how many Machines have been ordered to go so far.
func (w *Witness) Doomed() int { return len(w.Machines.Ending()) }

// Made returns the sorted names of the objects ever seen. One that was made twice is there twice.
func (j *Journal) Made() []string { return j.names(j.made) }

// Ending returns the sorted names of the objects ever seen being deleted or gone.
func (j *Journal) Ending() []string { return j.names(j.ending) }

// Live returns the sorted names of the objects that are there now.
func (j *Journal) Live() []string { return j.names(j.live) }

func (j *Journal) names(of map[types.UID]string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(maps.Values(of))
}

// Expect says how the pool has fared since the witness came: exactly so many Machines made, the first ones
// included, and so many deleted, each with one pod and one Node, and no pod or Node gone whose Machine was not
// ordered to go.
func (w *Witness) Expect(ctx context.Context, wasMade, wasDeleted int) {
	GinkgoHelper()
	for _, j := range []*Journal{w.Machines, w.Pods, w.Nodes} {
		j.CatchUp(ctx)
		Expect(j.Verdict()).To(BeEmpty())
		Expect(j.Made()).To(HaveLen(wasMade), "every %s that ever was", j.kind)
		Expect(j.Ending()).To(HaveLen(wasDeleted), "every %s that was deleted", j.kind)
		Expect(j.Ending()).To(Equal(w.Machines.Ending()), "a %s goes for its Machine alone", j.kind)
	}
}

// Verdict is what must never have happened, and did.
func (j *Journal) Verdict() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.wrong)
}

// CatchUp waits until the watch has told all that the API server knows.
func (j *Journal) CatchUp(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		list, err := j.list(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		var names []string
		g.Expect(j.each(list, func(object client.Object) { names = append(names, object.GetName()) })).To(Succeed())
		slices.Sort(names)
		g.Expect(j.Live()).To(Equal(names))
	}).Should(Succeed(), "the watch of every %s goes on", j.kind)
}
