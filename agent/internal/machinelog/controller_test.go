package machinelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/hollow"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/redact"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// env is a Controller of a namespace of its own.
type env struct {
	*testenv.Env
	*Controller
	cluster string
	machine *v1alpha1.Machine
	// frozen is what the freeze says. read is what the source does.
	frozen error
	read   func(ctx context.Context, query hollow.LogQuery) (hollow.LogTail, error)
	mu     sync.Mutex
	asked  []hollow.LogQuery
}

func (f *env) Check() error { return f.frozen }

func (f *env) ReadTail(ctx context.Context, _ string, query hollow.LogQuery) (hollow.LogTail, error) {
	f.mu.Lock()
	f.asked = append(f.asked, query)
	f.mu.Unlock()
	return f.read(ctx, query)
}

func newEnv(t *testing.T) *env {
	t.Helper()
	f := &env{Env: testenv.NewEnv(t)}
	f.cluster = f.AcceptedCluster().Name
	template := testenv.Template(nil)
	template.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "small"}}
	f.machine = &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster, Name: "m1"}, Spec: v1alpha1.MachineSpec{ClusterName: f.cluster, MachineTemplateBody: template.Spec}}
	f.ExpectApplied(f.machine)
	f.read = func(context.Context, hollow.LogQuery) (hollow.LogTail, error) {
		return hollow.LogTail{Pod: "hosts/m1", Text: "one\ntwo \x1b[31m\n"}, nil
	}
	var err error
	f.Controller, err = New(Deps{
		Hub: clients.Hub{Namespace: f.cluster, Client: f.Client, Live: f.Client}, Freeze: f, Runtime: poll.Runtime{Clock: f.Env.Clock},
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, errors.New("not watched here")
		},
		Sources: map[string]Source{v1alpha1.ProviderHollow: f},
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.limiter = flowcontrol.NewFakeAlwaysRateLimiter()
	return f
}

// ask makes a request.
func (f *env) ask(name string, change func(*v1alpha1.MachineLogRequestSpec)) *v1alpha1.MachineLogRequest {
	f.T.Helper()
	request := &v1alpha1.MachineLogRequest{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster, Name: name}, Spec: v1alpha1.MachineLogRequestSpec{MachineName: "m1"}}
	if change != nil {
		change(&request.Spec)
	}
	f.ExpectApplied(request)
	return request
}

// answered lets the agent work, and returns the answer.
func (f *env) answered(request *v1alpha1.MachineLogRequest) v1alpha1.MachineLogRequestStatus {
	f.T.Helper()
	f.Expect(f.Work(f.T.Context())).To(Succeed())
	f.ExpectExists(request)
	return request.Status
}

// Claim: An agent answers a request for a log once, also while it is frozen; one that stands by does not. Broken: it is answered in every round.
func TestARequestIsAnsweredOnce(t *testing.T) {
	f := newEnv(t)
	f.frozen = &freeze.Error{Reason: v1alpha1.ReasonAnotherAgent}
	request := f.ask("log", func(s *v1alpha1.MachineLogRequestSpec) { s.TailLines, s.SinceSeconds, s.Previous = 7, 60, true })
	f.Expect(f.answered(request).Phase).To(Equal(v1alpha1.MachineLogPending), "another process works for the cluster")
	f.frozen = &freeze.Error{Reason: v1alpha1.ReasonManualFreeze}
	f.Expect(f.answered(request)).To(And(HaveField("Phase", v1alpha1.MachineLogAnswered), HaveField("Log", "one\ntwo \x1b[31m\n"), HaveField("Pod", "hosts/m1"), HaveField("Truncated", false)))
	f.Expect(request.Status.AnsweredAt.Time).To(BeTemporally("~", f.Env.Clock.Now(), time.Second))
	f.Expect(f.asked).To(Equal([]hollow.LogQuery{{Lines: 7, Bytes: mostRead, SinceSeconds: 60, Previous: true}}))
	f.answered(request)
	f.Expect(f.asked).To(HaveLen(1))
	f.Expect(f.awaitRound(t.Context())).To(Equal(retry), "a watch that fails is not made again at once")
}

// What cannot be read is answered with the reason and what helps, and stops no other request.
func TestALogThatCannotBeReadIsAnsweredWithTheReason(t *testing.T) {
	f := newEnv(t)
	pods := schema.GroupResource{Resource: "pods/log"}
	for name, test := range map[string]struct {
		change func(*v1alpha1.MachineLogRequestSpec)
		err    error
		reason string
		says   string
	}{
		"no-machine":      {func(s *v1alpha1.MachineLogRequestSpec) { s.MachineName = "nope" }, nil, v1alpha1.LogReasonMachineNotFound, "Machine nope does not exist"},
		"another-machine": {func(s *v1alpha1.MachineLogRequestSpec) { s.MachineUID = "earlier" }, nil, v1alpha1.LogReasonMachineNotFound, "another one"},
		"no-pod":          {nil, fmt.Errorf("getting: %w", &driver.NotFoundError{Machine: "m1"}), v1alpha1.LogReasonPodNotFound, "has no pod"},
		"no-earlier-run":  {func(s *v1alpha1.MachineLogRequestSpec) { s.Previous = true }, apierrors.NewBadRequest("previous terminated container not found"), v1alpha1.LogReasonPodNotFound, "no earlier run"},
		"not-started":     {nil, apierrors.NewBadRequest("container is waiting to start"), v1alpha1.LogReasonPodNotFound, "has no log yet"},
		"no-right":        {nil, apierrors.NewForbidden(pods, "m1", errors.New("cannot get")), v1alpha1.LogReasonForbidden, "config/rbac/agent-workload"},
		"silent":          {nil, context.DeadlineExceeded, v1alpha1.LogReasonUnavailable, "has not answered within 10s"},
		"broken":          {nil, errors.New("connection refused, token=s3cr3t"), v1alpha1.LogReasonUnavailable, "connection refused"},
		"endless":         {nil, errors.New(strings.Repeat("ä", 5000)), v1alpha1.LogReasonUnavailable, "ä"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f.read = func(context.Context, hollow.LogQuery) (hollow.LogTail, error) { return hollow.LogTail{}, test.err }
			g.Expect(f.answered(f.ask(name, test.change))).To(And(HaveField("Phase", v1alpha1.MachineLogFailed), HaveField("Reason", test.reason),
				HaveField("Message", And(ContainSubstring(test.says), Not(ContainSubstring("s3cr3t")))), HaveField("Log", "")))
		})
	}
	class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster, Name: "small"}, Spec: v1alpha1.MachineClassSpec{Provider: v1alpha1.ProviderKwok}}
	f.ExpectApplied(class)
	f.Expect(f.answered(f.ask("kwok", nil))).To(And(HaveField("Reason", v1alpha1.LogReasonNoLog), HaveField("Message", ContainSubstring("provider kwok"))))
}

// Claim: What is read for requests for logs is bounded by number. Broken: each of ten thousand is read at once.
func TestRequestsAreAnsweredAtARate(t *testing.T) {
	f := newEnv(t)
	f.limiter = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(perSecond, 2, f.Env.Clock)
	for i := range 5 {
		f.ask(fmt.Sprintf("log-%d", i), nil)
	}
	f.Expect(f.Work(t.Context())).To(Succeed())
	f.Expect(f.asked).To(HaveLen(2))
	f.Expect(f.awaitRound(t.Context())).To(Equal(retry), "the others are not forgotten")
	f.Env.Clock.Step(2 * time.Second)
	f.Expect(f.Work(t.Context())).To(Succeed())
	f.Expect(f.asked).To(HaveLen(4))
}

// A hub of an earlier release does not have the kind, and is rarely asked.
func TestAHubWithoutTheKind(t *testing.T) {
	f := newEnv(t)
	f.Hub.Live = refusing{f.Client, apierrors.NewNotFound(schema.GroupResource{Resource: "machinelogrequests"}, "")}
	f.Expect(f.Work(t.Context())).To(Succeed())
	f.Expect(f.awaitRound(t.Context())).To(Equal(poll.LongestSilence))
	f.Hub.Live = refusing{f.Client, errors.New("away")}
	f.Expect(f.Work(t.Context())).NotTo(Succeed())
	f.Expect(f.awaitRound(t.Context())).To(Equal(retry))
}

type refusing struct {
	client.Reader
	err error
}

func (r refusing) List(context.Context, client.ObjectList, ...client.ListOption) error { return r.err }

// Claim: The text of an answer is within its limit, valid, from the beginning of a line on, and without credentials. Broken: a token whose beginning was cut off stays.
func TestTheTextOfAnAnswer(t *testing.T) {
	long := strings.Repeat("a line of a log that says nothing\n", 10_000)
	for name, test := range map[string]struct {
		text, want string
		cut        bool
	}{
		"short":          {"one\n", "one\n", false},
		"empty":          {"", "", false},
		"no UTF-8":       {"a\xff\xfeb\x00c", "a\uFFFDbc", false},
		"a credential":   {"Authorization: Bearer abcdef\n", "Authorization: Bearer " + redact.Mark + "\n", false},
		"long":           {long + "last\n", "last\n", true},
		"one long line":  {strings.Repeat("ä", mostAnswered), "ä", true},
		"a long red one": {strings.Repeat("x", mostAnswered) + "\nlast\n", "last\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, cut := prepareText(test.text, false)
			g.Expect(got).To(HaveSuffix(test.want))
			g.Expect(cut).To(Equal(test.cut))
			g.Expect(len(got)).To(BeNumerically("<=", mostAnswered))
			g.Expect(utf8.ValidString(got)).To(BeTrue())
			if strings.HasPrefix(test.text, "a line") {
				g.Expect(got).To(HavePrefix("a line"))
			}
		})
	}
	got, cut := prepareText("f395accd246ae52d\nnext\n", true)
	NewWithT(t).Expect([]any{got, cut}).To(Equal([]any{"next\n", true}), "the first line has no beginning")
}
