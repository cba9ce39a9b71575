package tenancy

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
)

// simulationEditorName is a user with the role that the hub brings for simulated clusters.
const simulationEditorName, simulationEditorRole = "simulation-editor", "hollowfleet-simulation-editor"

func simulatedCluster(host, name string) *v1alpha1.SimulatedCluster {
	return &v1alpha1.SimulatedCluster{ObjectMeta: in(host, name)}
}

func simulatedClusterSet(name string) *v1alpha1.SimulatedClusterSet {
	return &v1alpha1.SimulatedClusterSet{ObjectMeta: named(name), Spec: v1alpha1.SimulatedClusterSetSpec{Replicas: new(int32(0)), HostSelector: *nowhere()}}
}

// hosting lets a cluster host a simulated one, whose Cluster is made as the hub makes it when the host's agent allows it; and waits until
// the host's agent may ask for its certificate.
func hosting(host, name string) func(context.Context) {
	return func(ctx context.Context) {
		GinkgoHelper()
		one := simulatedCluster(host, name)
		hub.create(ctx, one)
		Expect(hub.Client.Get(ctx, client.ObjectKeyFromObject(one), one)).To(Succeed())
		made := cluster(name, v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted})
		made.Annotations = map[string]string{v1alpha1.SimulatedClusterAnnotation: one.ProofOfSimulation()}
		hub.create(ctx, made)
		expectAskable(ctx, host, name)
	}
}

// expectAskable waits until the agent of host may ask for the certificate of a simulated cluster's agent.
func expectAskable(ctx context.Context, host, name string) {
	GinkgoHelper()
	request := client.ObjectKey{Name: certrequest.NameOfHostedAgent(host, name)}
	Eventually(ctx, func(ctx context.Context) bool {
		err := clientFor(hub.agents[host]).Get(ctx, request, &certificatesv1.CertificateSigningRequest{})
		return err == nil || apierrors.IsNotFound(err)
	}).Should(BeTrue(), "the hub lets the agent of %s ask for that of %s", host, name)
}

// hostedRequest is the request of host's agent for the identity of the agent of a cluster, by the name of another.
func hostedRequest(host, name, identityOf string) *certificatesv1.CertificateSigningRequest {
	csr := signingRequest(name, newKey(identity(identityOf)).request)
	csr.Name = certrequest.NameOfHostedAgent(host, name)
	return csr
}

func hostedDecision(csr *certificatesv1.CertificateSigningRequest) do {
	return func(ctx context.Context, c client.WithWatch) error { return decision(ctx, c, csr) }
}

// simulationChapters are about simulated clusters, whose agents get their identities from their host's.
func simulationChapters() []chapter {
	return []chapter{
		{"Simulated clusters: the host's agent", "The agent of cluster `a`, which hosts one.", agentOf(clusterA), hostAtWork()},
		{"Simulated clusters: an editor of a namespace", "A user with all rights on Hollowfleet's kinds in namespace `a`.", as(tenantName), tenantSimulating()},
		{"Simulated clusters: who may create them", "A user with ClusterRole `" + simulationEditorRole + "`.", as(simulationEditorName), editorsSimulating()},
	}
}

func hostAtWork() []attempt {
	own, theirs := simulatedCluster(clusterA, "hosted"), simulatedCluster(clusterB, "theirs")
	inside := client.InNamespace(clusterA)
	hosts, others := hosting(clusterA, "hosted"), made
	ready := `{"status":{"conditions":[` + fmt.Sprintf(condition, v1alpha1.ReadyCondition) + `]}}`
	kept := fmt.Sprintf(finalizer, v1alpha1.SimulatedClusterFinalizer)
	const metadata = "spec, metadata: an agent"
	hosted := func(identityOf string) do { return hostedDecision(hostedRequest(clusterA, "hosted", identityOf)) }
	taken := func(ctx context.Context) {
		hub.create(ctx, simulatedCluster(clusterA, clusterB))
		expectAskable(ctx, clusterA, clusterB)
	}
	return []attempt{
		{"list and watch the SimulatedClusters of its namespace", allowed, "", prepared(hosts, each(
			list(&v1alpha1.SimulatedClusterList{}, inside), watch(&v1alpha1.SimulatedClusterList{}, inside)))},
		{"put its finalizer on one and take it off, and write its versions and condition ControlPlaneReady", allowed, "", prepared(hosts, each(
			appendFinalizer(own), removeFinalizer(own), mergeStatus(own, `{"status":{"versions":{"controlPlane":"v1.36.0"}}}`),
			applyStatus(own, "SimulatedCluster", map[string]any{"conditions": []any{map[string]any{
				"type": v1alpha1.ControlPlaneReadyCondition, "status": "True", "reason": "Tried", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}}})))},
		{"report an event of one", allowed, "", create(event(clusterA, about(clusterA, "SimulatedCluster", "hosted")))},
		{"write condition SimulatedClustersAllowed of its Cluster", allowed, "", updatePatch(cluster(clusterA, v1alpha1.ClusterSpec{}), clusterCondition(v1alpha1.ClusterSimulatedClustersAllowedCondition))},
		{"ask for the certificate of the one it hosts", allowed, "", prepared(hosts, hosted("hosted"))},
		{"ask for the identity of `b` in that request", approver, "common name", prepared(hosts, hosted(clusterB))},
		{"ask for its own in it", approver, "common name", prepared(hosts, hosted(clusterA))},
		{"ask for the certificate of `b` by a SimulatedCluster of that name", approver, "NotHosted", prepared(taken, hostedDecision(hostedRequest(clusterA, clusterB, clusterB)))},
		{"ask for the certificate of `ab`, of which it has no SimulatedCluster", policy, "metadata.name", create(hostedRequest(clusterA, clusterAB, clusterAB))},
		{"ask for the certificate of what `b` hosts, by the name of its own", policy, "metadata.name", prepared(hosting(clusterB, "theirs"), create(hostedRequest(clusterA, "theirs", "theirs")))},
		{"ask for the certificate of what `b` hosts, by the name of `b`", policy, "metadata.name", prepared(hosting(clusterB, "theirs"), create(hostedRequest(clusterB, "theirs", "theirs")))},
		{"read the certificate request for what `b` hosts", rbac, clusterB, prepared(hosting(clusterB, "theirs"), get(hostedRequest(clusterB, "theirs", "theirs")))},
		{"create a SimulatedCluster", rbac, "cannot create", create(simulatedCluster(clusterA, "mine"))},
		{"delete a SimulatedCluster", rbac, "cannot delete", others(own, remove(own))},
		{"change the spec of a SimulatedCluster", policy, metadata, others(own, merge(own, `{"spec":{"versions":{"controlPlane":"v1.36"}}}`))},
		{"give the Cluster of a SimulatedCluster labels", policy, "spec", others(own, merge(own, `{"spec":{"metadata":{"labels":{"x":"y"}}}}`))},
		{"label a SimulatedCluster", policy, metadata, others(own, merge(own, `{"metadata":{"labels":{"hollowfleet.io/force-deletion":"true"}}}`))},
		{"put another finalizer on a SimulatedCluster", policy, "metadata.finalizers", others(own, merge(own, fmt.Sprintf(finalizer, "example.com/stuck")))},
		{"write the condition Ready of a SimulatedCluster", policy, "status.conditions", others(own, mergeStatus(own, ready))},
		{"write `status.observedGeneration` of a SimulatedCluster", policy, "status: of a SimulatedCluster", others(own, mergeStatus(own, `{"status":{"observedGeneration":99}}`))},
		{"list the SimulatedClusters of `b`", rbac, clusterB, list(&v1alpha1.SimulatedClusterList{}, client.InNamespace(clusterB))},
		{"read a SimulatedCluster of `b`", rbac, clusterB, others(theirs, get(theirs))},
		{"put its finalizer on a SimulatedCluster of `b`", rbac, clusterB, others(theirs, merge(theirs, kept))},
		{"write the status of a SimulatedCluster of `b`", rbac, clusterB, others(theirs, mergeStatus(theirs, `{"status":{"versions":{"controlPlane":"v1.36.0"}}}`))},
		{"read the Cluster of a simulated cluster that it hosts", rbac, "hosted", prepared(hosts, get(cluster("hosted", v1alpha1.ClusterSpec{})))},
		{"list the Machines of a simulated cluster that it hosts", rbac, "hosted", prepared(hosts, list(&v1alpha1.MachineList{}, client.InNamespace("hosted")))},
		{"list the SimulatedClusterSets of the hub", rbac, "cannot list", list(&v1alpha1.SimulatedClusterSetList{})},
		{"scale a SimulatedClusterSet", rbac, "cannot patch", others(simulatedClusterSet("scaled"), merge(simulatedClusterSet("scaled"), `{"spec":{"replicas":9}}`))},
	}
}

// appendFinalizer and removeFinalizer change the one finalizer that is the agent's: the hub has its own.
func appendFinalizer(object *v1alpha1.SimulatedCluster) do {
	return patchFinalizers(object, func(all []string) []string { return append(all, v1alpha1.SimulatedClusterFinalizer) })
}

func removeFinalizer(object *v1alpha1.SimulatedCluster) do {
	return patchFinalizers(object, func(all []string) (kept []string) {
		for _, one := range all {
			if one != v1alpha1.SimulatedClusterFinalizer {
				kept = append(kept, one)
			}
		}
		return kept
	})
}

func patchFinalizers(object *v1alpha1.SimulatedCluster, change func([]string) []string) do {
	return func(ctx context.Context, c client.WithWatch) error {
		before, err := changed(ctx, object, func(*v1alpha1.SimulatedCluster) {})
		if err != nil {
			return err
		}
		after := before.DeepCopy()
		after.Finalizers = change(after.Finalizers)
		return c.Patch(ctx, after, client.MergeFrom(before))
	}
}

func tenantSimulating() []attempt {
	own := simulatedCluster(clusterA, "of-the-tenant")
	const simulate = `the verb "simulate" on "clusters"`
	return []attempt{
		{"create a SimulatedCluster", policy, simulate, asTenant(create(simulatedCluster(clusterA, "by-tenant")))},
		{"give its Cluster labels, so that fleets select it", policy, simulate, asTenant(made(own, merge(own, `{"spec":{"metadata":{"labels":{"x":"y"}}}}`)))},
		{"change its version, and delete it", allowed, "", asTenant(made(own, each(merge(own, `{"spec":{"versions":{"controlPlane":"v1.36"}}}`), remove(own))))},
		{"change `spec.machineDeployments`", kind, "created once", asTenant(made(own, merge(own, `{"spec":{"machineDeployments":[{"name":"more","template":{"spec":{"providerConfig":{"valueRef":{"name":"x"}}}}}]}}`)))},
		{"create a SimulatedCluster in `b`", rbac, clusterB, asTenant(create(simulatedCluster(clusterB, "by-tenant")))},
		{"create a SimulatedClusterSet", rbac, "cluster scope", asTenant(create(simulatedClusterSet("by-tenant")))},
		{"ask for its certificate", rbac, "cannot create", asTenant(create(hostedRequest(clusterA, "hosted", "hosted")))},
	}
}

func editorsSimulating() []attempt {
	asEditor := func(act do) do {
		return func(ctx context.Context, c client.WithWatch) error {
			hub.create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: named("tried:" + simulationEditorName), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: simulationEditorRole},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: simulationEditorName}},
			})
			Eventually(ctx, func(ctx context.Context) error { return c.List(ctx, &v1alpha1.SimulatedClusterList{}) }).Should(Succeed(), "the role counts")
			return act(ctx, c)
		}
	}
	one, set := simulatedCluster(clusterA, "by-editor"), simulatedClusterSet("by-editor")
	starting := simulatedCluster(clusterA, "starting")
	starting.Spec.MachineClasses = []v1alpha1.InitialMachineClass{{Name: "x", Spec: v1alpha1.MachineClassSpec{Provider: v1alpha1.ProviderHollow}}}
	starting.Spec.MachineDeployments = []v1alpha1.InitialMachineDeployment{{Name: "workers", Template: v1alpha1.MachineTemplate{Spec: v1alpha1.MachineTemplateBody{
		ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "x"}},
	}}}}
	return []attempt{
		{"create one with MachineClasses and MachineDeployments, which the hub creates in a namespace that it makes for it", allowed, "", asEditor(each(create(starting), remove(starting)))},
		{"create, label and delete a SimulatedCluster", allowed, "", asEditor(each(create(one), merge(one, `{"spec":{"metadata":{"labels":{"x":"y"}}}}`), remove(one)))},
		{"create, scale and delete a SimulatedClusterSet", allowed, "", asEditor(each(create(set), merge(set, `{"spec":{"replicas":1}}`), remove(set)))},
		{"write the status of a SimulatedCluster", rbac, "cannot patch", asEditor(made(simulatedCluster(clusterA, "hosted"), mergeStatus(simulatedCluster(clusterA, "hosted"), `{"status":{"observedGeneration":9}}`)))},
		{"create a MachineDeployment", rbac, "cannot create", asEditor(create(&v1alpha1.MachineDeployment{ObjectMeta: in(clusterA, "by-editor")}))},
		{"create a Cluster", rbac, "cannot create", asEditor(create(cluster("by-editor", v1alpha1.ClusterSpec{})))},
		{"mark a Cluster as simulated", rbac, "cannot patch", asEditor(merge(cluster(clusterA, v1alpha1.ClusterSpec{}), `{"metadata":{"annotations":{"hollowfleet.io/simulated-cluster":"a/x"}}}`))},
		{"ask for the certificate of the agent of a simulated cluster", rbac, "cannot create", asEditor(create(hostedRequest(clusterA, "hosted", "hosted")))},
	}
}
