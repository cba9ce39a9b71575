// Package upgrade starts the hub over what the hub, the agent and the commands of an older commit have stored.
package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// watched is how long nothing may happen after the hub has looked at all objects.
const watched = 5 * time.Second

func TestUpgrade(t *testing.T) {
	fleettest.Run(t, "Upgrade")
}

// The fleet of 9b97cca had a cluster with two MachineDeployments: "workers" belonged to a MachineFleet, which had adopted it and moved it to
// another kubelet, "paused" was paused with a new template. One NodeDisruption had ended, one was paused in its course, and a LoadTest had failed.
var _ = Describe("What an older fleet has stored", func() {
	// Claim: An upgrade of the hub deletes, replaces and forgets nothing of an older fleet. Broken: a field of a fleet's record has another name.
	It("should be read as before, and left as it is", func(ctx SpecContext) {
		environment, err := testenv.Start(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
		c := environment.Client
		Expect(hub.Install(ctx, environment.Config)).To(Succeed())
		before := restore(ctx, c, readStored("testdata/9b97cca.jsonl"))
		expectDecoded(ctx, c, before)

		running, stop := context.WithCancel(context.Background())
		var done sync.WaitGroup
		done.Go(func() {
			defer GinkgoRecover()
			Expect(hub.Run(running, hub.Options{Config: environment.Config, NoLeaderElection: true})).To(Succeed())
		})
		done.Go(func() { renewLease(running, c) })
		DeferCleanup(func() { stop(); done.Wait() })

		cluster := &v1alpha1.Cluster{}
		Eventually(func(g Gomega) {
			g.Expect(c.Get(ctx, client.ObjectKey{Name: "c1"}, cluster)).To(Succeed())
			for kind, status := range map[string]metav1.ConditionStatus{v1alpha1.ReadyCondition: metav1.ConditionTrue, v1alpha1.ClusterAgentConnectedCondition: metav1.ConditionTrue, v1alpha1.FrozenCondition: metav1.ConditionFalse} {
				g.Expect(meta.IsStatusConditionPresentAndEqual(cluster.Status.Conditions, kind, status)).To(BeTrue(), "%s: %v", kind, cluster.Status.Conditions)
			}
			fleet := &v1alpha1.MachineFleet{}
			g.Expect(c.Get(ctx, client.ObjectKey{Name: "workers"}, fleet)).To(Succeed())
			g.Expect(fleet.Status.Clusters.Updated).To(Equal(int32(1)))
			g.Expect(meta.IsStatusConditionTrue(fleet.Status.Conditions, v1alpha1.ReadyCondition)).To(BeTrue(), "%v", fleet.Status.Conditions)
		}).WithContext(ctx).WithTimeout(fleettest.Patience).Should(Succeed())
		Consistently(func(g Gomega) { expectKept(ctx, g, c, before) }).WithContext(ctx).WithTimeout(watched).Should(Succeed())
	}, SpecTimeout(2*fleettest.Patience))
})

// renewLease is the agent, as far as the hub hears it.
func renewLease(ctx context.Context, c client.Client) {
	for ctx.Err() == nil {
		patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.AgentLeaseName}}
		_ = c.Patch(ctx, lease, client.RawPatch(client.Merge.Type(), patch))
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// expectDecoded holds the types against what is stored: each field is one of today's.
func expectDecoded(ctx context.Context, c client.Client, stored []*unstructured.Unstructured) {
	GinkgoHelper()
	for _, object := range stored {
		fresh, err := c.Scheme().New(object.GroupVersionKind())
		Expect(err).NotTo(HaveOccurred())
		typed, is := fresh.(client.Object)
		Expect(is).To(BeTrue())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(object), typed)).To(Succeed())
		Expect(undecodable.Check(typed)).To(Succeed())
		encoded, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		Expect(err).NotTo(HaveOccurred())
		for _, part := range []string{"spec", "status"} {
			Expect(lostFields(object.Object[part], encoded[part], part)).To(BeEmpty(), "%s %s", object.GetKind(), object.GetName())
		}
	}
}

// lostFields are those of stored that read does not have as they are. An empty value may be left out.
func lostFields(stored, read any, path string) (lost []string) {
	switch stored := stored.(type) {
	case map[string]any:
		fields, _ := read.(map[string]any)
		for key, value := range stored {
			lost = append(lost, lostFields(value, fields[key], path+"."+key)...)
		}
	case []any:
		items, _ := read.([]any)
		for i, value := range stored {
			var item any
			if i < len(items) {
				item = items[i]
			}
			lost = append(lost, lostFields(value, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
		empty := slices.Contains([]any{nil, "", false, int64(0)}, stored)
		if fmt.Sprint(stored) != fmt.Sprint(read) && !(empty && read == nil) && !sameDuration(stored, read) {
			lost = append(lost, fmt.Sprintf("%s: %v, not %v", path, read, stored))
		}
	}
	return lost
}

// sameDuration reports whether both are the same duration, such as 1m and 1m0s.
func sameDuration(a, b any) bool {
	first, err := time.ParseDuration(fmt.Sprint(a))
	second, other := time.ParseDuration(fmt.Sprint(b))
	return err == nil && other == nil && first == second
}

// isText reports whether what was lost is a text for people, which each version may put in its own words.
func isText(lost string) bool {
	path, _, _ := strings.Cut(lost, ": ")
	return strings.HasSuffix(path, ".message") || strings.Contains(path, ".conditions[")
}

// expectKept holds all objects against what they were before the upgrade: there are no others, none is another one or is being deleted, and
// specs, finalizers and annotations are the same. So is what the status of runs and of what has ended says.
func expectKept(ctx context.Context, g Gomega, c client.Client, before []*unstructured.Unstructured) {
	count := map[string]int{}
	for _, was := range before {
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(was.GroupVersionKind())
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(was), now)).To(Succeed())
		name := was.GetKind() + " " + was.GetName()
		count[was.GetKind()]++
		g.Expect(now.GetUID()).To(Equal(was.GetUID()), name)
		g.Expect(now.GetDeletionTimestamp()).To(BeNil(), name)
		if was.GetKind() == "Lease" {
			continue
		}
		g.Expect(now.Object["spec"]).To(Equal(was.Object["spec"]), name)
		g.Expect(now.GetFinalizers()).To(Equal(was.GetFinalizers()), name)
		g.Expect(now.GetOwnerReferences()).To(Equal(was.GetOwnerReferences()), name)
		for key, value := range was.GetAnnotations() {
			g.Expect(now.GetAnnotations()).To(HaveKeyWithValue(key, value), name)
		}
		if slices.Contains([]string{"LoadTest", "LoadTestRun", "NodeDisruptionRun"}, was.GetKind()) || was.GetKind() == "NodeDisruption" && was.GetName() == "ended" {
			lost := slices.DeleteFunc(lostFields(was.Object["status"], now.Object["status"], "status"), isText)
			g.Expect(lost).To(BeEmpty(), name)
		}
	}
	for kind, number := range count {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		if kind != "Lease" {
			g.Expect(c.List(ctx, list)).To(Succeed())
			g.Expect(list.Items).To(HaveLen(number), kind)
		}
	}
}
