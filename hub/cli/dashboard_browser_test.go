package cli_test

import (
	"math/rand/v2"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	chromium "github.com/hollowfleet/hollowfleet/internal/dev/browser"
)

// tileStates are the states of clusters on the map, by their names.
const tileStates = "Object.fromEntries([...document.querySelectorAll('li.tile')].map(t => [t.querySelector('a').textContent, t.querySelector('.state').textContent]))"

// Claim: What an open page shows in a browser is what the API says while clusters freeze and thaw, and no script of an object runs. Broken: a watch event not applied; the stream of a page without changes of conditions.
func TestABrowserShowsWhatTheAPISays(t *testing.T) {
	if testing.Short() && os.Getenv(chromium.RequiredVariable) == "" {
		t.Skip("it needs a browser")
	}
	started := chromium.Start(t)
	f := newEnv(t)
	var clusters []*v1alpha1.Cluster
	for range 6 {
		cluster := f.AcceptedCluster()
		f.ExpectConditionApplied(cluster, v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
		clusters = append(clusters, cluster)
	}
	page := started.Open()
	page.Resize(1280, 900, "dark")
	page.Visit(f.openDashboard().address)
	frozen := map[string]bool{}
	shown := func() map[string]bool {
		states, found := map[string]string{}, map[string]bool{}
		page.Evaluate(tileStates, &states)
		for _, cluster := range clusters {
			if state, is := states[cluster.Name]; is {
				found[cluster.Name] = state == "Frozen"
			}
		}
		return found
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		cluster := clusters[random.IntN(len(clusters))]
		f.ExpectExists(cluster)
		status := metav1.ConditionTrue
		if frozen[cluster.Name] {
			status = metav1.ConditionFalse
		}
		f.ExpectConditionApplied(cluster, v1alpha1.FrozenCondition, status, v1alpha1.ReasonManualFreeze)
		for _, one := range clusters {
			f.ExpectExists(one)
			condition := f.ReadCondition(one, v1alpha1.FrozenCondition)
			frozen[one.Name] = condition != nil && condition.Status == metav1.ConditionTrue
		}
		f.Eventually(shown).WithTimeout(patience).Should(Equal(frozen))
	}
	f.Expect(page.Errors()).To(BeEmpty())
}
