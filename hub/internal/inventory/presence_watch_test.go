package inventory

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const patience = 2 * time.Minute

func TestUsable(t *testing.T) {
	established := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}
	for name, row := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		usable bool
	}{
		"established":     {func(*apiextensionsv1.CustomResourceDefinition) {}, true},
		"just created":    {func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.Conditions = nil }, false},
		"not established": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.Conditions[1].Status = "False" }, false},
		"being deleted":   {func(d *apiextensionsv1.CustomResourceDefinition) { d.DeletionTimestamp = &metav1.Time{} }, false},
		"another version": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[1].Name = "v2" }, false},
		"version retired": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[1].Served = false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			definition.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1beta1", Served: true}, {Name: "v1", Served: true}}
			definition.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue}, established,
			}
			row.change(definition)
			NewWithT(t).Expect(Usable(definition, "v1")).To(Equal(row.usable))
		})
	}
}

// started runs a Watch until the test ends, which then finds that it ended well and stopped its work.
func started(t *testing.T, watch *Watch, running *atomic.Int32) {
	t.Helper()
	watch.Config, watch.Definition, watch.Version = testenv.Server().Config, testenv.ManagedClusters.Names[0], "v1"
	var err error
	if watch.HTTPClient, err = rest.HTTPClientFor(testenv.Server().Config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- watch.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Eventually(done).WithTimeout(patience).Should(Receive(BeNil()))
		NewWithT(t).Expect(running.Load()).To(BeZero(), "the work outlives the watch")
		if err := testenv.ManagedClusters.Uninstall(context.Background(), testenv.Server().Client); err != nil {
			t.Error(err)
		}
	})
}

func TestWorkRunsWhileTheDefinitionIsThere(t *testing.T) {
	g := NewWithT(t)
	var starts, running, absent atomic.Int32
	started(t, &Watch{
		Present: func(ctx context.Context, _ Served) error {
			starts.Add(1)
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			return nil
		},
		Absent: func(context.Context) error {
			if running.Load() != 0 {
				t.Error("tidying up before the work has ended")
			}
			absent.Add(1)
			return nil
		},
	}, &running)
	g.Eventually(absent.Load).WithTimeout(patience).Should(BeEquivalentTo(1))
	for turn := range int32(2) {
		g.Expect(testenv.ManagedClusters.Install(t.Context(), testenv.Server().Client)).To(Succeed())
		g.Eventually(running.Load).WithTimeout(patience).Should(BeEquivalentTo(1))
		g.Expect(testenv.ManagedClusters.Install(t.Context(), testenv.Server().Client)).To(Succeed(), "once more, which changes nothing")
		g.Expect(testenv.ManagedClusters.Uninstall(t.Context(), testenv.Server().Client)).To(Succeed())
		g.Eventually(absent.Load).WithTimeout(patience).Should(Equal(turn + 2))
		g.Expect(running.Load()).To(BeZero())
		g.Expect(starts.Load()).To(Equal(turn + 1))
	}
}

func TestWorkThatFailsIsStartedAgain(t *testing.T) {
	g := NewWithT(t)
	g.Expect(testenv.ManagedClusters.Install(t.Context(), testenv.Server().Client)).To(Succeed())
	var starts, running atomic.Int32
	started(t, &Watch{Present: func(ctx context.Context, _ Served) error {
		if starts.Add(1) == 1 {
			return errors.New("said by the test")
		}
		running.Add(1)
		defer running.Add(-1)
		<-ctx.Done()
		return nil
	}}, &running)
	g.Eventually(running.Load).WithTimeout(patience + retryAfter).Should(BeEquivalentTo(1))
	g.Expect(starts.Load()).To(BeEquivalentTo(2))
}
