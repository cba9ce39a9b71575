package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// browser is a user's, on the dashboard that they have started.
type browser struct {
	*env
	address string
}

// openDashboard starts "kubectl hollow dashboard", which is interrupted at the end of the test.
func (f *env) openDashboard(more ...string) *browser {
	f.T.Helper()
	ctx, interrupt := context.WithCancel(f.T.Context())
	from, to := io.Pipe()
	var errOut bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		line := append([]string{"dashboard", "--kubeconfig", testenv.Server().Cluster.AdminKubeconfig()}, more...)
		code := cli.Execute(ctx, line, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: to, ErrOut: &errOut})
		_ = to.Close()
		ended <- code
	}()
	f.T.Cleanup(func() {
		interrupt()
		f.Expect(<-ended).To(Equal(130), errOut.String())
	})
	address, err := bufio.NewReader(from).ReadString('\n')
	f.Expect(err).NotTo(HaveOccurred(), errOut.String())
	go func() { _, _ = io.Copy(io.Discard, from) }()
	f.Expect(address).To(MatchRegexp(`^http://127\.0\.0\.1:\d+/[\w-]{43}/\n$`))
	return &browser{f, strings.TrimSpace(address)}
}

// show is what is on a page.
func (b *browser) show(path string) string {
	b.T.Helper()
	response, err := http.Get(b.address + path)
	b.Expect(err).NotTo(HaveOccurred())
	return b.read(response)
}

func (b *browser) read(response *http.Response) string {
	b.T.Helper()
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	b.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// submit sends the form of a page of the dashboard, and returns the page that answers.
func (b *browser) submit(path string, form url.Values) (int, string) {
	b.T.Helper()
	r, err := http.NewRequestWithContext(b.T.Context(), http.MethodPost, b.address+path, strings.NewReader(form.Encode()))
	b.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://"+r.Host)
	response, err := http.DefaultClient.Do(r)
	b.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, b.read(response)
}

var fieldPattern = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// fieldsOf are the hidden fields of a form.
func fieldsOf(page string) url.Values {
	form := url.Values{}
	for _, found := range fieldPattern.FindAllStringSubmatch(page, -1) {
		form.Set(found[1], found[2])
	}
	return form
}

// Claim: What the dashboard shows of clusters is what the API says of them, while they freeze and thaw. Broken: a watch event not applied.
func TestTheDashboardShowsWhatTheAPISays(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.grow(f.clusters[0].Name)
	b := f.openDashboard()
	tile := func(cluster *v1alpha1.Cluster) func() string {
		return func() string { return b.show("?q=" + cluster.Name) }
	}
	for _, cluster := range f.clusters {
		f.Eventually(tile(cluster)).WithTimeout(patience).Should(ContainSubstring("clusters/" + cluster.Name))
		f.Expect(tile(cluster)()).NotTo(ContainSubstring("Frozen 1"))
	}
	first := f.clusters[0]
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionTrue} {
		f.ExpectExists(first)
		f.ExpectConditionApplied(first, v1alpha1.FrozenCondition, status, v1alpha1.ReasonManualFreeze)
		frozen := And(ContainSubstring("ManualFreeze"), ContainSubstring("said by the test"))
		if status == metav1.ConditionTrue {
			f.Eventually(tile(first)).WithTimeout(patience).Should(frozen)
			f.Eventually(func() string { return b.show("clusters/" + first.Name) }).WithTimeout(patience).Should(frozen)
		} else {
			f.Eventually(func() string { return b.show("clusters/" + first.Name) }).WithTimeout(patience).ShouldNot(ContainSubstring("ManualFreeze"))
		}
	}
	f.Eventually(func() string { return b.show("clusters/" + first.Name) }).WithTimeout(patience).Should(And(
		ContainSubstring("node-a"), ContainSubstring("has not reported on it yet")))
	f.Expect(b.show("fleets")).To(ContainSubstring("fleets/" + f.name))
	f.Expect(b.show("fleets/" + f.name)).To(And(ContainSubstring("Wave 1"), ContainSubstring("Wave 2"), ContainSubstring(first.Name), ContainSubstring("being applied for")))
	f.Expect(b.show("clusters/nope")).To(ContainSubstring("cluster nope does not exist"))
	f.Expect(b.show("loadtests/nope")).To(ContainSubstring("nope does not exist"))
}

// Claim: A rollout is approved, paused and retried on the dashboard only by who may do so, once they have confirmed it, and only as they have seen it. Broken: rights not asked for; a form without its confirmation; a fleet that has changed since; --read-only ignored.
func TestActionsOfTheDashboard(t *testing.T) {
	f := newFleetEnv(t)
	f.Expect(config.Apply(t.Context(), f.Client, config.RBAC, "rbac/users")).To(Succeed())
	alice, bob := "alice-"+f.name, "bob-"+f.name
	f.bind(alice, v1alpha1.ApproverRole)
	f.bind(bob, "hollowfleet-fleet-editor")
	f.settle()
	fleet := &v1alpha1.MachineFleet{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	fleet.Spec.Groups[0].Approval = v1alpha1.GroupApprovalRequired
	fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.37.1"
	f.ExpectApplied(fleet)
	f.reconcile()
	page := "fleets/" + f.name
	approver := f.openDashboard("--as", alice, "--as-group", "system:authenticated")
	editor := f.openDashboard("--as", bob, "--as-group", "system:authenticated")
	f.Eventually(func() string { return approver.show(page) }).WithTimeout(patience).Should(And(ContainSubstring("Approve for group canary"), ContainSubstring("You may not pause it")))
	f.Eventually(func() string { return editor.show(page) }).WithTimeout(patience).Should(And(ContainSubstring("You may not approve it for canary"), ContainSubstring(">Pause…")))

	question := approver.show(page + "/approve?group=canary")
	f.Expect(question).To(And(ContainSubstring("kubectl hollow rollout approve machinefleet "+f.name+" --group=canary"), ContainSubstring("kubelet v1.37.1")))
	form := fieldsOf(question)
	code, text := approver.submit(page+"/approve", url.Values{"group": {"canary"}})
	f.Expect(code).To(Equal(409), text)
	code, text = editor.submit(page+"/approve", form)
	f.Expect(code).To(Equal(409), text)
	f.Expect(text).To(ContainSubstring("may not approve"))
	f.Expect(f.approvals()).To(BeEmpty())
	code, text = editor.submit(page+"/pause", form)
	f.Expect(code).To(Equal(200), text)
	code, text = approver.submit(page+"/approve", form)
	f.Expect(code).To(Equal(409), text)
	f.Expect(text).To(ContainSubstring("has changed since you looked at it"))
	f.Expect(f.approvals()).To(BeEmpty(), "the fleet was paused since the user looked")
	f.Eventually(func() string { return editor.show(page) }).WithTimeout(patience).Should(ContainSubstring(">Resume…"))
	code, text = editor.submit(page+"/resume", fieldsOf(editor.show(page+"/resume")))
	f.Expect(code).To(Equal(200), text)
	f.reconcile()
	code, text = approver.submit(page+"/approve", fieldsOf(approver.show(page+"/approve?group=canary")))
	f.Expect(code).To(Equal(200), text)
	f.Expect(text).To(ContainSubstring("group canary is approved"))
	f.Expect(f.approvals()).To(HaveLen(1))

	reader := f.openDashboard("--read-only")
	f.Eventually(func() string { return reader.show(page) }).WithTimeout(patience).Should(ContainSubstring("Wave 1"))
	f.Expect(reader.show(page)).NotTo(ContainSubstring("Pause…"))
	code, text = reader.submit(page+"/pause", fieldsOf(editor.show(page+"/pause")))
	f.Expect(code).To(Equal(409), text)
	f.Expect(text).To(ContainSubstring("read-only"))
}

// Claim: The dashboard shows a kind as soon as the user may read it. Broken: a kind that was refused asked for once an hour.
func TestTheDashboardOfAUserWhoGetsRights(t *testing.T) {
	f := newEnv(t)
	cluster := f.AcceptedCluster()
	b := f.openDashboard("--as", f.name)
	f.Eventually(func() string { return b.show("") }).WithTimeout(patience).Should(And(
		ContainSubstring("Clusters are not known"), ContainSubstring("Machine: not checked: you may not list them"), ContainSubstring("you may not read its Lease")))
	f.Expect(b.show("")).NotTo(ContainSubstring("The fleet is healthy"))
	f.ExpectApplied(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: f.name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: []string{"list", "watch"}},
	}})
	f.bind(f.name, f.name)
	f.Eventually(func() string { return b.show("?q=" + cluster.Name) }).WithTimeout(patience).Should(And(
		ContainSubstring("clusters/"+cluster.Name), ContainSubstring("Machine: not checked")))
	f.Expect(b.show("clusters/" + cluster.Name)).To(ContainSubstring("Machines: not shown"))
}

func TestADashboardThatCannotStart(t *testing.T) {
	f := newEnv(t)
	f.fails(2, "--port: want a number", "dashboard --port 70000")
	f.fails(1, "connection refused", "dashboard --server https://127.0.0.1:1")
	f.fails(2, "unknown command", "dashboard now")
	f.fails(2, "--address: users send tokens", "dashboard serve --server https://x --address :0")
	f.fails(2, "--address: users send tokens", "dashboard serve --server https://x --address localhost:0")
	f.fails(2, "--most-users: want 1 or more, got 0", "dashboard serve --server https://x --most-users 0")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	f.fails(2, "--server: name the URL", "dashboard serve")
}
