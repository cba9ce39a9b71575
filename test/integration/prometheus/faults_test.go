package prometheus

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// fleetManifest is a MachineFleet over one of the two clusters. more is the rest of its spec.
func fleetManifest(name, stage string, replicas int, template, more string) string {
	return fmt.Sprintf(`
apiVersion: hollowfleet.io/v1alpha1
kind: MachineFleet
metadata: {name: %[1]s}
spec:
  clusterSelector: {matchLabels: {stage: %[2]s}}
  replicas: %[3]d
  template:
    spec:
      selector: {matchLabels: {pool: %[1]s}}%[4]s
      template:
        metadata: {labels: {pool: %[1]s}}
        spec:
          providerConfig: {valueRef: {name: small}}
%[5]s`, name, stage, replicas, template, more)
}

// progressive gives up a cluster, and with it the rollout, after five seconds.
const progressive = `  rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 0, minSuccessTime: 1s, progressDeadline: 5s}}
`

// refusal is an admission policy that refuses what its expression does not hold for.
func refusal(name, groups, resources, expression string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [%[2]q], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [%[3]s]}]
  validations: [{expression: %[4]q, message: the test refuses it}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, name, groups, resources, expression)
}

func (w *world) allow(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.Expect(w.hub.Delete(w.t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
}

func fleetNamed(name string) *v1alpha1.MachineFleet {
	return &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// prepareFleets creates the MachineFleets that break later, and waits until all that needs no approval is rolled out.
func (w *world) prepareFleets() {
	w.t.Helper()
	names := []string{"breached", "stalled", "frozen", "unobserved", "held", "soaking"}
	for _, name := range names {
		stage, replicas, more := "canary", 0, ""
		switch name {
		case "breached":
			replicas, more = 1, progressive
		case "held":
			stage, replicas = "production", 1
		case "soaking":
			more = strings.Replace(progressive, "1s", "20s", 1)
		}
		w.create(fleetManifest(name, stage, replicas, "", more))
	}
	for _, name := range names {
		w.Eventually(func() (string, error) {
			fleet := fleetNamed(name)
			err := w.hub.Get(w.t.Context(), client.ObjectKeyFromObject(fleet), fleet)
			for _, condition := range fleet.Status.Conditions {
				if condition.Type == v1alpha1.ProgressingCondition {
					return condition.Reason, err
				}
			}
			return fleet.Status.Message, err
		}, patience, glance).Should(Equal(v1alpha1.ReasonRolloutComplete), name)
	}
}

// faults are all of them, in the order in which they are provoked. The credential comes last: it is renewed after eight minutes.
func (w *world) faults() []fault {
	return []fault{
		w.failingFleets(),
		{
			name: "the agents are suspended, and a fleet is upgraded",
			alerts: []string{
				"HollowfleetAgentDown", "HollowfleetAgentSilent", "HollowfleetClusterFrozen", "HollowfleetFleetHeld",
			},
			breaks: func() {
				w.signal("agent ", syscall.SIGSTOP)
				w.patch(fleetNamed("held"), `{"spec":{"template":{"spec":{"template":{"spec":{"versions":{"kubelet":"v1.36.2"}}}}}}}`)
			},
			mends: func() { w.signal("agent ", syscall.SIGCONT) },
		},
		{
			name:   "the API server of the hub is suspended",
			alerts: []string{"HollowfleetAgentFrozen", "HollowfleetHubStandsStill"},
			breaks: func() { w.signalServer(syscall.SIGSTOP) },
			mends:  func() { w.signalServer(syscall.SIGCONT) },
		},
		{
			name:   "the hub is suspended",
			alerts: []string{"HollowfleetHubDown"},
			breaks: func() { w.signal("hub", syscall.SIGSTOP) },
			mends:  func() { w.signal("hub", syscall.SIGCONT) },
		},
		{
			name:   "another holds the Lease of the hub",
			alerts: []string{"HollowfleetHubNotLeading"},
			breaks: func() {},
			keeps: func(ctx context.Context) error {
				return w.patchLease(ctx, v1alpha1.HubNamespace, "hollowfleet-hub", fmt.Sprintf(`"holderIdentity":"the test","renewTime":%q`, microTime(time.Now())))
			},
			mends: func() {},
		},
		{
			name:   "the clock of an agent, which the test plays, is ahead",
			alerts: []string{"HollowfleetClockSkew"},
			breaks: func() {
				w.create(`{apiVersion: hollowfleet.io/v1alpha1, kind: Cluster, metadata: {name: skewed}, spec: {acceptance: Accepted}}`)
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "skewed", Name: v1alpha1.AgentLeaseName}}
				w.Eventually(func() error { return w.hub.Create(w.t.Context(), lease) }, patience, glance).Should(Succeed(), "the hub has made the namespace")
			},
			keeps: func(ctx context.Context) error { return w.renewPlayed(ctx, 100*time.Second) },
			mends: func() {
				for range 5 { // The greatest of three counts.
					w.Eventually(func() error { return w.renewPlayed(w.t.Context(), 0) }, patience, glance).Should(Succeed())
					w.awaitScrape()
				}
			},
		},
		{
			name:   "credentials cannot be renewed",
			alerts: []string{"HollowfleetCredentialNotRenewed"}, patience: 10 * time.Minute,
			breaks: func() {
				w.create(refusal("no-certificates", "certificates.k8s.io", "certificatesigningrequests", "false"))
				w.create(refusal("no-tokens", "", "serviceaccounts/token", "false"))
			},
			mends: func() { w.allow("no-certificates", "no-tokens") },
		},
	}
}

// renewPlayed renews the Lease of the agent that the test plays, whose clock is ahead by so much.
func (w *world) renewPlayed(ctx context.Context, ahead time.Duration) error {
	return w.patchLease(ctx, "skewed", v1alpha1.AgentLeaseName, fmt.Sprintf(`"holderIdentity":"agent","renewTime":%q`, microTime(time.Now().Add(ahead))))
}

func microTime(at time.Time) string { return at.UTC().Format(metav1.RFC3339Micro) }

func (w *world) patchLease(ctx context.Context, namespace, name, spec string) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return w.hub.Patch(ctx, lease, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{%s}}`, spec)))
}

// failingFleets is all that is wrong with fleets and Machines at a time: each alert names its own fleet.
func (w *world) failingFleets() fault {
	orphan := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "orphan", Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}, Annotations: map[string]string{v1alpha1.NodeClusterNamespaceAnnotation: "local-0"},
	}}
	return fault{
		name: "a class is missing, a template is wrong, a fleet is frozen, an approval or a user is awaited, the hub may not write, a load test finds no cluster",
		alerts: []string{
			"HollowfleetMachinesFailed", "HollowfleetMachineCreateFailures", "HollowfleetFleetUnobserved", "HollowfleetFleetBreached", "HollowfleetFleetStalled",
			"HollowfleetFleetFrozen", "HollowfleetFleetAwaitsApproval", "HollowfleetFleetStuck", "HollowfleetOrphans",
			"HollowfleetLoadTestFailed",
		},
		breaks: func() {
			w.create(refusal("no-machines", "hollowfleet.io", "machines", "!has(object.metadata.labels) || !('pool' in object.metadata.labels) || object.metadata.labels['pool'] != 'refused'"))
			w.create(refusal("no-status", "hollowfleet.io", "machinefleets/status", "object.metadata.name != 'unobserved'"))
			w.Eventually(func() error {
				return w.hub.Status().Patch(w.t.Context(), fleetNamed("unobserved"), client.RawPatch(types.MergePatchType, []byte(`{"status":{"message":"test"}}`)), client.DryRunAll)
			}, patience, glance).ShouldNot(Succeed(), "the policies are in force")
			w.patch(fleetNamed("unobserved"), `{"spec":{"template":{"spec":{"minReadySeconds":1}}}}`)
			w.patch(fleetNamed("breached"), `{"spec":{"template":{"spec":{"template":{"spec":{"providerConfig":{"valueRef":{"name":"missing"}}}}}}}}`)
			w.patch(fleetNamed("stalled"), `{"spec":{"overrides":[{"name":"all","clusterSelector":{},"template":{"spec":{"selector":{"matchLabels":{"other":"pool"}}}}}]}}`)
			w.patch(fleetNamed("frozen"), `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":"test"}}}`)
			w.create(fleetManifest("approval", "canary", 1, "", "  groups: [{name: all, clusterSelector: {}, approval: Required}]\n"+progressive))
			w.create(fleetManifest("stuck", "canary", 1, "\n      minReadySeconds: 3000\n      progressDeadlineSeconds: 3600", ""))
			w.create(`{apiVersion: hollowfleet.io/v1alpha1, kind: MachineDeployment, metadata: {namespace: local-1, name: refused}, spec: {clusterName: local-1, replicas: 1,
				selector: {matchLabels: {pool: refused}}, template: {metadata: {labels: {pool: refused}}, spec: {providerConfig: {valueRef: {name: small}}}}}}`)
			w.create(`{apiVersion: hollowfleet.io/v1alpha1, kind: LoadTest, metadata: {name: nowhere}, spec: {clusterSelector: {matchLabels: {no: such}}, preset: {name: pod-startup}}}`)
			w.Expect(w.target("local-0").Create(w.t.Context(), orphan)).To(Succeed())
		},
		mends: func() {
			w.allow("no-machines", "no-status")
			w.patch(fleetNamed("breached"), `{"spec":{"template":{"spec":{"template":{"spec":{"providerConfig":{"valueRef":{"name":"small"}}}}}}}}`)
			w.patch(fleetNamed("stalled"), `{"spec":{"overrides":null}}`)
			w.patch(fleetNamed("frozen"), `{"metadata":{"annotations":{"`+v1alpha1.FreezeAnnotation+`":null}}}`)
			approved := fleetNamed("approval")
			w.Expect(w.hub.Get(w.t.Context(), client.ObjectKeyFromObject(approved), approved)).To(Succeed())
			w.Expect(w.hub.Create(w.t.Context(), fleettest.ApprovalOf(approved, "all"))).To(Succeed())
			w.patch(fleetNamed("stuck"), `{"spec":{"template":{"spec":{"minReadySeconds":0}}}}`)
			w.Expect(w.hub.Delete(w.t.Context(), &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: "nowhere"}})).To(Succeed())
			w.Expect(w.target("local-0").Delete(w.t.Context(), orphan)).To(Succeed())
		},
	}
}

// target is an administrator's client of a workload cluster.
func (w *world) target(cluster string) client.Client {
	w.t.Helper()
	for _, plane := range w.report().Clusters {
		if plane.Name == cluster {
			config, err := clientcmd.BuildConfigFromFlags("", filepath.Clean(plane.Kubeconfig))
			w.Expect(err).NotTo(HaveOccurred())
			c, err := client.New(config, client.Options{Scheme: scheme.New()})
			w.Expect(err).NotTo(HaveOccurred())
			return c
		}
	}
	w.t.Fatalf("the fleet has no cluster %s", cluster)
	return nil
}
