package machine

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/agent/driver"
)

func TestADeletionThatMeetsAChangeIsTriedAgainSoonAndIsNoProblem(t *testing.T) {
	b := newEnv(t)
	machine := b.create("conflict-m")
	b.ready(machine)
	b.Expect(b.driver.Set(machine.Name, driver.Failed, "evicted")).To(Succeed())
	const changed = "the pod has changed since it was read"
	for range 2 {
		b.driver.Fail("Delete", apierrors.NewConflict(corev1.Resource("pods"), machine.Name, errors.New(changed)))
		result, err := b.tryReconcile(machine)
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", conflictRetry)))
		b.Clock.Step(time.Minute) // What holds a status back does so no longer.
	}
	b.read(machine)
	for _, condition := range machine.Status.Conditions {
		b.Expect(condition.Message).NotTo(ContainSubstring(changed), condition.Type)
	}
	b.ExpectReconciled(machine)
	b.Expect(b.driver.Calls()).To(HaveExactElements("Create conflict-m", "Delete conflict-m", "Delete conflict-m", "Delete conflict-m"))
}
