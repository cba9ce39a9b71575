package confine

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is what is known of a kind whose objects reach no further than their namespace.
type kind struct {
	// podTemplate is where the template of its pods is, with metadata and spec; for a Pod it is the object itself. Nil without pods.
	podTemplate []string
	hasPods     bool
	// check looks at fields of its own.
	check func(l Limits, object map[string]any) error
	// pods is how many pods an object asks for; nil if it is none, or one.
	pods func(spec map[string]any) int64
}

var (
	workload = []string{"spec", "template"}
	kinds    = map[schema.GroupVersionKind]kind{
		coreKind("ConfigMap"):             {check: checkCopies},
		coreKind("Secret"):                {check: checkSecret},
		coreKind("Service"):               {check: checkService},
		coreKind("LimitRange"):            {},
		coreKind("ResourceQuota"):         {},
		coreKind("Pod"):                   {hasPods: true},
		coreKind("PodTemplate"):           {hasPods: true, podTemplate: []string{"template"}, pods: func(map[string]any) int64 { return 0 }},
		coreKind("ReplicationController"): {hasPods: true, podTemplate: workload, pods: replicasOf},
		appsKind("Deployment"):            {hasPods: true, podTemplate: workload, pods: replicasOf},
		appsKind("ReplicaSet"):            {hasPods: true, podTemplate: workload, pods: replicasOf},
		appsKind("StatefulSet"):           {hasPods: true, podTemplate: workload, pods: replicasOf, check: checkStatefulSet},
		appsKind("DaemonSet"):             {hasPods: true, podTemplate: workload},
		batchKind("Job"):                  {hasPods: true, podTemplate: workload, pods: jobPods, check: checkJob},
		batchKind("CronJob"): {check: checkCronJob, hasPods: true, podTemplate: []string{"spec", "jobTemplate", "spec", "template"}, pods: func(spec map[string]any) int64 {
			job, _, _ := unstructured.NestedMap(spec, "jobTemplate", "spec")
			return jobPods(job)
		}},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}:      {},
		{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}: {},
		{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}:       {},
	}
)

func coreKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: kind}
}

func appsKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}
}

func batchKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: kind}
}

// Apply keeps an object within its namespace: it drops what would outlive the run or belongs to the API server, pins pods to hollow
// Nodes, and returns an Error for a field that reaches further.
func (l Limits) Apply(object *unstructured.Unstructured) error {
	if err := checkSize(object.Object); err != nil {
		return err
	}
	dropReserved(object.Object)
	known, isKnown := kinds[object.GroupVersionKind()]
	if !isKnown {
		if name := object.GroupVersionKind().GroupKind().String(); !l.allowsKind(name) {
			return refuseField("kind", "%s in %s may reach beyond the namespaces of the run: use another kind, or let an administrator of the cluster allow it with loadTests.kinds of the agent's chart (--load-test-kinds=%s)",
				object.GetKind(), object.GetAPIVersion(), name)
		}
		return l.pinFound(object.Object)
	}
	if err := checkQuantities("", object.Object, false); err != nil {
		return err
	}
	if known.check != nil {
		if err := known.check(l, object.Object); err != nil {
			return err
		}
	}
	if !known.hasPods {
		return checkKnownFields(object)
	}
	if count := podsOf(known, object.Object); count > mostPods {
		return refuseField("spec", "the object asks for %d pods, and one may ask for %d at most: use more replicas in the phase", count, mostPods)
	}
	if err := l.applyToPods(object.Object, known.podTemplate); err != nil {
		return err
	}
	return checkKnownFields(object)
}

// dropReserved removes what a template must not decide: what keeps an object from being removed, and what the API server sets. It
// looks at all metadata, that of pod templates and volume claims as well.
func dropReserved(value any) {
	switch value := value.(type) {
	case map[string]any:
		if metadata, ok := value["metadata"].(map[string]any); ok {
			for _, field := range reserved {
				delete(metadata, field)
			}
		}
		for _, inner := range value {
			dropReserved(inner)
		}
	case []any:
		for _, inner := range value {
			dropReserved(inner)
		}
	}
}

var reserved = []string{
	"finalizers", "ownerReferences", "generateName", "uid", "resourceVersion", "managedFields", "selfLink",
	"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
}
