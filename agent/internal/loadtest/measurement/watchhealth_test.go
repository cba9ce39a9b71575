package measurement

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestWatchesThatAreInterruptedAreCounted(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	health := newWatchHealth(clock)
	var fake *watch.FakeWatcher
	list := health.observeWatch(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &corev1.PodList{}, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			fake = watch.NewFakeWithChanSize(1, false)
			return fake, nil
		},
	})
	begin := func() watch.Interface {
		w, err := list.WatchWithContext(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return w
	}
	end := func(w watch.Interface) {
		fake.Stop()
		g.Eventually(w.ResultChan()).Should(BeClosed())
	}
	_, err := list.ListWithContext(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	first := begin()
	health.markStarted()
	fake.Add(&corev1.Pod{})
	g.Eventually(first.ResultChan()).Should(Receive())
	clock.Step(10 * time.Minute)
	end(first)
	clock.Step(longestGap)
	second := begin()
	g.Expect(health.countInterruptions()).To(BeZero(), "API servers end watches")
	end(second)
	clock.Step(longestGap + time.Millisecond)
	third := begin()
	g.Expect(health.countInterruptions()).To(BeEquivalentTo(1))
	end(third)
	_, err = list.ListWithContext(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(health.countInterruptions()).To(BeEquivalentTo(2), "what was missed is listed")
	fourth := begin()
	fake.Add(&corev1.Pod{})
	fourth.Stop()
	g.Eventually(fourth.ResultChan()).Should(BeClosed(), "without a reader of the event, nothing waits forever")
}
