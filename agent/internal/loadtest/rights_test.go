package loadtest

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// ofTheRole are objects of all kinds that config/rbac/agent-load-tests has besides ConfigMap.
var ofTheRole = map[string]string{
	"claim": "apiVersion: v1\nkind: PersistentVolumeClaim\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}\n",
	"rc":    "apiVersion: v1\nkind: ReplicationController\nspec: {replicas: 0, selector: {app: x}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: i}]}}}\n",
	"daemon": "apiVersion: apps/v1\nkind: DaemonSet\n" +
		"spec: {selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {nodeSelector: {none: here}, containers: [{name: c, image: i}]}}}\n",
	"replicaset": "apiVersion: apps/v1\nkind: ReplicaSet\nspec: {replicas: 0, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: i}]}}}\n",
	"cron": "apiVersion: batch/v1\nkind: CronJob\n" +
		"spec: {schedule: '0 0 1 1 *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}\n",
	"scaler":  "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}}\n",
	"budget":  "apiVersion: policy/v1\nkind: PodDisruptionBudget\nspec: {maxUnavailable: 1, selector: {matchLabels: {app: x}}}\n",
	"policy":  "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nspec: {podSelector: {}}\n",
	"ingress": "apiVersion: networking.k8s.io/v1\nkind: Ingress\nspec: {defaultBackend: {service: {name: x, port: {number: 80}}}}\n",
	"service": "apiVersion: v1\nkind: Service\nspec: {selector: {app: x}, ports: [{port: 80}]}\n",
	"secret":  "apiVersion: v1\nkind: Secret\nstringData: {a: b}\n",
}

// startAsAgent starts an agent with the rights that config/rbac gives agents, and no more. Kinds are what the cluster's administrator
// allows beside those that reach no further than their namespace.
func (b *env) startAsAgent(kinds ...string) {
	b.stop()
	b.timing = func(c *Controller) { c.Limits.Kinds = kinds }
	restricted := rest.CopyConfig(b.Server.Config)
	restricted.Impersonate = rest.ImpersonationConfig{UserName: "agent", Groups: []string{"hollowfleet:agents", "system:authenticated"}}
	b.startWith(restricted)
}

// Claim: An agent makes only its role's kinds. Broken: the role of seven kinds. Also: TestAKindThatIsNotInTheRoleIsRefusedWithTheWayToIt.
func TestAnAgentMayMakeReadChangeAndDeleteTheKindsOfItsRole(t *testing.T) {
	b := newEnv(t)
	b.startAsAgent("PersistentVolumeClaim", "HorizontalPodAutoscaler.autoscaling", "Ingress.networking.k8s.io")
	var all [4][]v1alpha1.LoadPhase
	for name := range ofTheRole {
		tuning := v1alpha1.LoadTuning{QPS: 100}
		brief := repeats(v1alpha1.LoadPatch, 20_000_000).Duration
		all[0] = append(all[0], v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Template: name, Replicas: 1, Tuning: tuning})
		all[1] = append(all[1], v1alpha1.LoadPhase{Action: v1alpha1.LoadPatch, Template: name, Duration: brief, Tuning: tuning})
		all[2] = append(all[2], v1alpha1.LoadPhase{Action: v1alpha1.LoadList, Template: name, Duration: brief, Tuning: tuning})
		all[3] = append(all[3], v1alpha1.LoadPhase{Action: v1alpha1.LoadDelete, Template: name, Tuning: tuning})
	}
	var steps [][]v1alpha1.LoadPhase
	for _, phases := range all {
		const most = 8 // Phases of a step.
		steps = append(steps, phases[:most], phases[most:])
	}
	run := b.create("kinds", configMap, func(spec *v1alpha1.LoadTestRunSpec) {
		for name, object := range ofTheRole {
			spec.Templates = append(spec.Templates, v1alpha1.LoadTemplate{Name: name, Object: object})
		}
	}, append(steps, creates(1))...)
	b.Expect(b.expectEnded(run)).To(And(HaveField("Failure", ""), HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted), HaveField("Progress.Failed", BeZero()), HaveField("Errors", BeEmpty())))
	b.Expect(run.Status.Progress.Requests).To(BeNumerically(">", 4*len(ofTheRole)))
}

// What a template could use to reach beyond its namespaces is not in the role, and the message leads to where a right is given.
func TestAKindThatIsNotInTheRoleIsRefusedWithTheWayToIt(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]string{
		"roles":           "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nrules: []\n",
		"rolebindings":    "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\n",
		"serviceaccounts": "apiVersion: v1\nkind: ServiceAccount\n",
		"leases":          "apiVersion: coordination.k8s.io/v1\nkind: Lease\nspec: {holderIdentity: x}\n",
		"endpoints":       "apiVersion: v1\nkind: Endpoints\nsubsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 1}]}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			b.startAsAgent("Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io", "ServiceAccount", "Lease.coordination.k8s.io", "Endpoints")
			status := b.expectEnded(b.create(name, object, nil, creates(1)))
			b.Expect(status.Phase).To(Equal(v1alpha1.LoadTestRunPhaseFailed))
			b.Expect(status.Failure).NotTo(BeEmpty())
			b.Expect(status.Failure).To(And(ContainSubstring(name), ContainSubstring("bind a ClusterRole of your own to the agent: see Rights in docs/load-tests.md")))
		})
	}
}
