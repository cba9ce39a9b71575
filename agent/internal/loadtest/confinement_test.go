package loadtest

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/confine"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: A load test reaches nothing beyond its namespaces. Broken: objects are not looked at; affinity, annotations or the manager of a Job are not looked at. Also: TestAnObjectThatReachesFurtherLaterEndsTheRun, TestTheNamespacesOfARunEnforcePodSecurity, TestWhatARunMakesGoesToHollowNodesAndCanBeRemoved.
func TestWhatReachesBeyondTheRunIsRefusedBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ object, want string }{
		"a pod with all of the machine": {
			"apiVersion: v1\nkind: Pod\nspec: {hostPID: true, volumes: [{name: v, hostPath: {path: /}}], containers: [{name: c, image: i, securityContext: {privileged: true}}]}",
			"spec.volumes[0].hostPath",
		},
		"a pod on a Node of its choice": {"apiVersion: v1\nkind: Pod\nspec: {nodeName: c1-podhost, containers: [{name: c, image: i}]}", "spec.nodeName"},
		"a Deployment on the host's network": {
			"apiVersion: apps/v1\nkind: Deployment\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {hostNetwork: true, containers: [{name: c, image: i}]}}}",
			"spec.template.spec: violates the Pod Security Standard",
		},
		"one object of ten": {
			"apiVersion: v1\nkind: Pod\nspec: {{if eq .Index 7}}{nodeName: m1, containers: [{name: c}]}{{else}}{containers: [{name: c}]}{{end}}", "spec.nodeName",
		},
		"a value that becomes true": {"apiVersion: v1\nkind: Pod\nspec: {hostIPC: {{gt .Index 1000000}}, containers: [{name: c}]}", "hostIPC=true"},
		"a namespace of many": {
			"apiVersion: v1\nkind: Service\nspec: {type: {{if eq .Namespace \"load-1\"}}NodePort{{else}}ClusterIP{{end}}, ports: [{port: 1}]}", "spec.type",
		},
		"a number that grows":    {"apiVersion: v1\nkind: Pod\nspec: {terminationGracePeriodSeconds: {{add .Index 592}}, containers: [{name: c}]}", "object 9: spec.terminationGracePeriodSeconds"},
		"a load balancer":        {"apiVersion: v1\nkind: Service\nspec: {type: LoadBalancer, ports: [{port: 1}]}", "spec.type"},
		"foreign addresses":      {"apiVersion: v1\nkind: Service\nspec: {externalIPs: [10.0.0.1], ports: [{port: 1}]}", "spec.externalIPs"},
		"a token of the cluster": {"apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata: {annotations: {kubernetes.io/service-account.name: default}}", "type"},
		"another kind":           {"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding", "RoleBinding in rbac.authorization.k8s.io/v1 may reach beyond"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			b.stop()
			made := atomic.Int32{}
			b.refuse = func(request *http.Request) bool {
				if request.Method == http.MethodPost {
					made.Add(1)
				}
				return false
			}
			b.start()
			run := b.create("reach", test.object, nil, creates(10))
			status := b.expectEnded(run)
			b.Expect(status.Phase).To(Equal(v1alpha1.LoadTestRunPhaseFailed))
			b.Expect(status.Failure).To(And(HavePrefix("template thing of step a: "), ContainSubstring(test.want)))
			b.Expect(b.namespaces(run)).To(BeEmpty())
			b.Expect(made.Load()).To(BeZero(), "nothing was created, not even for a moment")
		})
	}
}

func TestAnObjectThatReachesFurtherLaterEndsTheRun(t *testing.T) {
	b := newEnv(t)
	churn := repeats(v1alpha1.LoadChurn, time.Minute)
	churn.ChurnPercent = 100
	run := b.create("later", "apiVersion: v1\nkind: Pod\nspec: {terminationGracePeriodSeconds: {{add .Index 591}}, containers: [{name: c, image: i}]}", nil,
		[]v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: "thing", Replicas: 4, Tuning: v1alpha1.LoadTuning{QPS: 100}}}, []v1alpha1.LoadPhase{churn})
	status := b.expectEnded(run)
	b.Expect(status.Phase).To(Equal(v1alpha1.LoadTestRunPhaseFailed))
	b.Expect(status.Failure).To(ContainSubstring("template thing: spec.terminationGracePeriodSeconds"))
	b.Expect(measuredIn(status, v1alpha1.LoadAPIRequest, "POST")).To(BeNumerically("<=", 10), "objects 0 to 9 are allowed")
}

func TestTheNamespacesOfARunEnforcePodSecurity(t *testing.T) {
	b := newEnv(t)
	run := b.create("secure", configMap, func(spec *v1alpha1.LoadTestRunSpec) { spec.WithStartTime, spec.Namespaces = true, 2 }, creates(1))
	b.expectPhase(run, v1alpha1.LoadTestRunPhasePrepared)
	b.Expect(b.namespaces(run)).To(HaveLen(2))
	for _, namespace := range b.namespaces(run) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}}
		b.Expect(b.Client.Create(t.Context(), pod)).To(MatchError(ContainSubstring(`violates PodSecurity "baseline:latest"`)), "whoever creates it")
	}
}

func TestAnAdministratorChoosesTheStandard(t *testing.T) {
	b := newEnv(t)
	b.stop()
	b.timing = func(c *Controller) {
		var err error
		c.Limits, err = confine.Limits{PodSecurity: "restricted"}.Complete()
		b.Expect(err).NotTo(HaveOccurred())
	}
	b.start()
	b.Expect(b.expectEnded(b.create("plain", "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: i}]}", nil, creates(1)))).To(
		HaveField("Failure", ContainSubstring(`violates the Pod Security Standard "restricted"`)))
	run := b.create("well", configMap, func(spec *v1alpha1.LoadTestRunSpec) { spec.WithStartTime = true }, creates(1))
	b.expectPhase(run, v1alpha1.LoadTestRunPhasePrepared)
	namespace := &corev1.Namespace{}
	b.Expect(b.Client.Get(t.Context(), client.ObjectKey{Name: namespaceName(run, 0)}, namespace)).To(Succeed())
	b.Expect(namespace.Labels).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "restricted"))
}

// Where pods of load tests may go anywhere, those on Nodes of kwok would be measured as if they had a kubelet.
func TestARunWhosePodsMayGoToNodesOfKwokIsRefused(t *testing.T) {
	b := newEnv(t)
	b.stop()
	b.timing = func(c *Controller) {
		var err error
		c.Limits, err = confine.Limits{Nodes: confine.AnyNodes}.Complete()
		b.Expect(err).NotTo(HaveOccurred())
	}
	b.start()
	kwok := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.namespace + "-kwok", Labels: map[string]string{v1alpha1.HollowNodeLabel: v1alpha1.KwokNodeLabelValue}}}
	b.ExpectApplied(kwok)
	t.Cleanup(func() { _ = b.Client.Delete(context.Background(), kwok) })
	b.Expect(b.expectEnded(b.create("anywhere", configMap, nil, creates(1)))).To(And(
		HaveField("Phase", v1alpha1.LoadTestRunPhaseFailed), HaveField("Failure", ContainSubstring("the cluster has Nodes of provider kwok"))))
}

func TestWhatARunMakesGoesToHollowNodesAndCanBeRemoved(t *testing.T) {
	b := newEnv(t)
	own := "metadata: {labels: {a: b}, finalizers: [example.com/x], ownerReferences: [{apiVersion: v1, kind: Pod, name: x, uid: x}]}"
	run := b.create("pinned", "apiVersion: apps/v1\nkind: Deployment\n"+own+"\nspec: {selector: {matchLabels: {a: b}}, template: {"+own+", spec: {containers: [{name: c, image: i}]}}}\n",
		func(spec *v1alpha1.LoadTestRunSpec) { spec.CleanupPolicy = v1alpha1.LoadCleanupKeep },
		[]v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: "thing", Replicas: 1, Tuning: v1alpha1.LoadTuning{QPS: 100}}})
	b.Expect(b.expectEnded(run)).To(HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted), run.Status.Message)
	made := &appsv1.Deployment{}
	b.Expect(b.Client.Get(t.Context(), client.ObjectKey{Namespace: namespaceName(run, 0), Name: "thing-0"}, made)).To(Succeed())
	b.Expect(made.Finalizers).To(BeEmpty())
	b.Expect(made.OwnerReferences).To(BeEmpty())
	b.Expect(made.Spec.Template.Finalizers).To(BeEmpty())
	b.Expect(made.Spec.Template.Spec.NodeSelector).To(HaveKeyWithValue(v1alpha1.HollowNodeLabel, "true"))
	b.Expect(made.Spec.Template.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
}
