package hub_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub"
)

var looks = regexp.MustCompile(`controller_runtime_reconcile_total\{controller="machineset",result="requeue_after"\} (\S+)`)

// looked is how often the hub has looked at a MachineSet.
func (r *env) looked() float64 {
	r.T.Helper()
	parts := looks.FindStringSubmatch(r.measured())
	r.Expect(parts).NotTo(BeNil())
	count, err := strconv.ParseFloat(parts[1], 64)
	r.Expect(err).NotTo(HaveOccurred())
	return count
}

func TestTheSafetyOptionsReachTheControllers(t *testing.T) {
	r := start(t, func(o *hub.Options) { o.Safety = hub.Safety{Up: 6, Down: 2, Period: 100 * time.Millisecond} })
	deployment := r.deployment(1)
	r.become(deployment, 1)
	sets := &v1alpha1.MachineSetList{}
	r.Expect(r.Client.List(t.Context(), sets, client.InNamespace(deployment.Namespace))).To(Succeed())
	r.Expect(sets.Items).To(HaveLen(1))
	set := &sets.Items[0]
	frozen := func(object client.Object, conditions *[]metav1.Condition) func() string {
		return func() string {
			r.ExpectExists(object)
			if found := meta.FindStatusCondition(*conditions, v1alpha1.FrozenCondition); found != nil {
				return found.Reason + ": " + found.Message
			}
			return ""
		}
	}
	ofSet, ofDeployment := frozen(set, &set.Status.Conditions), frozen(deployment, &deployment.Status.Conditions)

	// All come at once, as far as the hub is concerned: it does nothing about those that come first.
	r.order(deployment, map[string]string{v1alpha1.FreezeAnnotation: "strangers come"})
	r.Eventually(ofSet).WithTimeout(time.Minute).Should(HavePrefix(v1alpha1.ReasonManualFreeze))
	r.intrude(set, 9)
	// One and a surge of one are asked for: 2 + 6 - 2.
	thaws := And(HavePrefix(v1alpha1.ReasonOvershoot), ContainSubstring("when 6 or fewer are left"))
	r.Eventually(ofSet).WithTimeout(time.Minute).Should(thaws)
	r.Eventually(ofDeployment).WithTimeout(time.Minute).Should(thaws)
	r.order(deployment, nil)
	r.Eventually(ofSet).WithTimeout(time.Minute).Should(And(thaws, Not(ContainSubstring("strangers come"))))
	r.Eventually(ofDeployment).WithTimeout(time.Minute).Should(And(thaws, Not(ContainSubstring("strangers come"))))

	before := r.looked()
	r.Eventually(r.looked).WithTimeout(50*time.Second).Should(BeNumerically(">", before+20), "a surplus is looked at every period, which is a minute by default")
}
