package confine

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func complete(t *testing.T, l Limits) Limits {
	t.Helper()
	completed, err := l.Complete()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return completed
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	content, err := yaml.YAMLToJSONStrict([]byte(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), text)
	object := &unstructured.Unstructured{}
	NewWithT(t).Expect(json.Unmarshal(content, &object.Object)).To(Succeed(), text)
	return object
}

// workloads are the kinds that have pods, with %s for a pod's spec, and where that is.
var workloads = map[string]struct{ text, path string }{
	"Pod":                   {"apiVersion: v1\nkind: Pod\nspec: %s", "spec"},
	"PodTemplate":           {"apiVersion: v1\nkind: PodTemplate\ntemplate: {spec: %s}", "template.spec"},
	"ReplicationController": {"apiVersion: v1\nkind: ReplicationController\nspec: {template: {spec: %s}}", "spec.template.spec"},
	"Deployment":            {"apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: %s}}", "spec.template.spec"},
	"ReplicaSet":            {"apiVersion: apps/v1\nkind: ReplicaSet\nspec: {template: {spec: %s}}", "spec.template.spec"},
	"StatefulSet":           {"apiVersion: apps/v1\nkind: StatefulSet\nspec: {template: {spec: %s}}", "spec.template.spec"},
	"DaemonSet":             {"apiVersion: apps/v1\nkind: DaemonSet\nspec: {template: {spec: %s}}", "spec.template.spec"},
	"Job":                   {"apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: %s}}", "spec.template.spec"},
	"CronJob":               {"apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: %s}}}}", "spec.jobTemplate.spec.template.spec"},
}

// Edge case: Anti-affinity starved the cluster.
func TestPodsThatReachFurther(t *testing.T) {
	for what, test := range map[string]struct{ spec, want string }{
		"a Node":               {"{nodeName: c1-podhost, containers: [{name: c}]}", ".nodeName: "},
		"the host's network":   {"{hostNetwork: true, containers: [{name: c}]}", "hostNetwork=true"},
		"the host's processes": {"{hostPID: true, containers: [{name: c}]}", "hostPID=true"},
		"the host's IPC":       {"{hostIPC: true, containers: [{name: c}]}", "hostIPC=true"},
		"a host path":          {"{containers: [{name: c}], volumes: [{name: v, hostPath: {path: /}}]}", ".volumes[0].hostPath: "},
		"an empty host path":   {"{containers: [{name: c}], volumes: [{name: v, hostPath: {}}]}", ".volumes[0].hostPath: "},
		"a network file system": {
			"{containers: [{name: c}], volumes: [{name: e, emptyDir: {}}, {name: v, nfs: {server: a, path: /}}]}", ".volumes[1].nfs: ",
		},
		"a claim":             {"{containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]}", ".persistentVolumeClaim: "},
		"a claim of its own":  {"{containers: [{name: c}], volumes: [{name: v, ephemeral: {}}]}", ".ephemeral: "},
		"a projected token":   {"{containers: [{name: c}], volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}", ".sources[0].serviceAccountToken: "},
		"privileges":          {"{containers: [{name: c, securityContext: {privileged: true}}]}", "privileged"},
		"privileges at first": {"{initContainers: [{name: i, securityContext: {privileged: true}}], containers: [{name: c}]}", "privileged"},
		"capabilities":        {"{containers: [{name: c, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]}", "SYS_ADMIN"},
		"a port of the host":  {"{containers: [{name: c, ports: [{containerPort: 1, hostPort: 1}]}]}", "hostPort"},
		"a foreign probe":     {"{containers: [{name: c, livenessProbe: {httpGet: {port: 80, host: 169.254.169.254}}}]}", "169.254.169.254"},
		"a sysctl":            {"{securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}, containers: [{name: c}]}", "kernel.msgmax"},
		"an account":          {"{serviceAccountName: admin, containers: [{name: c}]}", ".serviceAccountName: "},
		"an account as of old": {
			"{serviceAccount: admin, containers: [{name: c}]}", ".serviceAccount: ",
		},
		"a token":          {"{automountServiceAccountToken: true, containers: [{name: c}]}", ".automountServiceAccountToken: "},
		"a priority class": {"{priorityClassName: system-node-critical, containers: [{name: c}]}", ".priorityClassName: "},
		"a priority":       {"{priority: 2000000000, containers: [{name: c}]}", ".priority: "},
		"a runtime":        {"{runtimeClassName: host, containers: [{name: c}]}", ".runtimeClassName: "},
		"devices":          {"{resourceClaims: [{name: gpu}], containers: [{name: c}]}", ".resourceClaims: "},
		"debugging":        {"{ephemeralContainers: [{name: e}], containers: [{name: c}]}", ".ephemeralContainers: "},
		"real Nodes":       {"{nodeSelector: {hollowfleet.io/hollow: 'false'}, containers: [{name: c}]}", ".nodeSelector: "},
		"pods of all namespaces": {
			"{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/os, labelSelector: {}, namespaceSelector: {}}]}}, containers: [{name: c}]}",
			".affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector: ",
		},
		"pods of another namespace": {
			"{affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {topologyKey: kubernetes.io/os, namespaces: [kube-system]}}]}}, containers: [{name: c}]}",
			".affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.namespaces: ",
		},
		"company of another namespace": {
			"{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, namespaces: [a]}]}}, containers: [{name: c}]}", ".namespaces: ",
		},
		"a Node of the control plane":     {"{nodeSelector: {node-role.kubernetes.io/control-plane: ''}, nodeName: cp, tolerations: [{operator: Exists}], containers: [{name: c}]}", ".nodeName: "},
		"an unmasked /proc":               {"{containers: [{name: c, securityContext: {procMount: Unmasked}}]}", "Unmasked"},
		"no seccomp":                      {"{securityContext: {seccompProfile: {type: Unconfined}}, containers: [{name: c}]}", "Unconfined"},
		"a token for an audience":         {"{containers: [{name: c}], volumes: [{name: v, projected: {sources: [{configMap: {name: a}}, {serviceAccountToken: {path: t, audience: vault}}]}}]}", ".sources[1].serviceAccountToken: "},
		"a trust bundle":                  {"{containers: [{name: c}], volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {path: t, name: a}}]}}]}", ".sources[0].clusterTrustBundle: "},
		"a certificate":                   {"{containers: [{name: c}], volumes: [{name: v, projected: {sources: [{podCertificate: {signerName: a.b/c, keyType: ED25519}}]}}]}", ".sources[0].podCertificate: "},
		"a driver's volume":               {"{containers: [{name: c}], volumes: [{name: v, csi: {driver: a}}]}", ".volumes[0].csi: "},
		"a block device":                  {"{containers: [{name: c}], volumes: [{name: v, iscsi: {lun: 0}}]}", ".volumes[0].iscsi: "},
		"a hook of another host":          {"{containers: [{name: c, lifecycle: {postStart: {httpGet: {port: 80, host: 169.254.169.254}}}}]}", "169.254.169.254"},
		"an AppArmor profile":             {"{securityContext: {appArmorProfile: {type: Unconfined}}, containers: [{name: c}]}", "Unconfined"},
		"a Windows host process":          {"{securityContext: {windowsOptions: {hostProcess: true}}, containers: [{name: c}]}", "hostProcess"},
		"an account of a domain":          {"{securityContext: {windowsOptions: {gmsaCredentialSpecName: a}}, containers: [{name: c}]}", ".securityContext.windowsOptions.gmsaCredentialSpec: "},
		"an account of a container":       {"{containers: [{name: c}], initContainers: [{name: i, securityContext: {windowsOptions: {gmsaCredentialSpec: '{}'}}}]}", ".initContainers[0].securityContext.windowsOptions.gmsaCredentialSpec: "},
		"a patch directive":               {"{$patch: replace, containers: [{name: c}]}", ".$patch: "},
		"a directive of a container":      {"{containers: [{name: c, $retainKeys: [name]}]}", "$retainKeys"},
		"a key in another case":           {"{HostNetwork: true, containers: [{name: c}]}", ".HostNetwork: "},
		"a key in another case in depth":  {"{containers: [{name: c, SecurityContext: {privileged: true}}]}", "SecurityContext"},
		"a workload's reference":          {"{workloadRef: {name: a}, containers: [{name: c}]}", ".workloadRef: "},
		"a field newer than the agent":    {"{hostSomething: true, containers: [{name: c}]}", ".hostSomething: "},
		"an unknown field in depth":       {"{containers: [{name: c, hostSomething: true}]}", "hostSomething"},
		"a field of another type":         {"{hostNetwork: 'true', containers: [{name: c}]}", "hostNetwork"},
		"an end that never comes":         {"{terminationGracePeriodSeconds: 1000000000, containers: [{name: c}]}", ".terminationGracePeriodSeconds: "},
		"nothing":                         {"null", "is missing, or is not an object"},
		"something that is not an object": {"[1]", "is missing, or is not an object"},
	} {
		for name, workload := range workloads {
			t.Run(what+" of a "+name, func(t *testing.T) {
				err := complete(t, Limits{}).Apply(parse(t, fmt.Sprintf(workload.text, test.spec)))
				refused := &Error{}
				g := NewWithT(t)
				g.Expect(err).To(MatchError(ContainSubstring(test.want)))
				g.Expect(err).To(BeAssignableToTypeOf(refused))
				g.Expect(err.Error()).To(HavePrefix(workload.path))
			})
		}
	}
}

func TestPodsArePinnedToHollowNodesWithoutAToken(t *testing.T) {
	for name, workload := range workloads {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object := parse(t, fmt.Sprintf(workload.text, "{nodeSelector: {zone: a}, tolerations: [{key: own, operator: Exists}], containers: [{name: c}]}"))
			g.Expect(complete(t, Limits{}).Apply(object)).To(Succeed())
			spec, _, err := unstructured.NestedMap(object.Object, strings.Split(workload.path, ".")...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(spec["nodeSelector"]).To(Equal(map[string]any{"zone": "a", v1alpha1.HollowNodeLabel: "true"}))
			g.Expect(spec["tolerations"]).To(Equal([]any{
				map[string]any{"key": "own", "operator": "Exists"},
				map[string]any{"key": "hollowfleet.io/hollow", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
			}))
			g.Expect(spec["automountServiceAccountToken"]).To(BeFalse())
		})
	}
}

func TestWhatOnlyTheAdministratorAllows(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nspec: %s"
	for name, test := range map[string]struct {
		limits       Limits
		text, denied string
	}{
		"any Node":           {Limits{Nodes: AnyNodes}, fmt.Sprintf(pod, "{nodeSelector: {hollowfleet.io/hollow: 'false'}, containers: [{name: c}]}"), "spec.nodeSelector"},
		"privileged pods":    {Limits{PodSecurity: "privileged"}, fmt.Sprintf(pod, "{hostPID: true, volumes: [{name: v, hostPath: {path: /}}], containers: [{name: c, securityContext: {privileged: true}}]}"), "hostPath"},
		"a kind":             {Limits{Kinds: []string{"Widget.example.com"}}, "apiVersion: example.com/v1\nkind: Widget\nspec: {any: thing}", "--load-test-kinds=Widget.example.com"},
		"a kind of the core": {Limits{Kinds: []string{"Endpoints"}}, "apiVersion: v1\nkind: Endpoints", "--load-test-kinds=Endpoints"},
		"claims": {
			Limits{Kinds: []string{"PersistentVolumeClaim"}},
			"apiVersion: apps/v1\nkind: StatefulSet\nspec: {volumeClaimTemplates: [{metadata: {name: v}}], template: {spec: {containers: [{name: c}]}}}", "spec.volumeClaimTemplates",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(complete(t, test.limits).Apply(parse(t, test.text))).To(Succeed())
			g.Expect(complete(t, Limits{}).Apply(parse(t, test.text))).To(MatchError(ContainSubstring(test.denied)))
		})
	}
	// A pod that is allowed at baseline is not at restricted.
	plain := fmt.Sprintf(pod, "{containers: [{name: c}]}")
	g := NewWithT(t)
	g.Expect(complete(t, Limits{}).Apply(parse(t, plain))).To(Succeed())
	g.Expect(complete(t, Limits{PodSecurity: "restricted"}).Apply(parse(t, plain))).To(MatchError(ContainSubstring("allowPrivilegeEscalation")))
}

func TestOtherKindsThatReachFurther(t *testing.T) {
	service := "apiVersion: v1\nkind: Service\nspec: "
	for text, want := range map[string]string{
		service + "{type: LoadBalancer}":                                                                                         "spec.type",
		service + "{type: NodePort}":                                                                                             "spec.type",
		service + "{type: ExternalName, externalName: example.com}":                                                              "spec.externalName",
		service + "{type: Newer}":                                                                                                "spec.type",
		service + "{externalIPs: [10.0.0.1]}":                                                                                    "spec.externalIPs",
		service + "{loadBalancerIP: 10.0.0.1}":                                                                                   "spec.loadBalancerIP",
		service + "{loadBalancerClass: a}":                                                                                       "spec.loadBalancerClass",
		service + "{clusterIP: 10.96.0.10}":                                                                                      "spec.clusterIP",
		service + "{clusterIPs: [10.96.0.10]}":                                                                                   "spec.clusterIP",
		service + "{ports: [{port: 1, nodePort: 30000}]}":                                                                        "spec.ports[0].nodePort",
		"apiVersion: v1\nkind: Service\nmetadata: {annotations: {external-dns/hostname: bank.com}}":                              "metadata.annotations",
		"apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token":                                                "type",
		"apiVersion: v1\nkind: Endpoints":                                                                                        "kind",
		"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice":                                                                   "kind",
		"apiVersion: v1\nkind: ServiceAccount":                                                                                   "kind",
		"apiVersion: v1\nkind: PersistentVolumeClaim":                                                                            "kind",
		"apiVersion: v1\nkind: Binding":                                                                                          "kind",
		"apiVersion: v1\nkind: List\nitems: []":                                                                                  "kind",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding":                                                            "kind",
		"apiVersion: networking.k8s.io/v1\nkind: Ingress":                                                                        "kind",
		"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler":                                                              "kind",
		"apiVersion: v1\nkind: Namespace":                                                                                        "kind",
		"apiVersion: v1\nkind: Node":                                                                                             "kind",
		"apiVersion: v1\nkind: PersistentVolume\nspec: {hostPath: {path: /}}":                                                    "kind",
		"apiVersion: v1\nkind: Event":                                                                                            "kind",
		"apiVersion: v1\nkind: PodExecOptions":                                                                                   "kind",
		"apiVersion: authentication.k8s.io/v1\nkind: TokenRequest":                                                               "kind",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding":                                                     "kind",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role":                                                                   "kind",
		"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration":                                        "kind",
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy":                                           "kind",
		"apiVersion: apiregistration.k8s.io/v1\nkind: APIService":                                                                "kind",
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition":                                                    "kind",
		"apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest":                                                    "kind",
		"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass":                                                                  "kind",
		"apiVersion: node.k8s.io/v1\nkind: RuntimeClass":                                                                         "kind",
		"apiVersion: policy/v1\nkind: Eviction":                                                                                  "kind",
		"apiVersion: storage.k8s.io/v1\nkind: CSIStorageCapacity":                                                                "kind",
		"apiVersion: resource.k8s.io/v1\nkind: ResourceClaim":                                                                    "kind",
		"apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant":                                                         "kind",
		"apiVersion: apps/v1\nkind: ControllerRevision":                                                                          "kind",
		"apiVersion: v1\nkind: Secret\nmetadata: {annotations: {replicator.v1.mittwald.de/replicate-from: kube-system/x}}":       "metadata.annotations[replicator.v1.mittwald.de/replicate-from]",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {annotations: {reflector.v1.k8s.emberstack.com/reflection-allowed: 'true'}}": "metadata.annotations[reflector.v1.k8s.emberstack.com/reflection-allowed]",
		"apiVersion: batch/v1\nkind: Job\nspec: {managedBy: kueue.x-k8s.io/multikueue}":                                          "spec.managedBy",
		"apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {managedBy: a.b/c}}}":                                   "spec.jobTemplate.spec.managedBy",
		"apiVersion: batch/v1\nkind: Job\nspec: {scheduling: {resourceClaims: [{name: gpu}]}}":                                   "spec.scheduling",
		"apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {scheduling: {schedulingPolicy: {}}}}}":                 "spec.jobTemplate.spec.scheduling",
		"apiVersion: v1\nkind: ConfigMap\nreplicateTo: {namespace: kube-system}":                                                 "object",
		"apiVersion: v1\nkind: ResourceQuota\nspec: {clusterWide: true}":                                                         "object",
		"apiVersion: policy/v1\nkind: PodDisruptionBudget\nspec: {namespaceSelector: {}}":                                        "object",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nspec: {podSelector: {}, tier: cluster}":                          "object",
		"apiVersion: apps/v1\nkind: Deployment\nspec: {hostSomething: true, template: {spec: {containers: [{name: c}]}}}":        "object",
		"apiVersion: batch/v1\nkind: Job\nspec: {parallelism: 1, newer: {a: b}, template: {spec: {containers: [{name: c}]}}}":    "object",
		"apiVersion: batch/v1\nkind: CronJob\nspec: {schedule: '@every 1s'}":                                                     "spec.schedule",
		"apiVersion: apps/v1beta1\nkind: Deployment":                                                                             "kind",
		"apiVersion: argoproj.io/v1alpha1\nkind: Application":                                                                    "kind",
		"apiVersion: batch/v1\nkind: Job\nspec: {parallelism: 1000000000}":                                                       "spec",
		"apiVersion: batch/v1\nkind: Job\nspec: {completions: 20000}":                                                            "spec",
		"apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 1e9}":                                                           "spec",
		"apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {completions: 20000}}}":                                 "spec",
	} {
		t.Run(text, func(t *testing.T) {
			NewWithT(t).Expect(complete(t, Limits{}).Apply(parse(t, text))).To(MatchError(HavePrefix(want + ": ")))
		})
	}
	for _, text := range []string{
		service + "{ports: [{port: 80, targetPort: 8080, protocol: TCP, name: web}], selector: {a: b}}",
		service + "{type: ClusterIP, clusterIP: None, selector: {a: b}}",
		"apiVersion: v1\nkind: Secret\nstringData: {a: b}", "apiVersion: v1\nkind: ConfigMap\ndata: {nodeName: hostPath}",
		"apiVersion: v1\nkind: Secret\nmetadata: {annotations: {note: x, hollowfleet.io/x: y}}",
		"apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {}}]}}}",
	} {
		NewWithT(t).Expect(complete(t, Limits{}).Apply(parse(t, text))).To(Succeed(), text)
	}
}

func TestWhatOutlivesTheRunIsDroppedEverywhere(t *testing.T) {
	g := NewWithT(t)
	own := "metadata: {name: n, finalizers: [example.com/x], ownerReferences: [{uid: u}], uid: u, deletionTimestamp: x, labels: {a: b}}"
	object := parse(t, "apiVersion: apps/v1\nkind: StatefulSet\n"+own+"\nspec: {template: {"+own+", spec: {containers: [{name: c}]}}, volumeClaimTemplates: [{"+own+"}]}\n")
	g.Expect(complete(t, Limits{Kinds: []string{"PersistentVolumeClaim"}}).Apply(object)).To(Succeed())
	content, err := json.Marshal(object.Object)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).NotTo(Or(ContainSubstring("finalizers"), ContainSubstring("ownerReferences"), ContainSubstring("uid"), ContainSubstring("deletionTimestamp")))
	g.Expect(strings.Count(string(content), `"labels":{"a":"b"}`)).To(Equal(3))
}

func TestObjectsThatAreTooLarge(t *testing.T) {
	g := NewWithT(t)
	deep := "apiVersion: v1\nkind: ConfigMap\ndata: " + strings.Repeat("{a: ", 100) + "b" + strings.Repeat("}", 100)
	g.Expect(complete(t, Limits{}).Apply(parse(t, deep))).To(MatchError(ContainSubstring("levels deep")))
	wide := "apiVersion: v1\nkind: ConfigMap\ndata: [" + strings.Repeat("1,", 30_000) + "1]"
	g.Expect(complete(t, Limits{}).Apply(parse(t, wide))).To(MatchError(ContainSubstring("keys and items")))
}

func TestLimitsThatAreNone(t *testing.T) {
	for _, l := range []Limits{{PodSecurity: "none"}, {Nodes: "real"}, {Kinds: []string{""}}, {Kinds: []string{"widgets"}}, {Kinds: []string{"apps/v1"}}} {
		_, err := l.Complete()
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("want ")), "%+v", l)
	}
	NewWithT(t).Expect(complete(t, Limits{}).NamespaceLabels()).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "baseline"))
}

// Kinds that only an administrator knows have their pods pinned as well, wherever they are.
// Claim: Allowed kinds' pods go to hollow Nodes. Broken: only known kinds are pinned.
func TestPodsOfAllowedKindsGoToHollowNodes(t *testing.T) {
	text := "apiVersion: example.com/v1\nkind: Widget\nspec:\n  containers: none\n  groups:\n  - template: {spec: {containers: [{name: c}], nodeSelector: {a: b}}}\n  head: {template: {spec: {containers: [{name: c}]}}}\n  other: {spec: {containers: [1]}}"
	limits := complete(t, Limits{Kinds: []string{"Widget.example.com"}})
	object := parse(t, text)
	g := NewWithT(t)
	g.Expect(limits.Apply(object)).To(Succeed())
	spec := object.Object["spec"].(map[string]any)
	group := spec["groups"].([]any)[0].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	g.Expect(group["nodeSelector"]).To(Equal(map[string]any{"a": "b", v1alpha1.HollowNodeLabel: "true"}))
	g.Expect(group["tolerations"]).To(HaveLen(1))
	head := spec["head"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	g.Expect(head["nodeSelector"]).To(Equal(map[string]any{v1alpha1.HollowNodeLabel: "true"}))
	g.Expect(spec["other"]).To(Equal(map[string]any{"spec": map[string]any{"containers": []any{int64(1)}}}), "that is not a pod")

	onRealNodes := parse(t, "apiVersion: example.com/v1\nkind: Widget\nspec: {template: {spec: {containers: [{name: c}], nodeSelector: {hollowfleet.io/hollow: 'false'}}}}")
	g.Expect(limits.Apply(onRealNodes)).To(MatchError(ContainSubstring("spec.template.spec.nodeSelector: ")))
	anywhere := parse(t, text)
	g.Expect(complete(t, Limits{Nodes: AnyNodes, Kinds: []string{"Widget.example.com"}}).Apply(anywhere)).To(Succeed())
	g.Expect(anywhere.Object).To(Equal(parse(t, text).Object))
}

func TestTheBoundOfWhatIsStored(t *testing.T) {
	g := NewWithT(t)
	g.Expect(complete(t, Limits{}).MaxStoredBytes()).To(BeEquivalentTo(1 << 30))
	for _, wrong := range []string{"0", "-1Gi", "1k", "2Pi", "much"} {
		_, err := Limits{MaxStored: wrong}.Complete()
		g.Expect(err).To(MatchError(ContainSubstring("--load-test-max-stored: want bytes such as 4Gi")), wrong)
	}
}
