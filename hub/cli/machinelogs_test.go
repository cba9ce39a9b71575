package cli_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// requests are those for logs in the cluster's namespace.
func (f *machineEnv) requests() []v1alpha1.MachineLogRequest {
	f.T.Helper()
	list := &v1alpha1.MachineLogRequestList{}
	f.Expect(f.Client.List(f.T.Context(), list, client.InNamespace(f.name))).To(Succeed())
	return list.Items
}

// answers plays the agent: it answers each request, until the function that it returns is called.
func (f *machineEnv) answers(status v1alpha1.MachineLogRequestStatus) (stop func()) {
	ctx, cancel := context.WithCancel(f.T.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			list := &v1alpha1.MachineLogRequestList{}
			_ = f.Client.List(ctx, list, client.InNamespace(f.name))
			for i := range list.Items {
				if request := &list.Items[i]; request.Status.Phase == v1alpha1.MachineLogPending {
					request.Status = status
					_ = f.Client.Status().Update(ctx, request)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// Claim: `machine logs` prints what the agent read, as text and not as commands to the terminal, and leaves no request behind. Broken: the request stays.
func TestTheLogOfAMachineIsPrinted(t *testing.T) {
	f := newMachineEnv(t)
	stop := f.answers(v1alpha1.MachineLogRequestStatus{Phase: v1alpha1.MachineLogAnswered, Log: "one\n<b>two\x1b]0;title\a\n", Truncated: true, Pod: "hollowfleet/workers-1-a"})
	r := f.hollow("machine logs workers-1-a -n NAME --since 10m -p --tail 2")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(Equal("one\n<b>two\\x1b]0;title\\x07\n"))
	f.Expect(r.errOut).To(Equal("Earlier lines are left out: all have no room.\n"))
	f.Expect(f.requests()).To(BeEmpty(), "what may be secret is not kept")
	r = f.hollow("machine get workers-1-a -n NAME")
	f.Expect(r.out).To(ContainSubstring("Log of pod hollowfleet/workers-1-a, the last 2 lines:\n  one\n  <b>two\\x1b]0;title\\x07\n"))
	var document struct {
		Log struct {
			Lines     []string
			Truncated bool
		}
	}
	f.Expect(json.Unmarshal([]byte(f.succeeds("machine get workers-1-a -n NAME -o json")), &document)).To(Succeed())
	f.Expect(document.Log.Lines).To(HaveLen(2))
	stop()

	stop = f.answers(v1alpha1.MachineLogRequestStatus{Phase: v1alpha1.MachineLogFailed, Reason: v1alpha1.LogReasonUnavailable, Message: "no \x1b[1manswer"})
	r = f.hollow("machine logs workers-1-a -n NAME --since 10m -p")
	f.Expect(r.code).To(Equal(1), r.errOut)
	f.Expect(r.errOut).To(And(ContainSubstring("logs workers-1-a -n hollowfleet -c hollow-node --tail 100 --since 10m0s --previous"),
		ContainSubstring(`the agent cannot read the log: Unavailable: no \x1b[1manswer`)))
	stop()
	defer f.answers(v1alpha1.MachineLogRequestStatus{Phase: v1alpha1.MachineLogFailed, Reason: v1alpha1.LogReasonMachineNotFound, Message: "gone"})()
	f.fails(3, "gone", "machine logs workers-1-a -n NAME")
}

// Claim: Where no agent answers, `machine logs` ends in bounded time with the command that reads the log in the workload cluster. Broken: a silent agent is waited for.
func TestALogThatNobodyReads(t *testing.T) {
	f := newMachineEnv(t)
	const instead = "To read the log without the hub: kubectl --kubeconfig WORKLOAD-KUBECONFIG logs workers-1-a"
	r := f.hollow("machine logs workers-1-a -n NAME --timeout 500ms")
	f.Expect(r.code).To(Equal(5), r.errOut)
	f.Expect(r.errOut).To(And(ContainSubstring(instead), ContainSubstring("has not answered within 500ms: it is of an earlier release, suspended")))
	f.Expect(f.requests()).To(BeEmpty())

	ended := make(chan run, 1)
	go func() { ended <- f.hollow("machine logs workers-1-a -n NAME") }()
	f.Eventually(f.requests).WithTimeout(patience).Should(HaveLen(1))
	f.ExpectDeleted(&f.requests()[0])
	f.Eventually(ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(4), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("more than it may have"), "the hub deletes what is too much")

	f.ExpectConditionApplied(f.cluster, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown, v1alpha1.ReasonAgentSilent)
	started := time.Now()
	r = f.hollow("machine logs workers-1-a -n NAME --timeout 1h")
	f.Expect(r.code).To(Equal(5), r.errOut)
	f.Expect(r.errOut).To(And(ContainSubstring(instead), ContainSubstring("is silent: said by the test")))
	f.Expect(time.Since(started)).To(BeNumerically("<", time.Minute))

	class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "small"}}
	f.ExpectDeleted(class)
	class.ResourceVersion, class.Spec.Provider = "", v1alpha1.ProviderKwok
	f.ExpectApplied(class)
	f.fails(4, "nothing runs for it that would write a log", "machine logs workers-1-a -n NAME")
	f.Expect(f.succeeds("machine get workers-1-a -n NAME")).To(And(ContainSubstring("Provider:    kwok"), Not(ContainSubstring("Log"))))
	for _, bad := range []string{"--tail 0", "--tail 1001", "--since 1ms", "--since 169h", "--timeout 0s"} {
		f.fails(2, strings.Fields(bad)[0], "machine logs workers-1-a -n NAME "+bad)
	}
	f.fails(3, "does not exist in namespace", "machine logs nope -n NAME")
}

// Claim: Only who has hollowfleet-log-reader reads logs through the hub. Broken: a viewer may.
func TestAViewerReadsNoLog(t *testing.T) {
	f := newMachineEnv(t)
	f.Expect(config.Apply(t.Context(), f.Client, config.RBAC, "rbac/users")).To(Succeed())
	defer f.answers(v1alpha1.MachineLogRequestStatus{Phase: v1alpha1.MachineLogAnswered, Log: "a line"})()
	bind := func(user, role string) {
		f.ExpectApplied(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: user + role},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}})
	}
	viewer, reader := testenv.Name(), testenv.Name()
	bind(viewer, "hollowfleet-viewer")
	bind(viewer, "hollowfleet-editor")
	bind(reader, "hollowfleet-log-reader")
	f.Eventually(func() string { return f.as(reader, "machine logs workers-1-a -n NAME").out }).WithTimeout(patience).Should(Equal("a line\n"))
	f.Eventually(func() string { return f.as(viewer, "machine logs workers-1-a -n NAME").errOut }).WithTimeout(patience).Should(And(
		ContainSubstring("you need ClusterRole hollowfleet-log-reader"), ContainSubstring("To read the log without the hub")))
	refused := f.as(viewer, "machine logs workers-1-a -n NAME")
	f.Expect(refused.code).To(Equal(4))
	f.Expect(refused.out).To(BeEmpty())
	f.Expect(f.as(viewer, "machine get workers-1-a -n NAME").out).To(And(ContainSubstring("NodeNotReady"), ContainSubstring("Log: not read")))
}

// Claim: `machine logs -f` prints what is added to a log, says since when the agent has not answered and when it does again, and ends when it is interrupted or --for is over, with the command that follows the log in the workload cluster. Broken: old lines printed again; a silent agent ends it without a word; a request left behind.
func TestALogIsFollowed(t *testing.T) {
	f := newMachineEnv(t)
	for _, bad := range []string{"-f -p", "-f --for 0s", "-f --for 2h"} {
		r := f.hollow("machine logs workers-1-a -n NAME " + bad)
		f.Expect(r.code).To(Equal(2), bad+": "+r.errOut)
	}
	answer := func(log string) func() {
		return f.answers(v1alpha1.MachineLogRequestStatus{Phase: v1alpha1.MachineLogAnswered, Log: log, Pod: "hollowfleet/workers-1-a"})
	}
	stop := answer("one\ntwo\n")
	shown := f.follows("machine logs workers-1-a -n NAME -f --timeout 2s")
	shown.shows("^one\ntwo\n$")
	stop()
	stop = answer("two\nthree\x1b[2J\n")
	shown.shows("^one\ntwo\nthree" + regexp.QuoteMeta(`\x1b[2J`) + "\n$")
	stop()
	f.Eventually(f.requests).WithTimeout(patience).ShouldNot(BeEmpty(), "it asks again")
	f.Eventually(f.requests).WithTimeout(patience).Should(BeEmpty(), "no agent answers, and the request is deleted")
	stop = answer("three\\x1b[2J\nfour\n")
	shown.shows("four\n$")
	stop()
	shown.interrupt()
	var r run
	f.Eventually(shown.ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(130), r.errOut)
	f.Expect(r.errOut).To(And(MatchRegexp(`Nothing new is known since \d\d:\d\d:\d\d: the agent of cluster \S+ has not answered within 2s.*The command continues to ask`),
		ContainSubstring("Answered again after "), ContainSubstring("To follow the log without the hub: kubectl "), ContainSubstring(" --follow")))
	f.Expect(f.requests()).To(BeEmpty())

	stop = answer("one\n")
	shown = f.follows("machine logs workers-1-a -n NAME -f")
	shown.shows("^one\n$")
	stop()
	stop = f.answers(v1alpha1.MachineLogRequestStatus{Phase: v1alpha1.MachineLogFailed, Reason: v1alpha1.LogReasonMachineNotFound, Message: "another one"})
	f.Eventually(shown.ended).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(3), "a Machine that is gone is not waited for: "+r.errOut)
	stop()
	defer answer("one\n")()
	r = f.hollow("machine logs workers-1-a -n NAME -f --for 1s")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(Equal("one\n"))
	f.Expect(r.errOut).To(ContainSubstring("Stopped after 1s (--for)"))
}
