package tenancy

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

const (
	condition = `{"type":%q,"status":"False","reason":"Tried","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	finalizer = `{"metadata":{"finalizers":[%q]}}`
	// healthCheck is one of each accepted Cluster.
	healthCheck = "example.com/Checked"
)

// setCondition adds or changes a condition of a status with a list of them.
func setCondition(list *[]metav1.Condition, kind string) {
	for i := range *list {
		if (*list)[i].Type == kind {
			(*list)[i].Reason = "Tried"
			return
		}
	}
	*list = append(*list, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Tried", LastTransitionTime: metav1.Now()})
}

func clusterCondition(kind string) func(*v1alpha1.Cluster) {
	return func(c *v1alpha1.Cluster) { setCondition(&c.Status.Conditions, kind) }
}

func ownWork() []attempt {
	own, mine := cluster(clusterA, v1alpha1.ClusterSpec{}), machine(clusterA, machineName)
	fresh, make1 := spare(clusterA, "fresh", nil)
	inside := client.InNamespace(clusterA)
	onlyOwn := client.MatchingFields{"metadata.name": clusterA}
	return []attempt{
		{"read, list and watch its own Cluster", allowed, "", each(get(own), list(&v1alpha1.ClusterList{}, onlyOwn), watch(&v1alpha1.ClusterList{}, onlyOwn))},
		{"list and watch the Machines and MachineClasses of its namespace", allowed, "", each(
			list(&v1alpha1.MachineList{}, inside), watch(&v1alpha1.MachineList{}, inside),
			list(&v1alpha1.MachineClassList{}, inside), watch(&v1alpha1.MachineClassList{}, inside))},
		{"list the NodeDisruptionRuns of its namespace, and write their status", allowed, "", prepared(
			func(ctx context.Context) { hub.create(ctx, disruptionRun(clusterA, "ordered")) },
			each(list(&v1alpha1.NodeDisruptionRunList{}, inside), mergeStatus(disruptionRun(clusterA, "ordered"), `{"status":{"phase":"Running"}}`)))},
		{"list the LoadTestRuns of its namespace, write their status, and put its finalizer on them and take it off", allowed, "", prepared(
			func(ctx context.Context) { hub.create(ctx, loadTestRun(clusterA, "loaded")) },
			each(list(&v1alpha1.LoadTestRunList{}, inside), mergeStatus(loadTestRun(clusterA, "loaded"), `{"status":{"phase":"Running"}}`),
				merge(loadTestRun(clusterA, "loaded"), fmt.Sprintf(finalizer, v1alpha1.LoadTestRunFinalizer)),
				merge(loadTestRun(clusterA, "loaded"), `{"metadata":{"finalizers":null}}`)))},
		{"list and watch the requests for logs of its namespace, and answer one", allowed, "", made(logRequest(clusterA, "asked"), each(
			list(&v1alpha1.MachineLogRequestList{}, inside), watch(&v1alpha1.MachineLogRequestList{}, inside),
			mergeStatus(logRequest(clusterA, "asked"), `{"status":{"phase":"Answered","log":"x"}}`)))},
		{"write the status of a Machine, by update, merge patch, JSON patch and apply", allowed, "", each(
			updateStatus(mine, func(m *v1alpha1.Machine) { setCondition(&m.Status.Conditions, v1alpha1.ReadyCondition) }),
			mergeStatus(mine, `{"status":{"phase":"Running"}}`),
			jsonStatus(mine, `[{"op":"replace","path":"/status/phase","value":"Pending"}]`),
			applyStatus(mine, "Machine", map[string]any{"phase": "Running"}))},
		{"put its finalizer on a Machine, and take it off", allowed, "", each(
			merge(mine, fmt.Sprintf(finalizer, v1alpha1.MachineFinalizer)), merge(mine, `{"metadata":{"finalizers":null}}`))},
		{"set `spec.providerID` of a Machine that has none", allowed, "", prepared(make1, merge(fresh, `{"spec":{"providerID":"hollow://fresh"}}`))},
		{"write its part of the status of its own Cluster, by apply and by merge patch", allowed, "", each(
			applyStatus(own, "Cluster", map[string]any{
				"clusterUID": "x", "kubernetesVersion": "v1.37.1", "agentVersion": "v1", "capacity": map[string]any{"cpu": "4"},
				"podQuota": map[string]any{"namespace": "hollowfleet", "name": "small", "remaining": 3},
				"conditions": []any{map[string]any{
					"type": v1alpha1.ClusterTargetReachableCondition, "status": "True", "reason": v1alpha1.ReasonReachable,
					"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
				}},
			}),
			updatePatch(own, clusterCondition(v1alpha1.ClusterAgentFrozenCondition)),
			updatePatch(own, clusterCondition(v1alpha1.ClusterDisruptionAllowedCondition)),
			mergeStatus(own, `{"status":{"agentVersion":"v2"}}`))},
		{"write the condition of a health check that its Cluster asks for, and remove it", allowed, "", each(
			updatePatch(own, clusterCondition(healthCheck)),
			updatePatch(own, func(c *v1alpha1.Cluster) { meta.RemoveStatusCondition(&c.Status.Conditions, healthCheck) }))},
		{"create and renew its Lease", allowed, "", each(
			renewed(lease(clusterA, v1alpha1.AgentLeaseName)), get(lease(clusterA, v1alpha1.AgentLeaseName)),
			renewed(lease(clusterA, v1alpha1.AgentLeaseName)))},
		{"report an event of a Machine of its namespace", allowed, "", create(event(clusterA, about(clusterA, "Machine", machineName)))},
		{"report an event of its own Cluster", allowed, "", create(event(clusterA, about(clusterA, "Cluster", clusterA)))},
		{"renew its certificate", allowed, "", certificate(nil)},
	}
}

// foreign are attempts at everything of another cluster.
func foreign(other string) []attempt {
	theirs, theirMachine := cluster(other, v1alpha1.ClusterSpec{}), machine(other, machineName)
	theirLease := lease(other, v1alpha1.AgentLeaseName)
	inside := client.InNamespace(other)
	code := func(format string) string { return fmt.Sprintf(format, "`"+other+"`") }
	return []attempt{
		{code("read Cluster %s"), rbac, other, get(theirs)},
		{code("list Cluster %s by its name"), rbac, "clusters", list(&v1alpha1.ClusterList{}, client.MatchingFields{"metadata.name": other})},
		{code("write the status of Cluster %s"), rbac, other, mergeStatus(theirs, `{"status":{"agentVersion":"x"}}`)},
		{code("list the Machines of %s"), rbac, other, list(&v1alpha1.MachineList{}, inside)},
		{code("watch the Machines of %s"), rbac, other, watch(&v1alpha1.MachineList{}, inside)},
		{code("read a Machine of %s"), rbac, other, get(theirMachine)},
		{code("write the status of a Machine of %s"), rbac, other, mergeStatus(theirMachine, `{"status":{"phase":"Failed"}}`)},
		{code("set `spec.providerID` of a Machine of %s"), rbac, other, merge(theirMachine, `{"spec":{"providerID":"hollow://x"}}`)},
		{code("take the finalizer off a Machine of %s"), rbac, other, merge(theirMachine, `{"metadata":{"finalizers":null}}`)},
		{code("delete a Machine of %s"), rbac, other, remove(theirMachine)},
		{code("create a Machine in %s"), rbac, other, create(machine(other, "mine"))},
		{code("read a MachineClass of %s"), rbac, other, get(&v1alpha1.MachineClass{ObjectMeta: in(other, className)})},
		{code("list the NodeDisruptionRuns of %s"), rbac, other, list(&v1alpha1.NodeDisruptionRunList{}, inside)},
		{code("write the status of a NodeDisruptionRun of %s"), rbac, other, mergeStatus(disruptionRun(other, "theirs"), `{"status":{"phase":"Running"}}`)},
		{code("list the LoadTestRuns of %s"), rbac, other, list(&v1alpha1.LoadTestRunList{}, inside)},
		{code("write the status of a LoadTestRun of %s"), rbac, other, mergeStatus(loadTestRun(other, "theirs"), `{"status":{"phase":"Running"}}`)},
		{code("read a Secret of %s"), rbac, other, get(&corev1.Secret{ObjectMeta: in(other, "secret")})},
		{code("read the Lease of %s"), rbac, other, get(theirLease)},
		{code("create the Lease of %s"), rbac, other, create(theirLease)},
		{code("renew the Lease of %s"), rbac, other, func(ctx context.Context, c client.WithWatch) error {
			hub.create(ctx, theirLease.DeepCopy())
			return renewed(theirLease)(ctx, c)
		}},
		{code("report an event in namespace %s"), rbac, other, create(event(other, about(other, "Machine", machineName)))},
		{code("ask for the certificate of %s"), policy, "metadata.name", create(signingRequest(other, nil))},
		{code("read the certificate request of %s"), rbac, other, get(signingRequest(other, nil))},
		{code("delete the certificate request of %s"), rbac, other, remove(signingRequest(other, nil))},
		{code("make a token of the ServiceAccount in %s"), rbac, other, token(other, v1alpha1.AgentServiceAccount)},
		{code("act as the agent of %s"), rbac, "impersonate", impersonating(v1alpha1.AgentUserPrefix+other, v1alpha1.AgentGroupPrefix+other)},
	}
}

func ownMachines() []attempt {
	mine := machine(clusterA, machineName)
	held, makeHeld := spare(clusterA, "held", func(m *v1alpha1.Machine) { m.Finalizers = []string{"example.com/held"} })
	placed, makePlaced := spare(clusterA, "placed", func(m *v1alpha1.Machine) { m.Spec.ProviderID = new("hollow://placed") })
	return []attempt{
		{"create a Machine", rbac, "create", create(machine(clusterA, "more"))},
		{"delete a Machine", rbac, "delete", remove(mine)},
		{"delete all Machines", rbac, "deletecollection", func(ctx context.Context, c client.WithWatch) error {
			return c.DeleteAllOf(ctx, &v1alpha1.Machine{}, client.InNamespace(clusterA))
		}},
		{"change `spec.versions` of a Machine", policy, "spec: an agent", merge(mine, `{"spec":{"versions":{"kubelet":"v1.36.2"}}}`)},
		{"change the spec of a Machine while it sets `spec.providerID`", policy, "spec: an agent",
			update(mine, func(m *v1alpha1.Machine) {
				m.Spec.ProviderID, m.Spec.Versions.Kubelet = new("hollow://x"), "v1.36.2"
			})},
		{"add a field to the spec of a Machine", policy, "spec: an agent", merge(mine, `{"spec":{"roles":["worker"]}}`)},
		{"remove a field from the spec of a Machine", policy, "spec: an agent",
			merge(mine, `{"spec":{"versions":{"kubelet":null},"providerConfig":{"provider":null}}}`)},
		{"change `spec.providerID` that is set", kind, "set once", prepared(makePlaced, merge(placed, `{"spec":{"providerID":"hollow://other"}}`))},
		{"label a Machine", policy, "metadata: an agent", merge(mine, `{"metadata":{"labels":{"x":"y"}}}`)},
		{"take the labels off a Machine", policy, "metadata: an agent", merge(mine, `{"metadata":{"labels":null}}`)},
		{"annotate a Machine", policy, "metadata: an agent", merge(mine, `{"metadata":{"annotations":{"hollowfleet.io/delete-machine":"true"}}}`)},
		{"make itself the owner of a Machine", policy, "metadata: an agent",
			merge(mine, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`)},
		{"put another finalizer on a Machine", policy, "metadata.finalizers", merge(mine, fmt.Sprintf(finalizer, "example.com/stuck"))},
		{"take another client's finalizer off a Machine", policy, "metadata.finalizers", prepared(makeHeld, merge(held, `{"metadata":{"finalizers":null}}`))},
		{"write the condition Frozen of a Machine", policy, "Frozen is the hub's", mergeStatus(mine, `{"status":{"conditions":[`+fmt.Sprintf(condition, v1alpha1.FrozenCondition)+`]}}`)},
	}
}

func ownCluster() []attempt {
	own := cluster(clusterA, v1alpha1.ClusterSpec{})
	var attempts []attempt
	for _, kind := range []string{
		v1alpha1.ClusterAcceptedCondition, v1alpha1.ClusterJoinedCondition, v1alpha1.ClusterAgentConnectedCondition,
		// Claim: An agent writes only its own health conditions. Broken: an older policy: the allowed ones are refused.
		v1alpha1.FrozenCondition, v1alpha1.ReadyCondition, "SomethingNew", "example.com/NotAskedFor",
	} {
		attempts = append(attempts, attempt{"write the condition " + kind, policy, "status.conditions: of a Cluster", updatePatch(own, clusterCondition(kind))})
	}
	return append(attempts,
		attempt{"write the condition Ready by apply", policy, "status.conditions: of a Cluster", applyStatus(own, "Cluster", map[string]any{"conditions": []any{map[string]any{
			"type": v1alpha1.ReadyCondition, "status": "True", "reason": "Tried", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}}})},
		attempt{"remove all conditions", policy, "status.conditions: of a Cluster", mergeStatus(own, `{"status":{"conditions":[]}}`)},
		attempt{"write `status.namespace`", policy, "status: of a Cluster", mergeStatus(own, `{"status":{"namespace":"b"}}`)},
		attempt{"remove `status.namespace`", policy, "status: of a Cluster", jsonStatus(own, `[{"op":"remove","path":"/status/namespace"}]`)},
		attempt{"write `status.machines`", policy, "status: of a Cluster", mergeStatus(own, `{"status":{"machines":{"total":9,"ready":9,"failed":0}}}`)},
		attempt{"write `status.clockSkew`", policy, "status: of a Cluster", mergeStatus(own, `{"status":{"clockSkew":"9s"}}`)},
		attempt{"write `status.hubVersion`", policy, "status: of a Cluster", mergeStatus(own, `{"status":{"hubVersion":"v0.1.0"}}`)},
		attempt{"write `status.joinKey`", policy, "status: of a Cluster", mergeStatus(own, `{"status":{"joinKey":"0"}}`)},
		attempt{"write `status.observedGeneration`", policy, "status: of a Cluster", mergeStatus(own, `{"status":{"observedGeneration":99}}`)},
		attempt{"write its whole status by update", rbac, "update", updateStatus(own, func(c *v1alpha1.Cluster) { c.Status.AgentVersion = "v9" })},
		attempt{"accept itself", rbac, "patch", merge(own, `{"spec":{"acceptance":"Accepted"}}`)},
		attempt{"label or annotate it", rbac, "patch", merge(own, `{"metadata":{"labels":{"x":"y"}}}`)},
		attempt{"delete it", rbac, "delete", remove(own)},
		attempt{"create a Cluster", rbac, "create", create(cluster("c", v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}))},
		attempt{"list all Clusters", rbac, "list", list(&v1alpha1.ClusterList{})},
	)
}

func ownNamespace() []attempt {
	set := &v1alpha1.MachineSet{ObjectMeta: in(clusterA, "set")}
	withFinalizer := func(object client.Object) client.Object {
		object.SetFinalizers([]string{"example.com/stuck"})
		return object
	}
	eventOf := func(namespace, kind, name string) do { return create(event(clusterA, about(namespace, kind, name))) }
	return []attempt{
		{"create a Lease of another name", policy, "metadata.name", create(lease(clusterA, "another"))},
		{"put a finalizer on its Lease", policy, "no finalizers", create(withFinalizer(lease(clusterA, v1alpha1.AgentLeaseName)))},
		{"delete its Lease", rbac, "delete", remove(lease(clusterA, v1alpha1.AgentLeaseName))},
		{"list all Leases", rbac, "list", list(&coordinationv1.LeaseList{}, client.InNamespace(clusterA))},
		{"report an event of a Machine of `b`", policy, "regarding", eventOf(clusterB, "Machine", machineName)},
		{"report an event of Cluster `b`", policy, "regarding", eventOf(clusterA, "Cluster", clusterB)},
		{"report an event of Cluster `ab`", policy, "regarding", eventOf(clusterA, "Cluster", clusterAB)},
		{"report an event of a namespace", policy, "regarding", eventOf(clusterA, "Namespace", clusterA)},
		{"report an event that is related to an object of `b`", policy, "related", func(ctx context.Context, c client.WithWatch) error {
			told := event(clusterA, about(clusterA, "Machine", machineName))
			told.Related = new(about(clusterB, "Machine", machineName))
			return c.Create(ctx, told)
		}},
		{"read MachineSets", rbac, "list", list(&v1alpha1.MachineSetList{}, client.InNamespace(clusterA))},
		{"scale a MachineSet", rbac, "patch", func(ctx context.Context, c client.WithWatch) error {
			return c.SubResource("scale").Patch(ctx, set, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":9}}`)))
		}},
		{"create a MachineDeployment", rbac, "create", create(&v1alpha1.MachineDeployment{ObjectMeta: in(clusterA, "pool")})},
		{"create a NodeDisruptionRun", rbac, "create", create(disruptionRun(clusterA, "mine"))},
		{"pause a NodeDisruptionRun", rbac, "patch", merge(disruptionRun(clusterA, "ordered"), `{"spec":{"paused":true}}`)},
		{"delete a NodeDisruptionRun", rbac, "delete", remove(disruptionRun(clusterA, "ordered"))},
		{"stop a LoadTestRun", policy, "spec, metadata: an agent", prepared(
			func(ctx context.Context) { hub.create(ctx, loadTestRun(clusterA, "stopped")) }, merge(loadTestRun(clusterA, "stopped"), `{"spec":{"stopped":true}}`))},
		{"label a LoadTestRun", policy, "spec, metadata: an agent", prepared(
			func(ctx context.Context) { hub.create(ctx, loadTestRun(clusterA, "labelled")) }, merge(loadTestRun(clusterA, "labelled"), `{"metadata":{"labels":{"x":"y"}}}`))},
		{"put another finalizer on a LoadTestRun", policy, "metadata.finalizers", prepared(
			func(ctx context.Context) { hub.create(ctx, loadTestRun(clusterA, "kept")) }, merge(loadTestRun(clusterA, "kept"), fmt.Sprintf(finalizer, "example.com/stuck")))},
		{"create a LoadTestRun", rbac, "create", create(loadTestRun(clusterA, "mine"))},
		{"delete a LoadTestRun", rbac, "delete", remove(loadTestRun(clusterA, "loaded"))},
		{"change a MachineClass", rbac, "patch", merge(&v1alpha1.MachineClass{ObjectMeta: in(clusterA, className)}, `{"metadata":{"labels":{"x":"y"}}}`)},
		{"create a pod", rbac, "create", create(&corev1.Pod{ObjectMeta: in(clusterA, "pod")})},
	}
}

// updatePatch changes the status by a merge patch of all that is in it.
func updatePatch(object *v1alpha1.Cluster, change func(*v1alpha1.Cluster)) do {
	return func(ctx context.Context, c client.WithWatch) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			before, err := changed(ctx, object, func(*v1alpha1.Cluster) {})
			if err != nil {
				return err
			}
			after := before.DeepCopy()
			change(after)
			return c.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		})
	}
}

// impersonating reads something as another user.
func impersonating(user string, groups ...string) do {
	return func(ctx context.Context, _ client.WithWatch) error {
		config := rest.CopyConfig(hub.agents[clusterA])
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		// The kinds are read with other rights, so that the answer is that to the attempt.
		c, err := client.New(config, client.Options{Scheme: scheme.New(), Mapper: hub.Client.RESTMapper()})
		if err != nil {
			return fmt.Errorf("preparing the attempt: %w", err)
		}
		return c.List(ctx, &v1alpha1.ClusterList{})
	}
}

func escalation() []attempt {
	roleRef := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	agents := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: v1alpha1.AgentGroupPrefix + clusterA}}
	ownRole := &rbacv1.ClusterRole{ObjectMeta: named("hollowfleet:cluster:" + clusterA)}
	return []attempt{
		{"read the Secrets of its namespace", rbac, "secrets", list(&corev1.SecretList{}, client.InNamespace(clusterA))},
		{"read a Secret of its namespace", rbac, "secrets", get(&corev1.Secret{ObjectMeta: in(clusterA, "secret")})},
		{"read the ConfigMaps of its namespace", rbac, "configmaps", list(&corev1.ConfigMapList{}, client.InNamespace(clusterA))},
		{"read the kubelet configurations of its namespace", rbac, "configmaps", get(&corev1.ConfigMap{ObjectMeta: in(clusterA, v1alpha1.KubeletConfigMap)})},
		{"read the join tokens", rbac, "secrets", list(&corev1.SecretList{}, client.InNamespace(metav1.NamespaceSystem))},
		{"make a join token", rbac, "secrets", create(&corev1.Secret{ObjectMeta: in(metav1.NamespaceSystem, "bootstrap-token-aaaaaa"), Type: corev1.SecretTypeBootstrapToken})},
		{"make a token of a ServiceAccount of the agent's name", policy, "own ServiceAccount only", prepared(func(ctx context.Context) {
			hub.create(ctx, &corev1.ServiceAccount{ObjectMeta: in(clusterA, v1alpha1.AgentServiceAccount)})
		}, token(clusterA, v1alpha1.AgentServiceAccount))},
		{"make a token of the ServiceAccount `default` of its namespace", rbac, "token", token(clusterA, "default")},
		{"make a token of the hub's ServiceAccount", rbac, "token", token("hollowfleet-system", "hollowfleet-hub")},
		{"create a ServiceAccount", rbac, "serviceaccounts", create(&corev1.ServiceAccount{ObjectMeta: in(clusterA, "x")})},
		{"read a namespace", rbac, "namespaces", get(&corev1.Namespace{ObjectMeta: named(clusterA)})},
		{"list the namespaces", rbac, "namespaces", list(&corev1.NamespaceList{})},
		{"create a namespace", rbac, "namespaces", create(&corev1.Namespace{ObjectMeta: named("x")})},
		{"delete its namespace", rbac, "namespaces", remove(&corev1.Namespace{ObjectMeta: named(clusterA)})},
		{"read its roles", rbac, "rolebindings", list(&rbacv1.RoleBindingList{}, client.InNamespace(clusterA))},
		{"bind itself to `cluster-admin`", rbac, "clusterrolebindings", create(&rbacv1.ClusterRoleBinding{ObjectMeta: named("x"), RoleRef: roleRef, Subjects: agents})},
		{"bind itself to `cluster-admin` in its namespace", rbac, "rolebindings", create(&rbacv1.RoleBinding{ObjectMeta: in(clusterA, "x"), RoleRef: roleRef, Subjects: agents})},
		{"extend its own ClusterRole", rbac, "clusterroles", merge(ownRole, `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`)},
		{"act as an administrator", rbac, "impersonate", impersonating("admin", "system:masters")},
		{"act as the hub", rbac, "impersonate", impersonating("system:serviceaccount:hollowfleet-system:hollowfleet-hub")},
		{"remove the admission policy", rbac, "validatingadmissionpolicies", remove(&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: named("hollowfleet-agents")})},
		{"remove the admission policy's binding", rbac, "validatingadmissionpolicybindings", remove(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named("hollowfleet-agents")})},
		{"hook into admission", rbac, "mutatingwebhookconfigurations", create(&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: named("x")})},
		{"list the nodes of the hub", rbac, "nodes", list(&corev1.NodeList{})},
	}
}
