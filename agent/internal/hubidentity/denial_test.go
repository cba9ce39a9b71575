package hubidentity

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var (
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, "c1", errors.New("no rights"))
	errSilent    = errors.New("connection refused")
)

func cluster(acceptance v1alpha1.Acceptance) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{}
	c.Name, c.Spec.Acceptance = "c1", acceptance
	return c
}

func TestBarred(t *testing.T) {
	accepted, denied := cluster(v1alpha1.AcceptanceAccepted), cluster(v1alpha1.AcceptanceDenied)
	type answer struct {
		err  error
		seen *v1alpha1.Cluster
	}
	in, refused, away := answer{nil, accepted}, answer{errForbidden, accepted}, answer{errSilent, accepted}
	tests := map[string]struct {
		answers []answer
		want    string
	}{
		"should deny no agent before the first answer":       {nil, ""},
		"should deny no agent that is let in":                {[]answer{in, in}, ""},
		"should believe the Cluster at once":                 {[]answer{in, {nil, denied}}, "Cluster c1 is denied"},
		"should believe it at the first answer too":          {[]answer{{nil, denied}}, "Cluster c1 is denied"},
		"should keep what was said first":                    {[]answer{in, {nil, denied}, refused, refused, refused}, "Cluster c1 is denied"},
		"should forgive a refusal or two":                    {[]answer{in, refused, refused}, ""},
		"should count refusals in a row only":                {[]answer{in, refused, refused, in, refused, refused}, ""},
		"should believe a third refusal":                     {[]answer{in, refused, refused, refused}, "the hub refuses this agent"},
		"should take silence neither for a refusal":          {[]answer{in, refused, away, away, refused}, ""},
		"nor for an answer in between":                       {[]answer{in, refused, away, refused, away, refused}, "the hub refuses this agent"},
		"should not believe in silence after a denial":       {[]answer{in, {nil, denied}, away}, "Cluster c1 is denied"},
		"should deny no agent that was never let in":         {[]answer{{errForbidden, nil}, {errForbidden, nil}, {errForbidden, nil}}, ""},
		"should let in who is accepted again":                {[]answer{in, {nil, denied}, refused, in}, ""},
		"should count again after that":                      {[]answer{in, refused, refused, refused, in, refused, refused}, ""},
		"should bar who is denied again":                     {[]answer{in, {nil, denied}, in, refused, refused, refused}, "the hub refuses this agent"},
		"should not take an old Cluster for news of today's": {[]answer{in, {errForbidden, denied}}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			denial := NewDenial(clock)
			for _, one := range test.answers {
				denial.Probed(one.err, one.seen)
			}
			why, blocked := denial.Blocked()
			g.Expect(blocked).To(Equal(test.want != ""))
			g.Expect(why.Message).To(HavePrefix(test.want))
			if blocked {
				g.Expect(why.Reason).To(Equal(v1alpha1.ReasonDenied))
				g.Expect(why.Since).To(Equal(clock.Now()))
			}
		})
	}
}

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		denial := NewDenial(clocktesting.NewFakePassiveClock(time.Now()))
		run := func() <-chan error {
			ended := make(chan error, 1)
			runnable := denial.Admission()
			go func() { ended <- runnable.Start(t.Context()) }()
			return ended
		}
		probed := func(acceptance v1alpha1.Acceptance) {
			synctest.Wait() // What runs has come as far as it can.
			denial.Probed(nil, cluster(acceptance))
			synctest.Wait()
		}
		probed(v1alpha1.AcceptanceAccepted)
		ended := run()
		synctest.Wait()
		g.Expect(ended).NotTo(Receive())
		probed(v1alpha1.AcceptanceDenied)
		g.Expect(ended).To(Receive(MatchError(ErrShutOut)))
		late := run()
		synctest.Wait()
		g.Expect(late).To(Receive(MatchError(ErrShutOut)), "what starts after that ends at once")

		probed(v1alpha1.AcceptanceAccepted)
		again := run()
		synctest.Wait()
		g.Expect(again).NotTo(Receive(), "what starts once it is let in continues")
		probed(v1alpha1.AcceptanceDenied)
		g.Expect(again).To(Receive(MatchError(ErrShutOut)))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g.Expect(NewDenial(clocktesting.NewFakePassiveClock(time.Now())).Admission().Start(ctx)).To(Succeed())
	})
}
