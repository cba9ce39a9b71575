package measurement

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/template"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// syncTimeout is how long the watches of a run may take to start.
const syncTimeout = 30 * time.Second

// handler is told what a watch shows. There says that the object was there before the watch started.
type handler struct {
	observe func(object any, there bool)
	gone    func(object any)
}

// OnAdd, OnUpdate and OnDelete implement cache.ResourceEventHandler.
func (h handler) OnAdd(object any, there bool) { h.observe(object, there) }

// OnUpdate implements cache.ResourceEventHandler.
func (h handler) OnUpdate(_, object any) { h.observe(object, false) }

// OnDelete implements cache.ResourceEventHandler.
func (h handler) OnDelete(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	h.gone(object)
}

// Start starts to follow Nodes, the pods in the run's namespaces, and the objects of its templates, until ctx ends. Pods are
// followed by namespace: those of Deployments and other kinds, known or not, have no label of the run.
func (m *Meter) Start(ctx context.Context, load *clients.Load, namespaces []string, templates map[string]*template.Template) error {
	m.load, m.watched = load, watchedKinds(&m.run.Spec.Load, templates)
	if err := m.checkWatchAccess(ctx, namespaces[0]); err != nil {
		return err
	}
	var synced []cache.InformerSynced
	begin := func(list cache.ListerWatcher, of runtime.Object, shrink cache.TransformFunc, h handler) {
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: list, ObjectType: of, Handler: h, Transform: shrink})
		go informer.RunWithContext(ctx)
		synced = append(synced, informer.HasSynced)
	}
	for _, namespace := range namespaces {
		begin(m.podsOf(namespace), &corev1.Pod{}, shrinkPod, m.podHandler())
	}
	for resource, kind := range m.watched {
		begin(m.watching.observeWatch(m.objectsOf(resource)), &unstructured.Unstructured{}, shrinkObject, m.objectHandler(kind))
	}
	hollow, err := m.nodeInformers.GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return fmt.Errorf("watching Nodes: %w", err)
	}
	registration, err := hollow.AddEventHandler(m.nodeHandler())
	if err != nil {
		return fmt.Errorf("watching Nodes: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = hollow.RemoveEventHandler(registration) })
	bounded, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(bounded.Done(), append(synced, registration.HasSynced)...) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("the watches of pods and of what the templates make have not started within %s", syncTimeout)
	}
	m.watching.markStarted()
	return nil
}

// checkWatchAccess reads once what is going to be followed: an informer would try without end, and not say why.
func (m *Meter) checkWatchAccess(ctx context.Context, namespace string) error {
	one := metav1.ListOptions{Limit: 1}
	if _, err := m.load.Clientset.CoreV1().Pods(namespace).List(ctx, one); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for resource := range m.watched {
		if _, err := m.objectsOf(resource).ListWithContext(ctx, one); err != nil {
			return fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
	}
	return nil
}

// watchedKinds are the kinds whose objects are waited for or measured, but pods.
func watchedKinds(load *v1alpha1.Load, templates map[string]*template.Template) map[schema.GroupVersionResource]schema.GroupKind {
	found := map[schema.GroupVersionResource]schema.GroupKind{}
	for _, step := range load.Steps {
		for _, phase := range step.Phases {
			template := templates[phase.Template]
			if template == nil || template.Kind.GroupKind() == podKind {
				continue
			}
			if kind := template.Kind.GroupKind(); phase.Wait == v1alpha1.LoadWaitReady && !readyAtOnce(kind) || phase.Wait == v1alpha1.LoadWaitGone || asksForPods(kind) {
				found[template.Resource] = kind
			}
		}
	}
	return found
}

func (m *Meter) podsOf(namespace string) cache.ListerWatcher {
	pods := m.load.Clientset.CoreV1().Pods(namespace)
	return m.watching.observeWatch(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	})
}

func (m *Meter) objectsOf(resource schema.GroupVersionResource) *cache.ListWatch {
	objects := m.load.Dynamic.Resource(resource)
	selector := v1alpha1.LoadTestRunUIDLabel + "=" + string(m.run.UID)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return objects.Watch(ctx, options)
		},
	}
}

func (m *Meter) podHandler() handler {
	return handler{
		observe: func(object any, _ bool) {
			pod, now := object.(*corev1.Pod), m.clock.Now()
			passed := m.offset.timeSince(pod.CreationTimestamp.Time, now)
			if first := m.Pods.observePod(pod, now, passed); first && passed > LongestLag {
				m.watching.lags.addTime(now, passed)
			}
			if m.Pods.isOwnPod(pod) {
				ready := podCondition(pod, corev1.PodReady) != nil || pod.Status.Phase == corev1.PodSucceeded
				m.Book.observeObject(place{pod.Labels[v1alpha1.LoadTemplateLabel], pod.Namespace, pod.Name}, ready, now)
			}
		},
		gone: func(object any) {
			pod := object.(*corev1.Pod)
			m.Pods.forgetPod(pod, m.clock.Now())
			m.Book.removeObject(place{pod.Labels[v1alpha1.LoadTemplateLabel], pod.Namespace, pod.Name})
		},
	}
}

func (m *Meter) objectHandler(kind schema.GroupKind) handler {
	at := func(object any) place {
		o := object.(*unstructured.Unstructured)
		return place{o.GetLabels()[v1alpha1.LoadTemplateLabel], o.GetNamespace(), o.GetName()}
	}
	return handler{
		observe: func(object any, _ bool) {
			now, o := m.clock.Now(), object.(*unstructured.Unstructured)
			pods, why := countLacking(kind, o)
			m.Book.noteLack(at(object), pods, why, now)
			took, first := m.Book.observeObject(at(object), objectReady(kind, o), now)
			if first {
				m.recordRollout(kind, took, now)
			}
		},
		gone: func(object any) { m.Book.removeObject(at(object)) },
	}
}

// recordRollout records how long a Deployment took.
func (m *Meter) recordRollout(kind schema.GroupKind, took time.Duration, now time.Time) {
	if kind == deploymentKind {
		m.Recorder.recordTime(measure.Key{Measurement: v1alpha1.LoadDeploymentRollout}, took, now)
	}
}

func (m *Meter) nodeHandler() handler {
	return handler{
		observe: func(object any, there bool) { m.Nodes.ObserveNode(object.(*corev1.Node), there, m.clock.Now()) },
		gone:    func(object any) { m.Nodes.forgetNode(object.(*corev1.Node).Name) },
	}
}

// shrinkPod leaves what is looked at, so that a hundred thousand pods fit into the agent's memory.
func shrinkPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, CreationTimestamp: pod.CreationTimestamp,
		OwnerReferences: pod.OwnerReferences, Labels: ownLabels(pod.Labels),
	}}
	small.Spec.NodeName = pod.Spec.NodeName
	small.Spec.Containers = make([]corev1.Container, len(pod.Spec.Containers))
	small.Status.Phase, small.Status.Conditions = pod.Status.Phase, pod.Status.Conditions
	small.Status.Reason, small.Status.Message = pod.Status.Reason, pod.Status.Message
	for _, status := range pod.Status.ContainerStatuses {
		small.Status.ContainerStatuses = append(small.Status.ContainerStatuses, corev1.ContainerStatus{State: status.State})
	}
	if podCondition(pod, corev1.PodInitialized) == nil {
		for _, status := range pod.Status.InitContainerStatuses {
			small.Status.InitContainerStatuses = append(small.Status.InitContainerStatuses, corev1.ContainerStatus{State: status.State})
		}
	}
	return small, nil
}

// shrinkObject leaves metadata, status, and what says how many pods it asks for.
func shrinkObject(object any) (any, error) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	small := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "status": o.Object["status"]}}
	small.SetNamespace(o.GetNamespace())
	small.SetName(o.GetName())
	small.SetUID(o.GetUID())
	small.SetResourceVersion(o.GetResourceVersion())
	small.SetGeneration(o.GetGeneration())
	small.SetLabels(ownLabels(o.GetLabels()))
	for _, field := range []string{"replicas", "parallelism", "completions"} {
		if number, found := nestedNumber(o, "spec", field); found {
			_ = unstructured.SetNestedField(small.Object, number, "spec", field)
		}
	}
	for _, field := range []string{"paused", "suspend"} {
		if set, _, _ := unstructured.NestedBool(o.Object, "spec", field); set {
			_ = unstructured.SetNestedField(small.Object, true, "spec", field)
		}
	}
	return small, nil
}

func ownLabels(all map[string]string) map[string]string {
	own := map[string]string{}
	for _, key := range []string{v1alpha1.LoadTestRunUIDLabel, v1alpha1.LoadTemplateLabel} {
		if value := all[key]; value != "" {
			own[key] = value
		}
	}
	return own
}

const (
	// longestGap is how long a watch may be interrupted: API servers end each from time to time, and it is started again at once.
	longestGap = time.Second
	// LongestLag is how long after the creation of an object, which is known in whole seconds, its watch may show it.
	LongestLag = 2 * time.Second
)

// watchHealth is how the watches of a run do. What they show late, or only after a list, has wrong times.
type watchHealth struct {
	clock clock.PassiveClock
	// lags has how late watches have shown new objects.
	lags longestByTime

	mu sync.Mutex
	// synced is that all watches have started.
	synced bool
	// interruptions counts those for longer than longestGap, and lists made again.
	interruptions int32
}

func newWatchHealth(clock clock.PassiveClock) *watchHealth { return &watchHealth{clock: clock} }

// markStarted notes that all watches have started.
func (w *watchHealth) markStarted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
}

// addInterruption counts an interruption of a watch that had started.
func (w *watchHealth) addInterruption() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced {
		w.interruptions++
	}
}

// countInterruptions is how many interruptions there were.
func (w *watchHealth) countInterruptions() int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.interruptions
}

// observeWatch lets a watch be observed.
func (w *watchHealth) observeWatch(list *cache.ListWatch) *cache.ListWatch {
	listed, watched := list.ListWithContextFunc, list.WatchFuncWithContext
	started, ended := false, time.Time{}
	var mu sync.Mutex
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			mu.Lock()
			if started {
				w.addInterruption()
			}
			mu.Unlock()
			return listed(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			inner, err := watched(ctx, options)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			// A list may come by a watch too.
			again := options.SendInitialEvents != nil && *options.SendInitialEvents
			if started && (again || w.clock.Since(ended) > longestGap) {
				w.addInterruption()
			}
			started = true
			return followWatch(inner, func() {
				mu.Lock()
				defer mu.Unlock()
				ended = w.clock.Now()
			}), nil
		},
	}
}

// followedWatch tells when the watch inside has ended.
type followedWatch struct {
	watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func followWatch(inner watch.Interface, ended func()) *followedWatch {
	w := &followedWatch{Interface: inner, events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(w.events)
		defer ended()
		for event := range inner.ResultChan() {
			select {
			case w.events <- event:
			case <-w.stopped:
				return
			}
		}
	}()
	return w
}

// ResultChan implements watch.Interface.
func (w *followedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *followedWatch) Stop() {
	w.once.Do(func() { close(w.stopped) })
	w.Interface.Stop()
}
