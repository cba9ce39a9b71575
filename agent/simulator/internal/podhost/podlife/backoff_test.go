package podlife

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
)

// delays runs nodes that end after these times, and returns how long each waited for its restart.
func delays(p *Pod, runs ...time.Duration) (waited []time.Duration) {
	for _, ran := range runs {
		<-time.After(ran)
		began := time.Now()
		p.awaitRestart()
		waited = append(waited, time.Since(began))
	}
	return waited
}

func newBackoffPod(first, last time.Duration) *Pod {
	return &Pod{
		runtime: &Runtime{Changed: func(types.UID) {}, Recorder: &record.FakeRecorder{}}, pod: &corev1.Pod{},
		ending: make(chan struct{}), backoff: flowcontrol.NewBackOff(first, last),
	}
}

func TestKubeletsDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := time.Second
		got := delays(newBackoffPod(10*s, 300*s), s, s, s, s, s, s, s, s, s)
		if want := []time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s, 300 * s}; !slices.Equal(got, want) {
			t.Errorf("the delays are %v, want %v", got, want)
		}
	})
}

func TestLongRunBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := time.Second
		if got := delays(newBackoffPod(s, 4*s), 0, 0, 0, 0, 0, 8*s, 9*s, 0, 0); !slices.Equal(got, []time.Duration{0, s, 2 * s, 4 * s, 4 * s, 4 * s, 0, s, 2 * s}) {
			t.Errorf("with a run of twice the maximum and a longer one the delays are %v", got)
		}
	})
}
