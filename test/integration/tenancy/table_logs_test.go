package tenancy

import (
	"context"
	"strings"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Users with a role of the hub's in namespace a: one who may read logs, and one who may not.
const (
	logReaderName, logReaderRole = "log-reader", "hollowfleet-log-reader"
	viewerName, viewerRole       = "viewer", "hollowfleet-viewer"
)

func logRequest(cluster, name string) *v1alpha1.MachineLogRequest {
	return &v1alpha1.MachineLogRequest{ObjectMeta: in(cluster, name), Spec: v1alpha1.MachineLogRequestSpec{MachineName: machineName}}
}

// inNamespaceA binds a role of the hub's to the user of its name in namespace a.
func inNamespaceA(user, role string, probe client.ObjectList, act do) do {
	return func(ctx context.Context, c client.WithWatch) error {
		hub.create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: in(clusterA, "tried:"+user), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
		Eventually(ctx, func(ctx context.Context) error { return c.List(ctx, probe, client.InNamespace(clusterA)) }).Should(Succeed(), "the role counts")
		return act(ctx, c)
	}
}

// logChapters are about who reads the logs of Machines.
func logChapters() []chapter {
	return []chapter{
		{"Logs: the agent", "The agent of cluster `a` at requests for logs.", agentOf(clusterA), agentsAtLogs()},
		{"Logs: who may read them", "A user with ClusterRole `" + logReaderRole + "` in namespace `a`.", as(logReaderName), readersAtLogs()},
		{"Logs: viewers", "A user with ClusterRole `" + viewerRole + "` in namespace `a`.", as(viewerName), viewersAtLogs()},
	}
}

func agentsAtLogs() []attempt {
	asked, big, twice := logRequest(clusterA, "to-delete"), logRequest(clusterA, "big"), logRequest(clusterA, "twice")
	answered := prepared(func(ctx context.Context) {
		hub.create(ctx, logRequest(clusterA, "twice"))
		first := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Answered","log":"first"}}`))
		Expect(hub.Client.Status().Patch(ctx, logRequest(clusterA, "twice"), first)).To(Succeed())
	}, mergeStatus(twice, `{"status":{"log":"second"}}`))
	return []attempt{
		{"list the requests of cluster `b`", rbac, "cannot list", list(&v1alpha1.MachineLogRequestList{}, client.InNamespace(clusterB))},
		{"answer a request of cluster `b`", rbac, "cannot patch", made(logRequest(clusterB, "theirs"), mergeStatus(logRequest(clusterB, "theirs"), `{"status":{"phase":"Answered"}}`))},
		{"ask for a log", rbac, "cannot create", create(logRequest(clusterA, "own"))},
		{"delete a request", rbac, "cannot delete", made(asked, remove(asked))},
		{"answer with a megabyte", kind, "status.log", made(big, mergeStatus(big, `{"status":{"phase":"Answered","log":"`+strings.Repeat("x", 1<<20)+`"}}`))},
		{"answer again", policy, "the request is answered", answered},
	}
}

func readersAtLogs() []attempt {
	asReader := func(act do) do {
		return inNamespaceA(logReaderName, logReaderRole, &v1alpha1.MachineLogRequestList{}, act)
	}
	own, forged, theirs := logRequest(clusterA, "own"), logRequest(clusterA, "forged"), logRequest(clusterB, "theirs")
	kept := logRequest(clusterA, "kept")
	kept.Finalizers = []string{"example.com/kept"}
	endless := logRequest(clusterA, "endless")
	endless.Spec.TailLines = 1001
	return []attempt{
		{"ask for a log, read the answer and delete it", allowed, "", asReader(each(create(own), get(own), remove(own)))},
		{"ask in namespace `b`", rbac, "cannot create", asReader(create(theirs))},
		{"read an answer of namespace `b`", rbac, "cannot get", asReader(made(theirs, get(theirs)))},
		{"answer in place of the agent", rbac, "cannot patch", asReader(made(forged, mergeStatus(forged, `{"status":{"phase":"Answered"}}`)))},
		{"ask for more than a thousand lines", kind, "spec.tailLines", asReader(create(endless))},
		{"keep an answer with a finalizer", policy, "it expires", asReader(create(kept))},
		{"delete a Machine", rbac, "cannot delete", asReader(remove(machine(clusterA, machineName)))},
	}
}

func viewersAtLogs() []attempt {
	asViewer := func(act do) do { return inNamespaceA(viewerName, viewerRole, &v1alpha1.MachineList{}, act) }
	own := logRequest(clusterA, "of-another")
	return []attempt{
		{"ask for a log", rbac, "cannot create", asViewer(create(own))},
		{"read another user's answer", rbac, "cannot get", asViewer(made(own, get(own)))},
		{"list answers", rbac, "cannot list", asViewer(list(&v1alpha1.MachineLogRequestList{}, client.InNamespace(clusterA)))},
	}
}
