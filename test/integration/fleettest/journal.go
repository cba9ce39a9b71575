package fleettest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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
)

// Journal is what has happened to the objects of one kind. After a break it continues with the resource version at
// which it stopped, and so misses nothing. An API server that was restarted meanwhile has forgotten that, but its etcd
// has not: then the journal looks at what was there at each version since, for an object may have come and gone.
type Journal struct {
	subject
	client client.WithWatch

	mu sync.Mutex
	// live, made and ending are names by UID: there now, ever seen, and ever seen being deleted or gone.
	live, made, ending map[types.UID]string
	// wasReady were Ready when last seen.
	wasReady map[types.UID]bool
	bound    Bound
	rebooted bool
	// wrong is what must never happen.
	wrong []string
}

// subject is what a journal is about.
type subject struct {
	kind   string
	config *rest.Config
	scheme *runtime.Scheme
	// list is an empty list of the kind, and options say what belongs into it.
	list    client.ObjectList
	options []client.ListOption
	// counts tells which objects of the list count, nil all. ready tells which are Ready, nil of what is not asked.
	counts, ready func(client.Object) bool
}

// Bound is what must hold at every change: never more objects than Most, those that are going included, and never
// fewer than Least that are Ready and not going. None may lose its readiness, unless Reboots.
type Bound struct {
	Least, Most int
	// Reboots is that processes of nodes are killed: their Machines are not Ready until they have started again.
	Reboots bool
}

func newJournal(of subject, c client.WithWatch) *Journal {
	return &Journal{
		subject: of, client: c, bound: Bound{Most: math.MaxInt},
		live: map[types.UID]string{}, made: map[types.UID]string{}, ending: map[types.UID]string{}, wasReady: map[types.UID]bool{},
	}
}

// keepJournal keeps one until the spec or suite that calls it ends.
func keepJournal(ctx context.Context, of subject) *Journal {
	GinkgoHelper()
	c, err := client.NewWithWatch(of.config, client.Options{Scheme: of.scheme})
	Expect(err).NotTo(HaveOccurred())
	j := newJournal(of, c)
	version, err := j.look(ctx)
	Expect(err).NotTo(HaveOccurred())
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	lister := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
		version = raw.ResourceVersion // Up to there all has been told. No other goroutine reads it while the watch continues.
		return c.Watch(ctx, j.empty(), append(slices.Clone(j.options), &client.ListOptions{Raw: &raw})...)
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for watching.Err() == nil {
			j.follow(watching, lister, version)
			version = j.lookAgain(watching, version)
		}
	}()
	DeferCleanup(func() {
		cancel()
		<-done
	})
	return j
}

func (j *Journal) empty() client.ObjectList { return j.list.DeepCopyObject().(client.ObjectList) }

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
			j.weigh()
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
	now := j.empty()
	if err := j.client.List(ctx, now, j.options...); err != nil {
		return "", err
	}
	return now.GetResourceVersion(), j.compare(now)
}

// lookThrough compares with what was there at each version after the given one until now. It returns up to which
// version it has come.
func (j *Journal) lookThrough(ctx context.Context, version string) (string, error) {
	now := j.empty()
	if err := j.client.List(ctx, now, j.options...); err != nil {
		return version, err
	}
	seen, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return version, err
	}
	last, err := strconv.ParseUint(now.GetResourceVersion(), 10, 64)
	if err != nil {
		return version, err
	}
	if last < seen {
		return now.GetResourceVersion(), j.compare(now) // The API server has gone back to an older state.
	}
	for ; seen < last; seen++ {
		then := j.empty()
		at := &client.ListOptions{Raw: &metav1.ListOptions{
			ResourceVersion: strconv.FormatUint(seen+1, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		}}
		err := j.client.List(ctx, then, append(slices.Clone(j.options), at)...)
		if apierrors.IsResourceExpired(err) {
			then, seen, err = now, last-1, nil // After five minutes etcd has forgotten too.
		}
		if err == nil {
			err = j.compare(then)
		}
		if err != nil {
			return strconv.FormatUint(seen, 10), err
		}
	}
	return strconv.FormatUint(seen, 10), nil
}

// compare notes how what is there differs from what was there before.
func (j *Journal) compare(now client.ObjectList) error {
	there := map[types.UID]bool{}
	err := j.each(now, func(object client.Object) {
		there[object.GetUID()] = true
		j.see(watch.Added, object)
	})
	j.miss(there)
	j.weigh()
	return err
}

// miss notes what has gone while no watch ran.
func (j *Journal) miss(there map[types.UID]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for uid, name := range j.live {
		if !there[uid] {
			j.ending[uid] = name
			delete(j.live, uid)
		}
	}
}

// lookAgain looks at all that has happened since version, until the API server has answered, and returns up to which
// version that is.
func (j *Journal) lookAgain(ctx context.Context, version string) string {
	ticker := time.NewTicker(Glance)
	defer ticker.Stop()
	for {
		var err error
		if version, err = j.lookThrough(ctx, version); err == nil {
			return version
		}
		select {
		case <-ctx.Done():
			return version
		case <-ticker.C:
		}
	}
}

func (j *Journal) accuse(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrong = append(j.wrong, time.Now().Format("15:04:05.000 ")+j.kind+": "+fmt.Sprintf(format, args...))
}

// each calls do for every object of list that counts.
func (j *Journal) each(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		if object := item.(client.Object); j.counts == nil || j.counts(object) {
			do(object)
		}
		return nil
	})
}

func (j *Journal) see(event watch.EventType, object client.Object) {
	if event == watch.Bookmark || j.counts != nil && !j.counts(object) {
		return
	}
	name, uid := object.GetName(), object.GetUID()
	if restarts := restartsOf(object); restarts > 0 && !j.mayReboot() {
		j.accuse("%s has restarted %d times", name, restarts)
	}
	ready, ending := j.ready != nil && j.ready(object), event == watch.Deleted || object.GetDeletionTimestamp() != nil
	j.mu.Lock()
	lost := j.wasReady[uid] && !ready && !ending && !j.bound.Reboots
	j.wasReady[uid], j.made[uid] = ready, name
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
		j.accuse("%s has lost its readiness: %s", name, readinessOf(object))
	}
}

// weigh compares with the bound. The API server tells of the changes in the order in which they were, so what the
// journal has after each of them is what really was.
func (j *Journal) weigh() {
	j.mu.Lock()
	live, available, bound := len(j.live), j.available(), j.bound
	j.mu.Unlock()
	if live > bound.Most {
		j.accuse("there were %d, and never more than %d may be", live, bound.Most)
	}
	if available < bound.Least {
		j.accuse("only %d were available, and never fewer than %d may be", available, bound.Least)
	}
}

func (j *Journal) available() int {
	count := 0
	for uid := range j.live {
		if _, ending := j.ending[uid]; !ending && j.wasReady[uid] {
			count++
		}
	}
	return count
}

// Hold sets what must hold from now on. It holds nothing against what was before.
func (j *Journal) Hold(bound Bound) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bound, j.rebooted = bound, j.rebooted || bound.Reboots
}

// mayReboot reports whether processes of nodes have been killed. The count of their restarts stays.
func (j *Journal) mayReboot() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rebooted
}

// Available is how many are Ready and not going.
func (j *Journal) Available() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.available()
}

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

// Verdict is what must never have happened, and did.
func (j *Journal) Verdict() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.wrong)
}

// standing is an object's name, and whether it goes.
func standing(name string, going bool) string {
	if going {
		return name + " goes"
	}
	return name
}

// standing is so of what is there now.
func (j *Journal) standing() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []string
	for uid, name := range j.live {
		_, going := j.ending[uid]
		all = append(all, standing(name, going))
	}
	return all
}

// CatchUp waits until the watch has told all that the API server knows.
func (j *Journal) CatchUp(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		list := j.empty()
		g.Expect(j.client.List(ctx, list, j.options...)).To(Succeed())
		var there []string
		g.Expect(j.each(list, func(object client.Object) {
			there = append(there, standing(object.GetName(), object.GetDeletionTimestamp() != nil))
		})).To(Succeed())
		g.Expect(j.standing()).To(ConsistOf(there))
	}).Should(Succeed(), "the watch of every %s continues", j.kind)
}
