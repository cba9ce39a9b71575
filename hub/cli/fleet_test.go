package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// Claim: `fleet tree` leads down to the Nodes. Broken: the Nodes are left out.
func TestAFleetIsListedAndShown(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.Expect(f.succeeds("fleet list")).To(MatchRegexp(f.name + ` +True +2/2 +2 +2 +0 +0 +v1.36.2`))
	f.Expect(f.succeeds("fleet list -o name")).To(ContainSubstring("machinefleet.hollowfleet.io/" + f.name))
	shown := f.succeeds("fleet status NAME")
	f.Expect(shown).To(MatchRegexp(f.clusters[0].Name + ` +1 +canary +Updated .* v1.36.2 +2 updated, 2 available of 2`))
	f.Expect(shown).To(MatchRegexp(f.clusters[1].Name + ` +2 +- +Updated`))
	f.fails(3, "does not exist", "fleet status nothing")
	f.Expect(f.completes("fleet status", "")).To(ContainElement(f.name))

	tree := strings.Split(f.succeeds("fleet tree NAME"), "\n")
	f.Expect(tree[1]).To(MatchRegexp(`^MachineFleet/` + f.name + ` +True +False +v1.36.2`))
	f.Expect(tree[2:6]).To(ConsistOf(
		HavePrefix("├─ Cluster/"), HavePrefix("│  └─ MachineDeployment/"+f.name), HavePrefix("└─ Cluster/"), HavePrefix("   └─ MachineDeployment/"+f.name),
	))
	f.grow(f.clusters[1].Name)
	branch := []string{"MachineSet/" + f.name + "-1 ", "Machine/" + f.name + "-1-a ", "Node/node-a "}
	f.Expect(strings.Split(f.succeeds("fleet tree fleet/NAME"), "\n")).To(ContainElements(
		MatchRegexp("^[│ ]     └─ "+branch[0]), MatchRegexp("^[│ ]        └─ "+branch[1]), MatchRegexp("^[│ ]           └─ "+branch[2]+" +- +- +v1.36.2$")), "below the first cluster or the last one")
	f.Expect(strings.Split(f.succeeds("fleet tree cluster/"+f.clusters[1].Name), "\n")[1:6]).To(HaveExactElements(
		HavePrefix("Cluster/"+f.clusters[1].Name), HavePrefix("└─ MachineDeployment/"+f.name), HavePrefix("   └─ "+branch[0]), HavePrefix("      └─ "+branch[1]), HavePrefix("         └─ "+branch[2])))
	f.Expect(strings.Split(f.succeeds("fleet tree machinedeployment/NAME -n "+f.clusters[1].Name+" -o wide"), "\n")[1:5]).To(HaveExactElements(
		HavePrefix("MachineDeployment/"+f.name), HavePrefix("└─ "+branch[0]), MatchRegexp("^   └─ "+branch[1]+` +False \(NodeNotReady\) +- +v1.36.2 +the node is down`), HavePrefix("      └─ "+branch[2])))
	f.fails(2, "unknown kind", "fleet tree pod/x")
	f.fails(3, "does not exist", "fleet tree machinedeployment/x -n NAME")
}

// Claim: A refused upgrade exits 4 and writes nothing. Broken: the refusal is left out.
func TestAnUpgradeOfAFleet(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.fails(2, "--kubelet is required", "upgrade fleet/NAME")
	f.fails(2, `"1.37" is not a version`, "upgrade fleet/NAME --kubelet 1.37")
	f.fails(4, "spec.allowDowngrade", "upgrade fleet/NAME --kubelet v1.35.0")
	f.Expect(f.kubelet()).To(Equal("v1.36.2"), "a refused upgrade writes nothing")

	planned := f.succeeds("upgrade fleet/NAME --kubelet v1.37.1 --dry-run")
	f.Expect(planned).To(MatchRegexp(`1 +canary +` + f.clusters[0].Name + ` +v1.36.2 +v1.37.1 +v1.37.1 +at once`))
	f.Expect(planned).To(MatchRegexp(`2 +- +` + f.clusters[1].Name + ` +v1.36.2 +v1.37.1 +v1.37.1 +later`))
	f.Expect(planned).To(ContainSubstring("(dry run)"))
	f.Expect(f.stops(4, "it cannot start in any of its 2 clusters", "upgrade fleet/NAME --kubelet v1.38.0 --dry-run")).To(ContainSubstring("upgrade the cluster's API server"))
	f.Expect(f.kubelet()).To(Equal("v1.36.2"), "a dry run writes nothing")

	f.Expect(f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")).To(ContainSubstring("upgraded from kubelet v1.36.2 to v1.37.1"))
	f.Expect(f.kubelet()).To(Equal("v1.37.1"))
	f.Expect(f.stops(5, "has not rolled out within", "rollout status fleet NAME --timeout 2s")).To(ContainSubstring("waiting for the hub"))

	f.settle()
	f.Expect(f.succeeds("rollout status machinefleet NAME")).To(ContainSubstring("has rolled out: 2 of 2 clusters updated"))
	done := f.succeeds("upgrade fleet/NAME --kubelet v1.37.1 --wait")
	f.Expect(done).To(And(ContainSubstring("has kubelet v1.37.1 already"), ContainSubstring("has rolled out")))
}

// Each problem of a cluster has a row.
func TestADryRunShowsAllProblemsOfACluster(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	cluster := &v1alpha1.Cluster{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKeyFromObject(f.clusters[1]), cluster)).To(Succeed())
	cluster.Status.PodQuota = &v1alpha1.PodQuota{Namespace: "hollowfleet", Name: "small"}
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ClusterDisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInsufficientPods, Message: "PodDisruptionBudget shop/web allows no disruption for now",
	})
	f.ExpectStatusApplied(cluster)
	planned := f.succeeds("upgrade fleet/NAME --kubelet v1.37.1 --dry-run")
	f.Expect(planned).To(MatchRegexp(cluster.Name + ` +v1.36.2 +v1.37.1 +v1.37.1 +blocked +PodDisruptionBudget shop/web allows no disruption for now: [^\n]*\n +ResourceQuota hollowfleet/small leaves room for 0 more`))
	f.Expect(planned).To(MatchRegexp(`1 +canary .* at once`))

	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.reconcile()
	shown := f.stops(1, "is not ready", "fleet status NAME")
	f.Expect(shown).To(MatchRegexp(cluster.Name + ` .* Blocked .*PodDisruptionBudget [^\n]*\n +ResourceQuota hollowfleet/small`))
}

func TestAFleetSaysWhichHealthConditionIsMissing(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	fleet := &v1alpha1.MachineFleet{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	fleet.Spec.HealthConditions = []v1alpha1.MachineFleetHealthCondition{{Type: "example.com/FrontendAvailable"}}
	f.ExpectApplied(fleet)
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.reconcile()
	f.report(f.clusters[0], false)
	f.reconcile()
	f.Expect(f.stops(1, "is not ready", "fleet status NAME")).To(MatchRegexp(f.clusters[0].Name +
		` .* Progressing .*condition example.com/FrontendAvailable is missing on Cluster ` + f.clusters[0].Name))
}

// Who ends the watching is told that the upgrade continues. In a terminal there is a bar for each cluster and one for all.
// Claim: Ctrl-C ends the watching, not the upgrade. Broken: nothing is said; the bar of a cluster that was just started is full.
func TestAnUpgradeIsFollowedToItsEnd(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	result := make(chan run, 1)
	watching, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	screen := newTerminal(t)
	go func() {
		result <- f.hollowOn(watching, screen.file, "upgrade fleet/NAME --kubelet v1.37.1 --wait --timeout 2m")
	}()
	f.Eventually(screen.shows).WithTimeout(patience).Should(ContainSubstring("all clusters"))
	interrupt()
	var r run
	f.Eventually(result).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(130), r.errOut)
	f.Expect(r.errOut).To(And(ContainSubstring("The rollout continues. To follow it again: kubectl hollow rollout status machinefleet "+f.name), HaveSuffix("interrupted\n")))
	f.Expect(f.kubelet()).To(Equal("v1.37.1"), "the upgrade continues")

	screen = newTerminal(t)
	go func() { result <- f.hollowOn(t.Context(), screen.file, "rollout status fleet/NAME --timeout 2m") }()
	f.reconcile()
	f.Eventually(screen.shows).WithTimeout(patience).Should(MatchRegexp(f.clusters[0].Name+` +\[-+\] waiting for the hub`), "none of its Machines has the new template yet")
	f.report(f.clusters[0], false)
	f.reconcile()
	f.Eventually(screen.shows).WithTimeout(patience).Should(And(
		MatchRegexp(f.clusters[0].Name+` +\[=+\] updated`), MatchRegexp(f.clusters[1].Name+` +\[-+\] waiting for the hub`), MatchRegexp(`all clusters +\[=+>-+\] wave 2 of 2, 1 of 2 updated`)))
	f.report(f.clusters[1], false)
	f.reconcile()
	f.Eventually(result).WithTimeout(patience).Should(Receive(&r))
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Eventually(screen.shows).WithTimeout(patience).Should(And(
		MatchRegexp(`all clusters +\[=+\] wave 2 of 2, 2 of 2 updated`), ContainSubstring("has rolled out: 2 of 2 clusters updated")))
}

// Who interrupts a command before the hub has answered is told how to see what happened to the change.
func TestAnInterruptedChangeIsNotKnown(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	server, err := url.Parse(testenv.Server().Config.Host)
	f.Expect(err).NotTo(HaveOccurred())
	asking, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	proxy := httputil.NewSingleHostReverseProxy(server)
	proxy.Transport, err = rest.TransportFor(testenv.Server().Config)
	f.Expect(err).NotTo(HaveOccurred())
	proxy.ModifyResponse = func(response *http.Response) error {
		if response.Request.Method == http.MethodPatch {
			interrupt()
			<-asking.Done()
			return errors.New("the answer is lost")
		}
		return nil
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	r := f.execute(asking, &bytes.Buffer{}, "upgrade fleet/NAME --kubelet v1.37.1 --wait --server "+front.URL)
	f.Expect(r.code).To(Equal(130), r.errOut)
	f.Expect(r.errOut).To(And(
		ContainSubstring("Whether the hub has applied the change is unknown. To check: kubectl hollow rollout status machinefleet "+f.name+" --watch=false"),
		HaveSuffix("interrupted\n")))
	f.Expect(f.kubelet()).To(Equal("v1.37.1"), "the hub has made it")
}

// Claim: A failed fleet rollout ends following with 5. Broken: that reason is not read.
func TestAFailedCanaryEndsTheWaiting(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.reconcile()
	f.report(f.clusters[0], true)
	f.reconcile()
	f.Expect(f.stops(5, "more have failed than spec.rolloutStrategy allows", "rollout status fleet/NAME")).To(ContainSubstring("has stopped"))
	r := f.hollow("fleet status NAME")
	f.Expect(r.code).To(Equal(1))
	f.Expect(r.out).To(MatchRegexp(f.clusters[0].Name + ` +1 +canary +Failed .*no progress`))
}

// An override that sets the kubelet keeps doing so.
func TestADryRunShowsTheKubeletOfEachCluster(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	fleet := &v1alpha1.MachineFleet{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	fleet.Spec.Overrides = []v1alpha1.MachineFleetOverride{{
		Name: "late", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"group": "canary"}},
		Template: &runtime.RawExtension{Raw: []byte(`{"spec": {"template": {"spec": {"versions": {"kubelet": "v1.36.3"}}}}}`)},
	}, {
		Name: "unmatched", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"group": "nowhere"}}, Replicas: new(int32(1)),
	}}
	f.ExpectApplied(fleet)
	r := f.hollow("upgrade fleet/NAME --kubelet v1.37.1 --dry-run")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(And(
		MatchRegexp(`1 +canary +`+f.clusters[0].Name+` +v1.36.2 +v1.36.3 `), MatchRegexp(`2 +- +`+f.clusters[1].Name+` +v1.36.2 +v1.37.1 `)))
	f.Expect(r.errOut).To(ContainSubstring(f.clusters[0].Name + " gets kubelet v1.36.3 instead of v1.37.1: spec.overrides[late].template sets it"))
	const unused = "spec.overrides[unmatched].clusterSelector matches no cluster of the fleet"
	f.Expect(r.errOut).To(And(ContainSubstring(unused), Not(ContainSubstring("[late].clusterSelector"))))
	f.Expect(f.hollow("fleet status NAME").errOut).To(ContainSubstring(unused))
}

func TestAFleetIsPausedAndResumed(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.Expect(f.succeeds("rollout pause fleet/NAME")).To(ContainSubstring("machinefleet.hollowfleet.io/" + f.name + " paused"))
	f.Expect(f.succeeds("rollout pause machinefleet NAME")).To(ContainSubstring("is paused already"))
	r := f.hollow("upgrade fleet/NAME --kubelet v1.37.1")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("Nothing starts for now: spec.paused is set"))
	f.reconcile()
	f.Expect(f.stops(4, "rollout resume machinefleet", "rollout status fleet/NAME --watch=false")).To(ContainSubstring("is paused, 0 of 2 clusters updated"))
	f.Expect(f.stops(4, "rollout resume machinefleet", "rollout status fleet/NAME")).To(ContainSubstring("is paused"), "it does not wait")
	f.Expect(f.succeeds("rollout resume fleet/NAME")).To(ContainSubstring("resumed"))
}

func TestAFleetIsFrozenAndUnfrozen(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.Expect(f.succeeds("freeze fleet NAME --reason audit --wait=false")).To(ContainSubstring("frozen by admin"))
	r := f.hollow("upgrade fleet/NAME --kubelet v1.37.1")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.errOut).To(ContainSubstring("Nothing starts for now: "))
	f.reconcile()
	f.Expect(f.hollow("fleet list").out).To(ContainSubstring("(ManualFreeze)"))
	d := &v1alpha1.MachineDeployment{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Namespace: f.clusters[0].Name, Name: f.name}, d)).To(Succeed())
	f.Expect(d.Spec.Template.Spec.Versions.Kubelet).To(Equal("v1.36.2"))
	f.fails(4, "is already frozen, by admin (audit)", "freeze machinefleet/NAME")
	f.Expect(f.succeeds("unfreeze fleet/NAME --wait=false")).To(ContainSubstring("unfrozen"))
	f.reconcile()
	f.ExpectExists(d)
	f.Expect(d.Spec.Template.Spec.Versions.Kubelet).To(Equal("v1.37.1"))
}

func TestAGroupIsApproved(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	fleet := &v1alpha1.MachineFleet{}
	read := func() *v1alpha1.MachineFleet {
		f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
		return fleet
	}
	f.fails(4, "needs no approval", "rollout approve machinefleet NAME --group canary")
	f.fails(3, `no group "other"`, "rollout approve machinefleet NAME --group other")
	f.fails(2, "unknown kind", "rollout approve machinedeployment workers -n NAME")
	read().Spec.Groups[0].Approval = v1alpha1.GroupApprovalRequired
	f.ExpectApplied(fleet)
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.reconcile()
	f.Expect(f.succeeds("rollout status fleet/NAME --watch=false")).To(ContainSubstring("approv"))
	f.Expect(f.succeeds("upgrade fleet/NAME --kubelet v1.37.1 --dry-run")).To(MatchRegexp(`1 +canary .* after approval`))
	f.Expect(f.succeeds("rollout status fleet/NAME --watch=false")).To(ContainSubstring("kubectl hollow rollout approve machinefleet " + f.name + " --group canary"))
	f.Expect(f.succeeds("rollout approve machinefleet NAME --dry-run")).To(ContainSubstring("(dry run)"))
	f.Expect(f.approvals()).To(BeEmpty())
	r := f.hollow("rollout approve machinefleet NAME")
	f.Expect(r.code).To(Equal(0), r.errOut)
	f.Expect(r.out).To(MatchRegexp(`group canary is approved for revision [0-9a-f]+ \(rollout [0-9]+, kubelet v1.37.1\), by `))
	f.Expect(r.errOut).To(ContainSubstring("kubectl delete fleetapproval " + f.name + "-canary-"))
	given := f.approvals()
	f.Expect(given).To(HaveLen(1))
	user, err := f.user()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(given[0].Spec).To(Equal(v1alpha1.FleetApprovalSpec{
		Kind: v1alpha1.ApprovedFleet, Fleet: f.name, FleetUID: string(fleet.UID), Revision: read().Status.Revision, Rollout: fleet.Status.Rollout, Group: "canary", Approver: user,
	}))
	f.Expect(given[0].OwnerReferences).To(ConsistOf(HaveField("UID", fleet.UID)))
	f.Expect(f.succeeds("rollout approve machinefleet NAME --group canary")).To(ContainSubstring("is already approved"))
	f.Expect(f.succeeds("rollout approve machinefleet NAME")).To(ContainSubstring("no group that is waiting"))
	f.Expect(f.approvals()).To(HaveLen(1))
	f.settle()
	f.Expect(f.succeeds("rollout status fleet/NAME")).To(ContainSubstring("2 of 2 clusters updated"))
	f.Expect(f.succeeds("rollout history fleet/NAME --revision 2")).To(ContainSubstring("Approved: group canary, by " + user))
	f.Expect(f.succeeds("fleet status NAME")).To(ContainSubstring("Approved: group canary, by " + user))

	f.succeeds("upgrade fleet/NAME --kubelet v1.37.2")
	f.reconcile()
	f.Expect(f.succeeds("rollout status fleet/NAME --watch=false")).To(ContainSubstring("waiting for approval: canary"))
}

func TestADryRunShowsWhenAWindowOpens(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	fleet := &v1alpha1.MachineFleet{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	opens := time.Now().UTC().Add(12 * time.Hour)
	fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{{
		Name: "night", Schedule: fmt.Sprintf("30 %d * * *", opens.Hour()), Duration: metav1.Duration{Duration: time.Hour},
	}}
	f.ExpectApplied(fleet)
	f.Expect(f.succeeds("upgrade fleet/NAME --kubelet v1.37.1 --dry-run")).To(MatchRegexp(fmt.Sprintf(`1 +canary .* from [-0-9]+T%02d:30:00Z`, opens.Hour())))
}

// Claim: `rollout undo` never goes forward. Broken: what was gone back from counts as earlier; only the last one is remembered; each that was passed counts as gone back from; an aborted revision counts as earlier. Also: TestUndoAfterUndoGoesFurtherBack, TestUndoGoesPastARevisionThatWasAborted.
func TestAFleetGoesBackToAnEarlierTemplate(t *testing.T) {
	f := newFleetEnv(t)
	f.fails(3, "has no earlier revision", "rollout undo fleet/NAME")
	f.settle()
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.reconcile()
	f.report(f.clusters[0], true)
	f.reconcile()
	history := f.succeeds("rollout history machinefleet NAME")
	f.Expect(history).To(MatchRegexp(`1 +1 +v1.36.2`), "the cluster that is not the canary")
	f.Expect(history).To(MatchRegexp(`2 +\* +1 +v1.37.1`))
	f.Expect(f.succeeds("rollout history machinefleet NAME --revision 1")).To(ContainSubstring("kubelet: v1.36.2"))
	f.Expect(f.succeeds("rollout history machinefleet NAME -o name")).To(ContainSubstring("controllerrevision"))
	f.Expect(f.completes("rollout undo machinefleet "+f.name, "--to-revision=")).To(ContainElement(HavePrefix("1")))

	f.fails(4, "add --allow-downgrade", "rollout undo fleet/NAME")
	f.fails(3, "has no revision 7 (any more); it has 1, 2", "rollout undo fleet/NAME --to-revision 7 --allow-downgrade")
	f.Expect(f.kubelet()).To(Equal("v1.37.1"))
	f.Expect(f.succeeds("rollout undo fleet/NAME --allow-downgrade --dry-run")).To(ContainSubstring("rolled back to revision 1 (dry run)"))
	f.Expect(f.kubelet()).To(Equal("v1.37.1"))
	f.Expect(f.succeeds("rollout undo fleet/NAME --allow-downgrade")).To(ContainSubstring("rolled back to revision 1"))
	f.Expect(f.kubelet()).To(Equal("v1.36.2"))
	f.settle()
	f.Expect(f.succeeds("rollout status fleet/NAME")).To(ContainSubstring("has rolled out: 2 of 2 clusters updated"))
	f.Expect(f.succeeds("rollout undo fleet/NAME --to-revision 3")).To(ContainSubstring("already has the template of revision 3"))
	f.fails(3, "has no earlier revision that it has not been rolled back from; it has 2, 3", "rollout undo fleet/NAME")
	f.Expect(f.kubelet()).To(Equal("v1.36.2"), "it does not go forward to what it has gone back from")

	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1")
	f.settle()
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.2")
	f.reconcile()
	f.Expect(f.succeeds("rollout undo fleet/NAME --allow-downgrade")).To(ContainSubstring("rolled back to revision 4"), "what was rolled out again later is no step forward")
	f.Expect(f.kubelet()).To(Equal("v1.37.1"))
}
