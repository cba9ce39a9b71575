package cli_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// screenText is an output that is read while it is written.
type screenText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screenText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screenText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A list that is watched shows what is chosen, and each row again when it changes.
func TestListsAreChosenAndWatched(t *testing.T) {
	f := newEnv(t)
	for name, labels := range map[string]map[string]string{f.name + "-a": {"list": f.name}, f.name + "-b": nil} {
		one := &v1alpha1.NodeDisruption{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		one.Spec.ClusterSelector, one.Spec.Faults = &metav1.LabelSelector{}, []disrupt.Fault{{Type: disrupt.NotReady}}
		one.Spec.Timing.Duration.Duration = 60e9
		f.ExpectApplied(one)
	}
	f.Expect(f.succeeds("disrupt list -l list=NAME")).To(And(ContainSubstring(f.name+"-a"), Not(ContainSubstring(f.name+"-b"))))
	f.fails(2, "--selector", "disrupt list -l =x=")
	f.fails(2, "--watch prints a table", "disrupt list -w -o json")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shown, ended := &screenText{}, make(chan run, 1)
	go func() { ended <- f.hollowOn(ctx, shown, "disrupt list -w -l list=NAME") }()
	f.Eventually(shown.String).WithTimeout(patience).Should(MatchRegexp(`(?s)^NAME .*` + f.name + `-a +\S+ .*`))
	late := &v1alpha1.NodeDisruption{ObjectMeta: metav1.ObjectMeta{Name: f.name + "-c", Labels: map[string]string{"list": f.name}}}
	late.Spec.ClusterSelector, late.Spec.Faults = &metav1.LabelSelector{}, []disrupt.Fault{{Type: disrupt.NotReady}}
	late.Spec.Timing.Duration.Duration = 60e9
	f.ExpectApplied(late)
	f.Eventually(shown.String).WithTimeout(patience).Should(MatchRegexp(`(?m)^` + f.name + `-c +Pending `))
	late.Status.Phase = v1alpha1.NodeDisruptionRunning
	f.ExpectStatusApplied(late)
	f.Eventually(shown.String).WithTimeout(patience).Should(MatchRegexp(`(?m)^` + f.name + `-c +Running `))
	cancel()
	f.Expect((<-ended).code).To(Equal(130))
}
