package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
)

const (
	testHost  = "127.0.0.1:4321"
	testToken = "a-token-that-is-hard-to-guess"
)

// site is a dashboard whose store has what the test puts there.
type site struct {
	*WithT
	*server
	clock *testclock.FakeClock
}

// newSite makes a dashboard of a hub that works and has these objects.
func newSite(t *testing.T, objects ...client.Object) *site {
	t.Helper()
	store, clock := newStore(nil, overview.Scope{}), testclock.NewFakeClock(time.Now())
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	s := &site{NewWithT(t), newLocalServer(cmdutil.NewHub(streams), store, testToken, testHost, "https://hub.example"), clock}
	s.server.clock = clock
	store.contact = contact{heard: clock.Now(), hub: cmdutil.HubState{Version: "v1", Holder: "hub-1"}}
	for _, kind := range store.kinds {
		kind.unread, kind.objects = nil, map[client.ObjectKey]client.Object{}
	}
	s.put(objects...)
	return s
}

// put puts objects into the store, as a watch does.
func (s *site) put(objects ...client.Object) {
	for _, object := range objects {
		kind := fmt.Sprintf("%T", object)
		kind = kind[strings.LastIndex(kind, ".")+1:]
		s.store.update(func() bool {
			s.store.kinds[kind].objects[client.ObjectKeyFromObject(object)] = trimObject(object)
			return true
		})
	}
	s.clock.Step(oldest)
	s.store.contact.heard = s.clock.Now()
}

// ask asks as a browser does on whose page the user clicks.
func (s *site) ask(method, path string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/"+testToken+path, nil)
	r.Host = testHost
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// show is a page that has to be there.
func (s *site) show(path string) string {
	w := s.ask(http.MethodGet, path, nil)
	s.Expect(w.Code).To(Equal(http.StatusOK), path+": "+w.Body.String())
	return w.Body.String()
}

var ready = []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady}}

func newCluster(name string, conditions ...metav1.Condition) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1, CreationTimestamp: metav1.Now()}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted},
		Status: v1alpha1.ClusterStatus{ObservedGeneration: 1, Conditions: append(append([]metav1.Condition{}, ready...), conditions...), KubernetesVersion: "v1.37.1",
			Machines: &v1alpha1.MachineCounts{Total: 3, Ready: 2}},
	}
}

func frozenSince(at time.Time, reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(at)}
}

// Claim: The dashboard answers only requests that name its own address and have its token, and changes nothing for another page. Broken: any host; any token; any origin of a form; a page without its policy.
func TestOnlyItsOwnPagesAreAnswered(t *testing.T) {
	s := newSite(t, newCluster("c1"))
	for name, tc := range map[string]struct {
		method string
		change func(*http.Request)
		want   int
	}{
		"own page":               {http.MethodGet, nil, 200},
		"by the name localhost":  {http.MethodGet, func(r *http.Request) { r.Host = "localhost:4321" }, 200},
		"without a token":        {http.MethodGet, func(r *http.Request) { r.URL.Path = "/" }, 403},
		"with a stale token":     {http.MethodGet, func(r *http.Request) { r.URL.Path = "/another/" }, 403},
		"with a part of it":      {http.MethodGet, func(r *http.Request) { r.URL.Path = "/" + testToken[:5] + "/" }, 403},
		"rebound name":           {http.MethodGet, func(r *http.Request) { r.Host = "evil.example:4321" }, 421},
		"another port":           {http.MethodGet, func(r *http.Request) { r.Host = "127.0.0.1:80" }, 421},
		"asset without a token":  {http.MethodGet, func(r *http.Request) { r.URL.Path = "/assets/dashboard.js" }, 403},
		"stream without a token": {http.MethodGet, func(r *http.Request) { r.URL.Path = "/live" }, 403},
		"form of another page":   {http.MethodPost, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		"form of unknown origin": {http.MethodPost, func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"form without an origin": {http.MethodPost, nil, 403},
		"form of another site": {http.MethodPost, func(r *http.Request) {
			r.Header.Set("Origin", "http://"+testHost)
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}, 403},
		"method that changes":     {http.MethodDelete, nil, 403},
		"form that leads nowhere": {http.MethodPost, func(r *http.Request) { r.Header.Set("Origin", "http://"+testHost) }, 405},
	} {
		w := s.ask(tc.method, "/", tc.change)
		if w.Code != tc.want {
			t.Errorf("%s: got %d, want %d: %s", name, w.Code, tc.want, w.Body)
		}
		if w.Code != 200 && strings.Contains(w.Body.String(), "c1") || w.Code != 200 && strings.Contains(w.Body.String(), testToken) {
			t.Errorf("%s: the refusal tells something of the fleet", name)
		}
		if got := w.Header().Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s: Content-Security-Policy %q", name, got)
		}
	}
	s.Expect(s.ask(http.MethodGet, "/", func(r *http.Request) { r.URL.Path = "/another/" }).Body.String()).To(ContainSubstring("Run it again"))
	s.Expect(s.ask(http.MethodGet, "/nothing", nil).Code).To(Equal(404))
	s.Expect(s.ask(http.MethodGet, "/assets/../server.go", nil).Code).NotTo(Equal(200))
	s.Expect(s.ask(http.MethodGet, "/assets/dashboard.css", nil).Header().Get("Content-Type")).To(Equal("text/css; charset=utf-8"))
}

const injected = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>` + "\u202e\x1b[31m"

// Claim: Texts of objects are shown as texts: no page of the dashboard contains markup or control characters that an agent or user wrote. Broken: a message put into a page as it is; characters that turn the direction of writing left in.
func TestTextsOfObjectsAreNoMarkup(t *testing.T) {
	now := time.Now()
	cluster := newCluster("c1", frozenSince(now, injected, injected))
	cluster.Status.KubernetesVersion, cluster.Status.AgentVersion = injected, injected
	set, machine := newMachines("c1", 1)
	machine[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: injected, Message: injected},
		{Type: v1alpha1.MachinePodRunningCondition, Status: metav1.ConditionFalse, Reason: injected, Message: injected}}
	deployment := newDeployment("c1")
	deployment.Spec.Template.Spec.Versions.Kubelet = injected
	test := &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a": injected}}, Status: v1alpha1.LoadTestStatus{Message: injected}}
	disruption := &v1alpha1.NodeDisruption{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Status: v1alpha1.NodeDisruptionStatus{Message: injected}}
	run := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "d", Labels: map[string]string{v1alpha1.NodeDisruptionNameLabel: injected}},
		Status: v1alpha1.NodeDisruptionRunStatus{StartTime: &metav1.Time{Time: now}}}
	fleet := &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: "f"}, Status: v1alpha1.MachineFleetStatus{Message: injected}}
	s := newSite(t, cluster, set, machine[0], deployment, test, disruption, run, fleet)
	s.store.kinds[health.MachineClass].unread = fmt.Errorf("%s", injected)
	for _, path := range []string{"/", "/clusters/c1", "/fleets", "/timeline", "/loadtests", "/?q=" + url.QueryEscape(injected) + "&state=" + url.QueryEscape(injected), "/timeline?span=" + url.QueryEscape(injected)} {
		text := s.show(path)
		s.Expect(text).NotTo(Or(ContainSubstring("<script>alert"), ContainSubstring("<img"), ContainSubstring("\u202e"), ContainSubstring("\x1b")), path)
		s.Expect(text).To(ContainSubstring("&lt;script&gt;alert(1)"), path)
	}
}

// Claim: The dashboard names each kind that the user may not read, and does not call the fleet healthy. Broken: a kind that was refused left out without a word.
func TestKindsThatMayNotBeReadAreNamed(t *testing.T) {
	s := newSite(t, newCluster("c1"))
	s.Expect(s.show("/")).To(And(ContainSubstring("The fleet is healthy"), ContainSubstring("c1")))
	for _, kind := range health.Kinds {
		s := newSite(t, newCluster("c1"))
		refused := apierrors.NewForbidden(schema.GroupResource{Resource: strings.ToLower(kind.Kind) + "s"}, "", fmt.Errorf("user x cannot list them"))
		s.store.noteBroken(kind.Kind, refused)
		for _, path := range []string{"/", "/fleets", "/timeline", "/loadtests"} {
			s.Expect(s.show(path)).To(And(Not(ContainSubstring("The fleet is healthy")), ContainSubstring(kind.Kind+": not checked: you may not list them")), path)
		}
	}
	s.store.noteBroken(health.MachineSet, apierrors.NewForbidden(schema.GroupResource{Resource: "machinesets"}, "", fmt.Errorf("no")))
	s.Expect(s.show("/clusters/c1")).To(ContainSubstring("MachineSets: not shown"))
	s.store.noteBroken(health.Cluster, apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, "", fmt.Errorf("no")))
	s.Expect(s.show("/")).To(And(ContainSubstring("Clusters are not known"), Not(ContainSubstring("has joined"))))
}

// Claim: While the hub's API server does not answer, the dashboard says how old what it shows is. Broken: an old page called current; a watch that ended not told.
func TestASilentHubMakesThePageOld(t *testing.T) {
	s := newSite(t, newCluster("c1"))
	s.Expect(s.show("/")).To(ContainSubstring("The fleet is healthy"))
	s.store.contact.failure = "dial tcp: connection refused"
	s.clock.Step(42 * time.Second)
	for _, path := range []string{"/", "/clusters/c1", "/fleets", "/timeline"} {
		s.Expect(s.show(path)).To(And(ContainSubstring("What you see is 42 seconds old"), ContainSubstring("connection refused"), Not(ContainSubstring("The fleet is healthy"))))
	}
	s.store.contact.heard, s.store.contact.failure = s.clock.Now(), ""
	s.Expect(s.show("/")).To(ContainSubstring("The fleet is healthy"))
	s.store.noteBroken(health.Machine, fmt.Errorf("watching them: unexpected EOF"))
	s.Expect(s.show("/")).To(ContainSubstring("Changes of Machine are not known since"))
	fresh := newSite(t)
	fresh.store.kinds[health.Cluster].unread = errNotReadYet
	fresh.store.contact = contact{}
	fresh.Expect(fresh.show("/")).To(And(ContainSubstring("its API server has not answered yet"), Not(ContainSubstring("The fleet is healthy"))))
}

// Claim: A hub that does not renew its Lease is named on every page of the dashboard. Broken: the Lease not looked at.
func TestAHubThatDoesNotWorkIsNamed(t *testing.T) {
	s := newSite(t, newCluster("c1"))
	s.store.contact.hub.Problem = "the hub hub-1 has not renewed its Lease for 1m0s"
	s.clock.Step(oldest)
	s.store.contact.heard = s.clock.Now()
	s.Expect(s.show("/")).To(And(ContainSubstring("the hub does not work"), ContainSubstring("has not renewed its Lease")))
}

// Claim: The dashboard shows a frozen cluster with what freezes it, and no longer when it is thawed. Broken: the condition Frozen not looked at; a judgement kept.
func TestTheMapFollowsFreezes(t *testing.T) {
	s := newSite(t, newCluster("c1"), newCluster("c2"))
	s.Expect(s.show("/")).NotTo(ContainSubstring("storage maintenance"))
	s.put(newCluster("c1", frozenSince(s.clock.Now().Add(-time.Minute), v1alpha1.ReasonManualFreeze, "storage maintenance")))
	s.Expect(s.show("/")).To(And(ContainSubstring("Frozen 1"), ContainSubstring("ManualFreeze"), ContainSubstring("storage maintenance"), ContainSubstring("The fleet is not healthy")))
	s.Expect(s.show("/?state=Frozen")).To(And(ContainSubstring(">c1</a>"), Not(ContainSubstring(">c2</a>"))))
	s.Expect(s.show("/?state=Healthy")).To(And(ContainSubstring(">c2</a>"), Not(ContainSubstring(`clusters/c1">c1</a> <span`))))
	s.Expect(s.show("/clusters/c1")).To(And(ContainSubstring("Root cause"), ContainSubstring("storage maintenance"), ContainSubstring("kubectl hollow unfreeze cluster c1")))
	s.Expect(s.show("/timeline")).To(ContainSubstring("frozen (ManualFreeze)"))
	thawed := newCluster("c1")
	thawed.Status.Freezes = []v1alpha1.Freeze{{Since: metav1.NewTime(s.clock.Now().Add(-time.Hour)), Until: metav1.NewTime(s.clock.Now().Add(-time.Minute))}}
	s.put(thawed)
	s.Expect(s.show("/")).To(And(Not(ContainSubstring("storage maintenance")), ContainSubstring("The fleet is healthy")))
	s.Expect(s.show("/timeline")).To(ContainSubstring("frozen for 59m"))
	s.Expect(s.ask(http.MethodGet, "/clusters/nope", nil).Code).To(Equal(404))
}

// Claim: The dashboard names an agent that does not answer, on the map and as the root cause of its cluster. Broken: a Cluster that is not Ready called healthy.
func TestASilentAgentIsNamed(t *testing.T) {
	silent := newCluster("c1")
	silent.Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonAgentSilent, Message: "its agent was last heard 5m ago"}
	set, machines := newMachines("c1", 1)
	machines[0].Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonAgentSilent, Message: "nobody reports"}
	s := newSite(t, silent, newDeployment("c1"), set, machines[0])
	s.Expect(s.show("/")).To(And(ContainSubstring("AgentSilent"), ContainSubstring("its agent was last heard 5m ago"), Not(ContainSubstring("The fleet is healthy"))))
	s.Expect(s.show("/clusters/c1")).To(MatchRegexp(`(?s)Root cause</h2>\s*<ol class="causes"><li><b>Cluster c1</b>: AgentSilent`))
}
