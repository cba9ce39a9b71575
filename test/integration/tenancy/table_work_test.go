package tenancy

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Users who write what agents carry out, each with the one role that the chapter says.
const testerName, fleetEditorName = "load-tester", "fleet-editor"

// nowhere chooses no cluster.
func nowhere() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"nowhere": "x"}}
}

func loadTest(name string) *v1alpha1.LoadTest {
	return &v1alpha1.LoadTest{ObjectMeta: named(name), Spec: v1alpha1.LoadTestSpec{ClusterSelector: nowhere(), Load: &loadTestRun(clusterA, "x").Spec.Load}}
}

func disruption(name string) *v1alpha1.NodeDisruption {
	return &v1alpha1.NodeDisruption{ObjectMeta: named(name), Spec: v1alpha1.NodeDisruptionSpec{
		ClusterSelector: nowhere(), Disruption: disruptionRun(clusterA, "x").Spec.Disruption,
	}}
}

func pool(cluster, name string) *v1alpha1.MachineDeployment {
	labels := map[string]string{"pool": name}
	return &v1alpha1.MachineDeployment{ObjectMeta: in(cluster, name), Spec: v1alpha1.MachineDeploymentSpec{
		ClusterName: cluster, Replicas: new(int32(0)), Selector: v1alpha1.MachineSelector{MatchLabels: labels},
		Template: v1alpha1.MachineTemplate{Metadata: v1alpha1.TemplateMetadata{Labels: labels}, Spec: machine(cluster, name).Spec.MachineTemplateBody},
	}}
}

func machineFleet(name string) *v1alpha1.MachineFleet {
	from := pool(clusterA, name).Spec
	return &v1alpha1.MachineFleet{ObjectMeta: named(name), Spec: v1alpha1.MachineFleetSpec{
		ClusterSelector: nowhere(),
		Template:        v1alpha1.MachineDeploymentTemplate{Spec: v1alpha1.MachineDeploymentTemplateSpec{Selector: from.Selector, Template: from.Template}},
	}}
}

// withRights gives a user all verbs on resources of all namespaces, and waits until they count.
func withRights(user string, probe client.ObjectList, act do, resources ...string) do {
	return func(ctx context.Context, c client.WithWatch) error {
		hub.create(ctx, &rbacv1.ClusterRole{ObjectMeta: named("tried:" + user), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: resources, Verbs: []string{"*"}},
		}})
		hub.create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: named("tried:" + user), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tried:" + user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
		Eventually(ctx, func(ctx context.Context) error { return c.List(ctx, probe) }).Should(Succeed(), "the role counts")
		return act(ctx, c)
	}
}

// made has an object before the attempt.
func made(object client.Object, act do) do {
	return prepared(func(ctx context.Context) { hub.create(ctx, object.DeepCopyObject().(client.Object)) }, act)
}

// workChapters are about load tests, disruptions and fleets.
func workChapters() []chapter {
	return []chapter{
		{"Load tests, disruptions and fleets: agents", "The agent of cluster `a` at what users order, of its own cluster, of cluster `b` and of the whole hub.", agentOf(clusterA), agentsAtWork()},
		{"Load tests, disruptions and fleets: an editor of a namespace", "A user with all rights on the kinds of Hollowfleet in namespace `a`.", as(tenantName), tenantAtWork()},
		{"Load tests and disruptions: who may create them", "A user with all rights on LoadTests and NodeDisruptions. They choose all clusters that their selector says, and nothing else.", as(testerName), testersAtWork()},
		{"Fleets: who may edit them", "A user with all rights on MachineFleets, approval included. A fleet writes MachineDeployments in all clusters that it selects, and that is what the right is worth.", as(fleetEditorName), fleetEditorsAtWork()},
	}
}

func agentsAtWork() []attempt {
	test, fault, fleet := loadTest("agents-test"), disruption("agents-fault"), machineFleet("agents-fleet")
	own, theirs := pool(clusterA, "of-a-fleet"), pool(clusterB, "of-a-fleet")
	run, faultRun := loadTestRun(clusterB, "theirs"), disruptionRun(clusterB, "theirs")
	phase, stop := `{"status":{"phase":"Completed"}}`, `{"spec":{"stopped":true}}`
	rows := []attempt{
		{"read a MachineDeployment of its namespace, which a fleet may have made", rbac, "cannot get", made(own, get(own))},
		{"change the template of a MachineDeployment of its namespace", rbac, "cannot patch", made(own, merge(own, `{"spec":{"template":{"spec":{"versions":{"kubelet":"v1.36.2"}}}}}`))},
		{"write the status of a MachineDeployment of its namespace, which a fleet reads", rbac, "cannot patch", made(own, mergeStatus(own, `{"status":{"readyReplicas":9}}`))},
		{"delete a MachineDeployment of its namespace", rbac, "cannot delete", made(own, remove(own))},
		{"change a MachineDeployment of `b`", rbac, "cannot patch", made(theirs, merge(theirs, `{"spec":{"replicas":9}}`))},
		{"write the status of a MachineDeployment of `b`", rbac, "cannot patch", made(theirs, mergeStatus(theirs, `{"status":{"readyReplicas":9}}`))},
		{"create a LoadTestRun in `b`", rbac, clusterB, create(loadTestRun(clusterB, "foreign"))},
		{"stop a LoadTestRun of `b`", rbac, clusterB, made(run, merge(run, stop))},
		{"put its finalizer on a LoadTestRun of `b`", rbac, clusterB, made(run, merge(run, fmt.Sprintf(finalizer, v1alpha1.LoadTestRunFinalizer)))},
		{"delete a LoadTestRun of `b`", rbac, clusterB, made(run, remove(run))},
		{"report a result for `b`", rbac, clusterB, made(run, mergeStatus(run, phase))},
		{"create a NodeDisruptionRun in `b`", rbac, clusterB, create(disruptionRun(clusterB, "foreign"))},
		{"pause a NodeDisruptionRun of `b`", rbac, clusterB, made(faultRun, merge(faultRun, `{"spec":{"paused":true}}`))},
		{"delete a NodeDisruptionRun of `b`", rbac, clusterB, made(faultRun, remove(faultRun))},
	}
	for _, whole := range []struct {
		kind   string
		object client.Object
		list   client.ObjectList
	}{{"LoadTest", test, &v1alpha1.LoadTestList{}}, {"NodeDisruption", fault, &v1alpha1.NodeDisruptionList{}}, {"MachineFleet", fleet, &v1alpha1.MachineFleetList{}}} {
		rows = append(rows,
			attempt{"list the " + whole.kind + "s of the hub", rbac, "cannot list", list(whole.list)},
			attempt{"read a " + whole.kind, rbac, "cannot get", made(whole.object, get(whole.object))},
			attempt{"create a " + whole.kind, rbac, "cannot create", create(whole.object)},
			attempt{"change a " + whole.kind, rbac, "cannot patch", made(whole.object, merge(whole.object, `{"metadata":{"labels":{"x":"y"}}}`))},
			attempt{"write the status of a " + whole.kind, rbac, "cannot patch", made(whole.object, mergeStatus(whole.object, phase))},
			attempt{"delete a " + whole.kind, rbac, "cannot delete", made(whole.object, remove(whole.object))},
		)
	}
	return rows
}

func tenantAtWork() []attempt {
	run, faultRun, own := loadTestRun(clusterA, "of-the-tenant"), disruptionRun(clusterA, "of-the-tenant"), pool(clusterA, "of-the-tenant")
	const only = "can be changed"
	return []attempt{
		{"create a LoadTestRun and a NodeDisruptionRun, which the cluster's agent carries out within what its administrator allows", allowed, "",
			asTenant(each(create(loadTestRun(clusterA, "by-tenant")), create(disruptionRun(clusterA, "by-tenant"))))},
		{"stop a LoadTestRun, and pause a NodeDisruptionRun", allowed, "", asTenant(made(run, made(faultRun, each(
			merge(run, `{"spec":{"stopped":true}}`), merge(faultRun, `{"spec":{"paused":true}}`)))))},
		{"change what a LoadTestRun does", kind, only, asTenant(made(run, merge(run, `{"spec":{"seed":7}}`)))},
		{"change what a NodeDisruptionRun does", kind, only, asTenant(made(faultRun, merge(faultRun, `{"spec":{"seed":7}}`)))},
		{"delete a LoadTestRun and a NodeDisruptionRun", allowed, "", asTenant(made(loadTestRun(clusterA, "over"), made(disruptionRun(clusterA, "over"), each(
			remove(loadTestRun(clusterA, "over")), remove(disruptionRun(clusterA, "over"))))))},
		{"scale and delete a MachineDeployment, which a fleet makes again if it is one of its own", allowed, "", asTenant(made(own, each(
			merge(own, `{"spec":{"replicas":1}}`), remove(own))))},
		{"create a MachineDeployment for another cluster in its namespace", kind, "spec.clusterName", asTenant(func(ctx context.Context, c client.WithWatch) error {
			foreign := pool(clusterB, "foreign")
			foreign.Namespace = clusterA
			return c.Create(ctx, foreign)
		})},
		{"give a MachineDeployment the labels by which the hub tells its Machines apart", kind, "is reserved", asTenant(func(ctx context.Context, c client.WithWatch) error {
			forged := pool(clusterA, "forged")
			forged.Spec.Template.Metadata.Labels[v1alpha1.MachineSetNameLabel] = "of-another"
			return c.Create(ctx, forged)
		})},
		{"create a LoadTestRun in `b`", rbac, clusterB, asTenant(create(loadTestRun(clusterB, "by-tenant")))},
		{"create a NodeDisruptionRun in `b`", rbac, clusterB, asTenant(create(disruptionRun(clusterB, "by-tenant")))},
		{"create a MachineDeployment in `b`", rbac, clusterB, asTenant(create(pool(clusterB, "by-tenant")))},
		{"create a LoadTest", rbac, "cluster scope", asTenant(create(loadTest("by-tenant")))},
		{"create a NodeDisruption", rbac, "cluster scope", asTenant(create(disruption("by-tenant")))},
		{"create a MachineFleet", rbac, "cluster scope", asTenant(create(machineFleet("by-tenant")))},
		{"read the MachineFleets", rbac, "cluster scope", asTenant(list(&v1alpha1.MachineFleetList{}))},
		{"label its Cluster, so that fleets and tests select it", rbac, "cluster scope", asTenant(merge(cluster(clusterA, v1alpha1.ClusterSpec{}), `{"metadata":{"labels":{"x":"y"}}}`))},
	}
}

func testersAtWork() []attempt {
	asTester := func(act do) do {
		return withRights(testerName, &v1alpha1.LoadTestList{}, act, "loadtests", "nodedisruptions")
	}
	test, fault := loadTest("of-the-tester"), disruption("of-the-tester")
	const only = "can be changed"
	return []attempt{
		{"create a LoadTest and a NodeDisruption", allowed, "", asTester(each(create(loadTest("by-tester")), create(disruption("by-tester"))))},
		{"stop a LoadTest, and pause a NodeDisruption", allowed, "", asTester(made(test, made(fault, each(
			merge(test, `{"spec":{"stopped":true}}`), merge(fault, `{"spec":{"paused":true}}`)))))},
		{"change what a LoadTest does", kind, only, asTester(made(test, merge(test, `{"spec":{"load":{"seed":7}}}`)))},
		{"choose other clusters for a LoadTest", kind, only, asTester(made(test, merge(test, `{"spec":{"clusterSelector":{"matchLabels":{"nowhere":"y"}}}}`)))},
		{"change what a NodeDisruption does", kind, only, asTester(made(fault, merge(fault, `{"spec":{"seed":7}}`)))},
		{"create a LoadTestRun in a cluster's namespace", rbac, "cannot create", asTester(create(loadTestRun(clusterA, "by-tester")))},
		{"create a NodeDisruptionRun in a cluster's namespace", rbac, "cannot create", asTester(create(disruptionRun(clusterA, "by-tester")))},
		{"create a Machine", rbac, "cannot create", asTester(create(machine(clusterA, "by-tester")))},
		{"create a MachineFleet", rbac, "cannot create", asTester(create(machineFleet("by-tester")))},
		{"label a Cluster, so that a test selects it", rbac, "cannot patch", asTester(merge(cluster(clusterA, v1alpha1.ClusterSpec{}), `{"metadata":{"labels":{"x":"y"}}}`))},
		{"read the Secrets of a cluster's namespace", rbac, "cannot list", asTester(list(&corev1.SecretList{}, client.InNamespace(clusterA)))},
	}
}

func fleetEditorsAtWork() []attempt {
	asEditor := func(act do) do {
		return withRights(fleetEditorName, &v1alpha1.MachineFleetList{}, act, "machinefleets")
	}
	fleet, own := machineFleet("of-the-editor"), pool(clusterA, "of-the-editor")
	return []attempt{
		{"create, change and delete a MachineFleet", allowed, "", asEditor(made(fleet, each(
			create(machineFleet("by-editor")), merge(machineFleet("by-editor"), `{"spec":{"paused":true}}`), remove(machineFleet("by-editor")))))},
		{"create a MachineFleet without a selection", kind, "clusterSelector", asEditor(func(ctx context.Context, c client.WithWatch) error {
			unbound := machineFleet("unbound")
			unbound.Spec.ClusterSelector = nil
			return c.Create(ctx, unbound)
		})},
		{"change a MachineDeployment that a fleet has made", rbac, "cannot patch", asEditor(made(own, merge(own, `{"spec":{"replicas":9}}`)))},
		{"create a MachineDeployment", rbac, "cannot create", asEditor(create(pool(clusterA, "by-editor")))},
		{"read the Machines of a cluster", rbac, "cannot list", asEditor(list(&v1alpha1.MachineList{}, client.InNamespace(clusterA)))},
		{"delete a Machine", rbac, "cannot delete", asEditor(remove(machine(clusterA, machineName)))},
		{"accept a Cluster", rbac, "cannot patch", asEditor(merge(cluster(clusterA, v1alpha1.ClusterSpec{}), `{"spec":{"acceptance":"Accepted"}}`))},
		{"label a Cluster, so that a fleet selects it", rbac, "cannot patch", asEditor(merge(cluster(clusterA, v1alpha1.ClusterSpec{}), `{"metadata":{"labels":{"x":"y"}}}`))},
		{"freeze a Cluster", rbac, "cannot patch", asEditor(merge(cluster(clusterA, v1alpha1.ClusterSpec{}), `{"metadata":{"annotations":{"hollowfleet.io/freeze":"x"}}}`))},
		{"create a LoadTest", rbac, "cannot create", asEditor(create(loadTest("by-editor")))},
		{"create a NodeDisruption", rbac, "cannot create", asEditor(create(disruption("by-editor")))},
		{"read the Secrets of a cluster's namespace", rbac, "cannot list", asEditor(list(&corev1.SecretList{}, client.InNamespace(clusterA)))},
	}
}
