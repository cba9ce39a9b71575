package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sets are values that each chart is rendered with. TestEverySwitchIsTurned says whether one is missing.
var sets = map[string][]string{
	"hub": {
		"",
		"replicas=1,leaderElection=false",
		"crds.install=false,metrics.enabled=false,uninstallCheck.enabled=false",
		"pprof.enabled=true,autoscaler.clusterRole=true,networkPolicy.enabled=true,podDisruptionBudget.enabled=false",
		"metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true," +
			"metrics.serviceMonitor.labels.release=p,metrics.prometheusRule.labels.release=p",
		"networkPolicy.enabled=true,metrics.enabled=false",
		"networkPolicy.enabled=true,networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring",
		"image.registry=registry.example.com:5000,image.tag=v1,imagePullSecrets[0]=pull,priorityClassName=system-cluster-critical," +
			"nodeSelector.disk=ssd,tolerations[0].operator=Exists,podAnnotations.a=b,podLabels.c=d,resources.limits.memory=1Gi",
		"image.digest=sha256:" + digest,
		"tls.mode=certManager,metrics.serviceMonitor.enabled=true",
		"tls.mode=certManager,tls.issuer.name=fleet,tls.issuer.kind=ClusterIssuer",
		"tls.mode=none,metrics.serviceMonitor.enabled=true",
		tracingSet,
		"dashboard.enabled=true,dashboard.image.tag=v1,dashboard.image.registry=registry.example.com",
		dashboardSet,
	},
	"agent": {
		"",
		"hub.bootstrapKubeconfigSecret=,hub.bootstrapKubeconfig=clusters: []",
		"hub.bootstrapKubeconfigSecret=,hub.kubeconfigSecret=hub,hub.secretKey=config",
		"target.kubeconfigSecret=target,target.namespace=machines,target.serverURL=https://target:6443",
		"target.kubeconfigSecret=target,host.inCluster=true",
		"target.kubeconfigSecret=target,host.kubeconfigSecret=host,host.secretKey=config,host.namespace=pods",
		"host.kubeconfigSecret=host,loadTests.enabled=true,loadTests.podSecurity=restricted,loadTests.nodes=any,loadTests.kinds[0]=PersistentVolumeClaim,loadTests.maxStored=4Gi",
		"hollowNode.quota.enabled=true,hollowNode.quota.hard.pods=101,hollowNode.quota.hard.requests\\.memory=10Gi",
		"metrics.enabled=false,pprof.enabled=true,networkPolicy.enabled=true,hollowNode.nodeMonitorGracePeriod=2m," +
			"hollowNode.csiDrivers[0]=csi.example.com,hollowNode.staticPodNamespaces[0]=kube-system",
		"metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true," +
			"metrics.serviceMonitor.labels.release=p,metrics.prometheusRule.labels.release=p",
		"image.registry=registry.example.com,image.tag=v1,hollowNode.image.registry=registry.example.com,hollowNode.image.digest=sha256:" + digest,
		"hollowNode.image.tag=v1,hollowNode.minors.1\\.36=hollowfleet/hollow-node-v1.36:v1,resources.limits.memory=1Gi,image.digest=sha256:" + digest,
		"networkPolicy.enabled=true,networkPolicy.metricsFrom[0].ipBlock.cidr=10.0.0.0/8",
		"imagePullSecrets[0]=pull,priorityClassName=high,nodeSelector.disk=ssd,tolerations[0].operator=Exists,podAnnotations.a=b,podLabels.c=d",
		"tls.mode=certManager,metrics.serviceMonitor.enabled=true",
		"tls.mode=certManager,tls.issuer.name=fleet,tls.issuer.kind=ClusterIssuer",
		"tls.mode=none,metrics.serviceMonitor.enabled=true",
		tracingSet,
		simulatedSet + ",simulatedClusters.storage.className=fast,simulatedClusters.quota.enabled=false",
		"simulatedClusters.enabled=true,simulatedClusters.pki=selfSigned,simulatedClusters.image.registry=registry.example.com,simulatedClusters.image.digest=sha256:" + digest,
		"kwok.enabled=true",
		"kwok.enabled=true,kwok.image.registry=registry.example.com,kwok.image.digest=sha256:" + digest + ",kwok.nodeLeaseDurationSeconds=80,kwok.resources.limits.memory=1Gi," +
			"imagePullSecrets[0]=pull,priorityClassName=high,nodeSelector.disk=ssd,tolerations[0].operator=Exists",
	},
	"simcluster": {
		"",
		"tls.mode=certManager,loadTests.enabled=false",
		"clusterName=c7,storage.persistent=false,storage.fsync=false,metrics.enabled=false",
		"storage.className=fast,servingNames[0]=c7.example.com,service.type=LoadBalancer,service.annotations.a=b",
		"hub.bootstrapKubeconfigSecret=,hub.bootstrapKubeconfig=clusters: []",
		"hub.bootstrapKubeconfigSecret=,hub.kubeconfigSecret=hub,hub.secretKey=config",
		"metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.serviceMonitor.labels.release=p,metrics.prometheusRule.labels.release=p",
		tracingSet,
		"tls.mode=certManager,metrics.serviceMonitor.enabled=true,servingNames[0]=c7.example.com",
		"networkPolicy.enabled=true,networkPolicy.apiServerFrom[0].ipBlock.cidr=10.0.0.0/8,networkPolicy.metricsFrom[0].ipBlock.cidr=10.0.0.0/8",
		"networkPolicy.enabled=true,metrics.enabled=false",
		"simcluster.image.registry=registry.example.com,simcluster.image.tag=v1,agent.image.registry=registry.example.com,agent.image.tag=v1," +
			"hollowNode.image.registry=registry.example.com,hollowNode.image.tag=v1,hollowNode.minors.1\\.36=registry.example.com/hollowfleet/hollow-node-v1.36:v1",
		"simcluster.image.digest=sha256:" + digest + ",agent.image.digest=sha256:" + digest + ",hollowNode.image.digest=sha256:" + digest,
		"imagePullSecrets[0]=pull,priorityClassName=high,nodeSelector.disk=ssd,tolerations[0].operator=Exists,podAnnotations.a=b,podLabels.c=d," +
			"simcluster.resources.limits.memory=1Gi,agent.resources.limits.memory=1Gi",
	},
}

// dashboardSet has a dashboard that changes what its users may change.
const dashboardSet = "dashboard.enabled=true,dashboard.image.digest=sha256:" + digest + ",dashboard.allowChanges=true,dashboard.mostUsers=3,tls.mode=certManager,networkPolicy.enabled=true," +
	"networkPolicy.dashboardFrom[0].podSelector.matchLabels.app=ingress,podLabels.c=d,dashboard.dnsNames[0]=localhost,dashboard.dnsNames[1]=fleet.example.com"

// tracingSet turns traces and metrics on.
const tracingSet = "tracing.endpoint=http://collector.observability:4317,tracing.samplingRatio=0.1,tracing.metricsInterval=1m," +
	"tracing.env[0].name=OTEL_SERVICE_NAMESPACE,tracing.env[0].value=machines,networkPolicy.enabled=true"

// simulatedSet lets the agent run simulated clusters.
const simulatedSet = "simulatedClusters.enabled=true,simulatedClusters.image.tag=v1"

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// With each of the sets: every object is one that its kind allows, every name leads somewhere, and the pods may run where
// only restricted ones may.
// Claim: Every value set renders valid objects. Broken: a misspelled field, flag, selector, mount and port; a pod that may run as root; a value that no set changes. Also: TestEverySwitchIsTurned.
func TestEverySetRendersObjectsThatFit(t *testing.T) {
	flags := map[string][]string{"hub": flagsOf(t, "hub"), "agent": flagsOf(t, "agent"), "simcluster": flagsOfSimcluster(t)}
	for _, o := range all {
		for _, set := range sets[o.name] {
			t.Run(o.name+" "+set, func(t *testing.T) {
				g := NewWithT(t)
				objects := o.objects(t, set)
				names := map[string]bool{}
				for _, object := range objects {
					g.Expect(names).NotTo(HaveKey(key(object)), "rendered twice")
					names[key(object)] = true
				}
				work := workloadOf(t, objects)
				checkPod(g, objects, work)
				for _, container := range containers(work.pod) {
					_, program, _ := strings.Cut(container.Image, "hollowfleet/")
					program, _, _ = strings.Cut(program, ":")
					program, _, _ = strings.Cut(program, "@")
					g.Expect(flags).To(HaveKey(program), container.Image)
					checkArgs(g, container.Args, flags[program])
				}
				g.Expect(selects(work.selector, work.pod.Labels)).To(BeTrue(), "the selector of %s", key(work.Object))
				for _, object := range objects {
					if object.GetName() != dashboardName {
						checkSelector(g, objects, object, work.pod)
					}
				}
			})
		}
	}
}

// checkSelector looks whether what an object selects is there.
func checkSelector(g Gomega, objects []client.Object, object client.Object, pod corev1.PodTemplateSpec) {
	var ports []corev1.ContainerPort
	for _, container := range containers(pod) {
		ports = append(ports, container.Ports...)
	}
	switch o := object.(type) {
	case *policyv1.PodDisruptionBudget:
		g.Expect(selects(o.Spec.Selector, pod.Labels)).To(BeTrue(), key(o))
	case *networkingv1.NetworkPolicy:
		g.Expect(selects(&o.Spec.PodSelector, pod.Labels)).To(BeTrue(), key(o))
		var open []int32
		for _, rule := range o.Spec.Ingress {
			open = append(open, rule.Ports[0].Port.IntVal)
		}
		var served []int32
		for _, port := range ports {
			served = append(served, port.ContainerPort)
		}
		g.Expect(open).To(ConsistOf(served), "%s opens the ports that are served", key(o))
	case *corev1.Service:
		g.Expect(selects(&metav1.LabelSelector{MatchLabels: o.Spec.Selector}, pod.Labels)).To(BeTrue(), key(o))
		for _, port := range o.Spec.Ports {
			g.Expect(hasPort(ports, port.TargetPort)).To(BeTrue(), "%s: port %s", key(o), port.Name)
		}
	case *monitoringv1.ServiceMonitor:
		matches := func(other client.Object) bool {
			service, ok := other.(*corev1.Service)
			return ok && selects(&o.Spec.Selector, service.Labels) && service.Spec.Ports[0].Name == o.Spec.Endpoints[0].Port
		}
		g.Expect(slices.ContainsFunc(objects, matches)).To(BeTrue(), key(o))
	}
}

func hasPort(ports []corev1.ContainerPort, wanted intstr.IntOrString) bool {
	return slices.ContainsFunc(ports, func(port corev1.ContainerPort) bool {
		return port.Name == wanted.StrVal || port.ContainerPort == wanted.IntVal
	})
}

func checkPod(g Gomega, objects []client.Object, work workload) {
	pod := work.pod
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	results := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
	g.Expect(results.Allowed).To(BeTrue(), "PodSecurity restricted: %s", results.ForbiddenDetail())

	mounts := map[string]bool{}
	for _, container := range containers(pod) {
		g.Expect(*container.SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
		g.Expect(container.Image).To(MatchRegexp(`^([^/]+/)?hollowfleet/[a-z]+(:[a-z0-9]+|@sha256:[0-9a-f]{64})$`))
		for _, mount := range container.VolumeMounts {
			mounts[mount.Name] = true
		}
		if len(container.Ports) == 0 {
			continue // It ends before the others start.
		}
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			g.Expect(hasPort(container.Ports, probe.HTTPGet.Port)).To(BeTrue(), "probe %s", probe.HTTPGet.Path)
		}
	}
	volumes := slices.Clone(work.claims)
	for _, volume := range pod.Spec.Volumes {
		volumes = append(volumes, volume.Name)
	}
	g.Expect(slices.Collect(maps.Keys(mounts))).To(ConsistOf(volumes), "every volume is mounted, and no other")
	find := func(object client.Object) bool {
		account, ok := object.(*corev1.ServiceAccount)
		return ok && account.Name == pod.Spec.ServiceAccountName
	}
	g.Expect(slices.ContainsFunc(objects, find)).To(BeTrue(), "ServiceAccount %s", pod.Spec.ServiceAccountName)
	g.Expect(fmt.Sprint(pod.Spec.Affinity.NodeAffinity)).To(ContainSubstring("hollowfleet.io/hollow,Operator:DoesNotExist"))
}

var flagLine = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)

// flagsOf are the flags that a program knows, by its source: one that was built before may be older than the chart.
func flagsOf(t *testing.T, program string) []string {
	t.Helper()
	built := filepath.Join(t.TempDir(), program)
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", built, "./"+program+"/cmd/"+program)
	build.Dir, build.Env = root, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	help, err := exec.CommandContext(t.Context(), built, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, help)
	}
	var flags []string
	for _, match := range flagLine.FindAllStringSubmatch(string(help), -1) {
		flags = append(flags, match[1])
	}
	return flags
}

var flagCall = regexp.MustCompile(`Var\([^,\n]+, "([a-z-]+)"`)

// flagsOfSimcluster are those that its source names: to link it takes too long.
func flagsOfSimcluster(t *testing.T) []string {
	t.Helper()
	var flags []string
	for _, file := range []string{"root.go", "start.go", "inspect.go"} {
		for _, match := range flagCall.FindAllStringSubmatch(read(t, "agent/simulator/cmd/simcluster/"+file), -1) {
			flags = append(flags, match[1])
		}
	}
	return flags
}

func checkArgs(g Gomega, args, flags []string) {
	seen := map[string]bool{}
	for _, arg := range args {
		if !strings.HasPrefix(arg, "--") {
			continue // The program's command.
		}
		name, value, found := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		g.Expect(found && value != "").To(BeTrue(), "%s has a value", arg)
		g.Expect(flags).To(ContainElement(name))
		g.Expect(seen).NotTo(HaveKey(name), "given twice")
		if name != "serving-name" { // There are several.
			seen[name] = true
		}
	}
}

// Every boolean of values.yaml, and everything else that is empty there, has another value in one of the sets.
func TestEverySwitchIsTurned(t *testing.T) {
	for _, o := range all {
		g := NewWithT(t)
		turned := map[string]any{}
		for _, set := range sets[o.name] {
			maps.Copy(turned, leaves("", o.values(t, set)))
		}
		count := 0
		for path, value := range leaves("", o.load(t).Values) {
			if _, isSwitch := value.(bool); !isSwitch && !slices.Contains([]string{"", "[]", "map[]"}, fmt.Sprint(value)) {
				continue
			}
			count++
			g.Expect(turned).To(HaveKey(HavePrefix(path)), "no set of chart %s changes %s", o.name, path)
		}
		g.Expect(count).To(BeNumerically(">", 8))
	}
}

func leaves(prefix string, values map[string]any) map[string]any {
	all := map[string]any{}
	for key, value := range values {
		if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
			maps.Copy(all, leaves(prefix+key+".", inner))
			continue
		}
		all[prefix+key] = value
	}
	return all
}

// Two replicas are there by default, on two nodes if that can be, and not both are drained at once.
func TestHubStaysAvailable(t *testing.T) {
	g := NewWithT(t)
	objects := hubChart.objects(t, "")
	deployment := find[*appsv1.Deployment](t, objects, "")
	g.Expect(*deployment.Spec.Replicas).To(BeNumerically("==", 2))
	g.Expect(deployment.Spec.Template.Spec.Containers[0].Args).To(ContainElement("--leader-elect=true"))
	for _, spread := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
		g.Expect(selects(spread.LabelSelector, deployment.Spec.Template.Labels)).To(BeTrue(), spread.TopologyKey)
	}
	g.Expect(find[*policyv1.PodDisruptionBudget](t, objects, "").Spec.MinAvailable.IntValue()).To(Equal(1))
	for _, object := range hubChart.objects(t, "replicas=1") {
		g.Expect(object).NotTo(BeAssignableToTypeOf(&policyv1.PodDisruptionBudget{}), "with one replica its node could not be drained")
	}
}
