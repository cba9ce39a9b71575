package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/follow"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// view follows a namespace, as the whole, and the ConfigMaps of its name, as the parts. Their label "state" is what is shown of them.
type view struct {
	*env
	out, errOut bytes.Buffer
	mu          sync.Mutex
	seen        []string
}

func (v *view) follow(c client.WithWatch, known *corev1.Namespace) error {
	hub := &cmdutil.Hub{IOStreams: genericiooptions.IOStreams{Out: &v.out, ErrOut: &v.errOut}}
	ctx, cancel := context.WithTimeout(v.T.Context(), patience)
	defer cancel()
	return follow.InBars(ctx, hub, c, follow.Whole[*corev1.Namespace]{
		List: &corev1.NamespaceList{}, Known: known,
		See: func(now *corev1.Namespace) (follow.State, bool, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.seen = append(v.seen, now.Labels["state"])
			if now.Labels["state"] == "failed" {
				return follow.State{}, false, errors.New("it failed")
			}
			return follow.State{Line: "whole: " + now.Labels["state"]}, now.Labels["state"] == "done", nil
		},
	}, follow.Parts[*corev1.ConfigMap]{
		List: &corev1.ConfigMapList{}, Example: &corev1.ConfigMap{},
		See: func(part *corev1.ConfigMap) (follow.State, bool) {
			return follow.State{Line: part.Namespace + ": " + part.Labels["state"]}, part.Labels["foreign"] == ""
		},
		Count: func() int32 { return 1 },
	})
}

// states are those of the whole that were seen.
func (v *view) states() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string{}, v.seen...)
}

func (v *view) label(object client.Object, state string) {
	v.T.Helper()
	object.SetLabels(map[string]string{"state": state})
	v.ExpectApplied(object)
}

// A view shows each state of the whole and of its parts, and ends with the whole: by its state, by an error, and when it is deleted.
func TestALiveViewEndsWithWhatItFollows(t *testing.T) {
	v := &view{env: newEnv(t)}
	whole := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.name, Labels: map[string]string{"state": "started"}}}
	v.ExpectApplied(whole)
	part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: v.name, Namespace: v.name, Labels: map[string]string{"state": "one"}}}
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: v.name, Namespace: "default", Labels: map[string]string{"foreign": "x"}}}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: v.name + "-other", Namespace: v.name}}
	for _, one := range []client.Object{part, foreign, other} {
		v.ExpectApplied(one)
	}
	ended := make(chan error, 1)
	go func() { ended <- v.follow(v.Client, whole.DeepCopy()) }()
	v.Eventually(v.states, patience).Should(ContainElement("started"))
	v.label(part, "both")
	v.label(whole, "running")
	v.Eventually(v.states, patience).Should(ContainElement("running"))
	v.label(whole, "done")
	v.Eventually(ended, patience).Should(Receive(BeNil()))
	v.Expect(v.out.String()).To(And(ContainSubstring("whole: started\n"), ContainSubstring("whole: done\n"), Not(ContainSubstring("default:")), Not(ContainSubstring("other"))))
	v.Expect(v.errOut.String()).To(BeEmpty())

	v.label(whole, "failed")
	v.Expect(v.follow(v.Client, whole.DeepCopy())).To(MatchError("it failed"))
	v.Expect(v.out.String()).To(ContainSubstring(v.name + ": both\n"))

	v.ExpectDeleted(whole)
	v.Expect(cmdutil.Code(v.follow(v.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.name + "-gone"}}))).To(Equal(cmdutil.Missing))
}

// A watch may start with states older than the one that the command has read or written: they are not shown.
func TestALiveViewShowsNoOldStates(t *testing.T) {
	v := &view{env: newEnv(t)}
	whole := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.name, Labels: map[string]string{"state": "done"}}}
	v.ExpectApplied(whole)
	old := whole.DeepCopy()
	v.label(whole, "started")
	base, err := client.NewWithWatch(testenv.Server().Config, client.Options{Scheme: v.Client.Scheme()})
	v.Expect(err).NotTo(HaveOccurred())
	late := interceptor.NewClient(base, interceptor.Funcs{Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
		inner, err := c.Watch(ctx, list, options...)
		if _, is := list.(*corev1.NamespaceList); !is || err != nil {
			return inner, err
		}
		current := whole.DeepCopy()
		events := make(chan watch.Event)
		go func() {
			defer close(events)
			for event := range inner.ResultChan() {
				if event.Type == watch.Added { // It comes later.
					event.Object = old
				}
				events <- event
				if event.Type == watch.Bookmark {
					events <- watch.Event{Type: watch.Modified, Object: current}
				}
			}
		}()
		return watch.NewProxyWatcher(events), nil
	}})
	ended := make(chan error, 1)
	go func() { ended <- v.follow(late, whole.DeepCopy()) }()
	v.Eventually(v.states, patience).Should(ContainElement("started"))
	v.Consistently(ended, glance).ShouldNot(Receive())
	v.label(whole, "running")
	v.Eventually(v.states, patience).Should(ContainElement("running"))
	v.label(whole, "done")
	v.Eventually(ended, patience).Should(Receive(BeNil()))
	v.Expect(fmt.Sprint(v.states())).NotTo(HavePrefix("[done"))
}
