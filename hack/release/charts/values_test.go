package main

import (
	"testing"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

// helm lint --strict.
// Claim: Charts pass `helm lint --strict`. Broken: an apiVersion that helm does not know.
func TestLint(t *testing.T) {
	for _, o := range all {
		g := NewWithT(t)
		values, err := chartutil.ReadValuesFile(o.path() + "/ci/lint-values.yaml")
		g.Expect(err).NotTo(HaveOccurred())
		result := lint.AllWithKubeVersion(o.path(), values, o.namespace, nil)
		for _, message := range result.Messages {
			g.Expect(message.Severity).To(BeNumerically("<", support.WarningSev), "chart %s: %s", o.name, message)
		}
	}
}

// What contradicts itself or is mistyped is refused, with the name of the value.
// Claim: Wrong values are refused by name. Broken: unknown values allowed; a bound turned round.
// Claim: Missing cert-manager is refused with remedy. Broken: the check of the API removed.
func TestRefusedValues(t *testing.T) {
	for _, test := range []struct {
		o         one
		set, want string
	}{
		{hubChart, "replica=3", "additional properties 'replica' not allowed"},
		{hubChart, "replicas=two", "at '/replicas': got string, want integer"},
		{hubChart, "replicas=0", "at '/replicas': minimum: got 0, want 1"},
		{hubChart, "leaderElection=false", "at '/replicas': maximum: got 2, want 1"},
		{hubChart, "metrics.enabled=false,metrics.serviceMonitor.enabled=true", "at '/metrics/enabled': value must be true"},
		{hubChart, "metrics.servicemonitor.enabled=true", "at '/metrics': additional properties 'servicemonitor' not allowed"},
		{hubChart, "log.format=yaml", "at '/log/format': value must be one of 'text', 'json'"},
		{hubChart, "safety.overshootingPeriod=60", "at '/safety/overshootingPeriod': got number, want string"},
		{hubChart, "image.digest=abc", "at '/image/digest': 'abc' does not match pattern"},
		{hubChart, "image.tag=a b", "at '/image/tag': 'a b' does not match pattern"},
		{hubChart, "heartbeat.graceSeconds=15", "heartbeat.graceSeconds: want at least twice heartbeat.periodSeconds, 20, got 15"},
		{hubChart, "dashboard.dnsNames[0]=https://fleet.example.com", "at '/dashboard/dnsNames/0': 'https://fleet.example.com' does not match pattern"},
		{hubChart, "safety.down=3", "safety.down: want at most safety.up, 2, got 3"},
		{hubChart, "podDisruptionBudget.minAvailable=2", "podDisruptionBudget.minAvailable: want less than replicas, 2, got 2"},
		{one{name: "hub", namespace: "default"}, "", "install with --namespace hollowfleet-system --create-namespace"},
		{one{name: "agent", namespace: "hollowfleet"}, "", "at '/clusterName': minLength: got 0, want 1"},
		{one{name: "agent", namespace: "hollowfleet", needs: "clusterName=c1"}, "", "at '/hub/bootstrapKubeconfigSecret': minLength: got 0, want 1"},
		{hubChart, "tls.mode=off", "at '/tls/mode': value must be one of 'auto', 'certManager', 'selfSigned', 'none'"},
		{hubChart, "tls.mode=selfSigned,tls.issuer.name=fleet", "at '/tls/issuer/name': maxLength: got 5, want 0"},
		{hubChart, "tls.mode=certManager", "tls.mode: certManager needs cert-manager, which this cluster does not have: install it (https://cert-manager.io/docs/installation), or set tls.mode=selfSigned"},
		{agentChart, "tls.mode=certManager", "or set tls.mode=selfSigned"},
		{hubChart, "tracing.samplingRatio=0.5", "at '/tracing/samplingRatio': value must be one of 0"},
		{hubChart, "tracing.endpoint=http://c:4317,tracing.samplingRatio=2", "at '/tracing/samplingRatio': maximum: got 2, want 1"},
		{agentChart, "tracing.metricsInterval=1m", "at '/tracing/metricsInterval': value must be '0s'"},
		{agentChart, "tracing.endpoint=collector:4317", "at '/tracing/endpoint': 'collector:4317' does not match pattern"},
		{hubChart, "resources.requests.memory=64Mib", "at '/resources/requests/memory': '64Mib' does not match pattern"},
		{hubChart, "resources.limits.cpu=-1", "at '/resources/limits/cpu': minimum: got -1, want 0"},
		{simclusterChart, "agent.resources.requests.cpu=50 m", "at '/agent/resources/requests/cpu': '50 m' does not match pattern"},
		{agentChart, "hollowNode.quota.hard.pods=many", "at '/hollowNode/quota/hard/pods': 'many' does not match pattern"},
		{agentChart, "hollowNode.minors.v1=i", "at '/hollowNode/minors': additional properties 'v1' not allowed"},
		{agentChart, "freezeAfter=1s", "at '/freezeAfter': '1s' does not match pattern"},
		{simclusterChart, "freezeAfter=500ms", "at '/freezeAfter': '500ms' does not match pattern"},
		{agentChart, "clusterName=C_1", "at '/clusterName': 'C_1' does not match pattern"},
		{agentChart, "hub.bootstrapKubeconfig=clusters: []", "at '/hub/bootstrapKubeconfigSecret': maxLength: got 9, want 0"},
		{agentChart, "hub.kubeconfigSecret=ready", "at '/hub/kubeconfigSecret': maxLength: got 5, want 0"},
		{one{name: "agent", namespace: "hollowfleet", needs: "clusterName=c1"}, "hub.bootstrapKubeconfig=c1.bootstrap.kubeconfig", "at '/hub/bootstrapKubeconfig': 'c1.bootstrap.kubeconfig' does not match pattern"},
		{agentChart, "hub.certificateLifetime=7d", "at '/hub/certificateLifetime': '7d' does not match pattern"},
		{agentChart, "target.serverURL=http://target", "at '/target/serverURL': 'http://target' does not match pattern"},
		{agentChart, "target.kubeconfigSecret=t,host.inCluster=true,host.kubeconfigSecret=h", "at '/host/kubeconfigSecret': maxLength: got 1, want 0"},
		{agentChart, "hollowNode.quota.enabled=true", "at '/hollowNode/quota/hard': minProperties: got 0, want 1"},
		{agentChart, "hollowNode.quota.hard.cpu=1", "at '/hollowNode/quota/hard': additional properties 'cpu' not allowed"},
		{agentChart, "thaw.deletionsPerMinute=0", "at '/thaw/deletionsPerMinute': minimum: got 0, want 1"},
		{agentChart, "host.inCluster=true", "host.inCluster: only with target.kubeconfigSecret"},
		{agentChart, "host.namespace=pods", "host.namespace: in this cluster the agent's rights are in the release's namespace, hollowfleet: install with --namespace pods"},
		{agentChart, "target.namespace=pods", "target.namespace: in this cluster the agent's rights are in the release's namespace, hollowfleet: install with --namespace pods"},
		{agentChart, "target.kubeconfigSecret=t,hollowNode.quota.enabled=true,hollowNode.quota.hard.pods=1", "hollowNode.quota.enabled: the hollow-node pods run in another cluster"},
		{agentChart, "simulatedClusters.pki=vault", "at '/simulatedClusters/pki': value must be one of 'auto', 'certManager', 'selfSigned'"},
		{agentChart, "simulatedClusters.max=0", "at '/simulatedClusters/max': minimum: got 0, want 1"},
		{agentChart, "simulatedClusters.storage.size=big", "at '/simulatedClusters/storage/size': 'big' does not match pattern"},
		{agentChart, simulatedSet + ",target.kubeconfigSecret=t", "simulatedClusters.enabled: the agent runs simulated clusters as pods of the cluster that it is in"},
		{agentChart, "kwok.enabled=true,target.kubeconfigSecret=t", "kwok.enabled: kwok's controller runs in the cluster whose Nodes it plays"},
		{agentChart, "kwok.nodeLeaseDurationSeconds=1", "at '/kwok/nodeLeaseDurationSeconds': minimum: got 1, want 4"},
		{agentChart, simulatedSet + ",simulatedClusters.pki=certManager", "simulatedClusters.pki: certManager needs cert-manager, which this cluster does not have"},
		{one{name: "simcluster", namespace: "c7"}, "", "at '/hub/bootstrapKubeconfigSecret': minLength: got 0, want 1"},
		{simclusterChart, "hollowNode.quota.enabled=true,hollowNode.quota.hard.pods=9", "kubectl --namespace c7 annotate resourcequota r helm.sh/resource-policy=keep. Then set hollowNode.quota.enabled=false"},
		{simclusterChart, "clusterName=C_7", "at '/clusterName': 'C_7' does not match pattern"},
		{simclusterChart, "tls.mode=none", "at '/tls/mode': value must be one of 'auto', 'certManager', 'selfSigned'"},
		{simclusterChart, "tls.mode=certManager", "tls.mode: certManager needs cert-manager, which this cluster does not have: install it (https://cert-manager.io/docs/installation), or set tls.mode=selfSigned"},
		{simclusterChart, "storage.persistent=false,storage.className=fast", "at '/storage/className': maxLength: got 4, want 0"},
		{simclusterChart, "storage.size=big", "at '/storage/size': 'big' does not match pattern"},
		{simclusterChart, "servingNames[0]=a_b", "at '/servingNames/0': 'a_b' does not match pattern"},
		{simclusterChart, "service.type=None", "at '/service/type': value must be one of 'ClusterIP', 'NodePort', 'LoadBalancer'"},
		{simclusterChart, "metrics.enabled=false,metrics.serviceMonitor.enabled=true", "at '/metrics/enabled': value must be true"},
		{simclusterChart, "metrics.enabled=false,metrics.prometheusRule.enabled=true", "at '/metrics/enabled': value must be true"},
		{simclusterChart, "metrics.dashboard.enabled=true", "at '/metrics': additional properties 'dashboard' not allowed"},
		{simclusterChart, "tracing.samplingRatio=0.5", "at '/tracing/samplingRatio': value must be one of 0"},
		{simclusterChart, "tracing.endpoint=collector:4317", "at '/tracing/endpoint': 'collector:4317' does not match pattern"},
		{simclusterChart, "hub.kubeconfigSecret=ready", "at '/hub/kubeconfigSecret': maxLength: got 5, want 0"},
	} {
		t.Run(test.o.name+" "+test.set, func(t *testing.T) {
			_, err := test.o.render(t, test.o.values(t, test.set))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}
