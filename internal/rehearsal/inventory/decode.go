package inventory

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	// mostBytes, mostNodes and mostReplicas bound what a file may ask for.
	mostBytes    = 256 << 20
	mostNodes    = 20000
	mostReplicas = 200000
	// mostErrors is how many problems of a file are named.
	mostErrors = 10
)

// Decode reads an inventory from YAML or JSON. It refuses what it does not know, and names the field.
func Decode(content []byte) (*Inventory, error) {
	if len(content) > mostBytes {
		return nil, fmt.Errorf("it has %d bytes: an inventory has at most %d", len(content), mostBytes)
	}
	text, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, fmt.Errorf("not YAML or JSON: %w", err)
	}
	read := &Inventory{}
	unknown, err := strictjson.UnmarshalStrict(text, read, strictjson.DisallowUnknownFields, strictjson.DisallowDuplicateFields)
	if err != nil {
		return nil, fmt.Errorf("not an inventory: %w", err)
	}
	if read.APIVersion != APIVersion || read.Kind != Kind {
		return nil, fmt.Errorf("apiVersion, kind: want %s, %s, got %q, %q: write one with --save-inventory", APIVersion, Kind, read.APIVersion, read.Kind)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("not an inventory of this version: %w: remove it, or use the version of this program that wrote it", unknown[0])
	}
	problems := read.validate()
	if len(problems) > mostErrors {
		problems = problems[:mostErrors]
	}
	if err := problems.ToAggregate(); err != nil {
		return nil, err
	}
	return read, nil
}

// Encode writes it as YAML.
func (i *Inventory) Encode() ([]byte, error) {
	content, err := yaml.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("writing the inventory: %w", err)
	}
	return content, nil
}

func (i *Inventory) validate() field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, checkVersion(i.ControlPlane, field.NewPath("controlPlane"))...)
	nodes := field.NewPath("nodes")
	switch {
	case len(i.Nodes) == 0:
		errs = append(errs, field.Required(nodes, "a cluster without Nodes has nothing to upgrade"))
	case len(i.Nodes) > mostNodes:
		errs = append(errs, field.TooMany(nodes, len(i.Nodes), mostNodes))
	}
	names := sets.New[string]()
	for index := range i.Nodes {
		path := nodes.Index(index)
		errs = append(errs, checkUnique(names, i.Nodes[index].Name, path.Child("name"), validation.IsDNS1123Subdomain)...)
		errs = append(errs, i.Nodes[index].validate(path)...)
	}
	names = sets.New[string]()
	for index, namespace := range i.Namespaces {
		path := field.NewPath("namespaces").Index(index)
		errs = append(errs, checkUnique(names, namespace.Name, path.Child("name"), validation.IsDNS1123Label)...)
		errs = append(errs, metavalidation.ValidateLabels(namespace.Labels, path.Child("labels"))...)
	}
	names = sets.New[string]()
	for index, class := range i.PriorityClasses {
		errs = append(errs, checkUnique(names, class.Name, field.NewPath("priorityClasses").Index(index).Child("name"), validation.IsDNS1123Subdomain)...)
	}
	names = sets.New[string]()
	for index := range i.Workloads {
		path := field.NewPath("workloads").Index(index)
		one := &i.Workloads[index]
		errs = append(errs, checkUnique(names, one.ID(), path.Child("name"), nil)...)
		errs = append(errs, one.validate(path)...)
	}
	names = sets.New[string]()
	for index := range i.Budgets {
		path := field.NewPath("podDisruptionBudgets").Index(index)
		one := &i.Budgets[index]
		errs = append(errs, checkUnique(names, one.Namespace+"/"+one.Name, path.Child("name"), nil)...)
		errs = append(errs, one.validate(path)...)
	}
	return errs
}

// ID tells workloads apart.
func (w *Workload) ID() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

func checkUnique(seen sets.Set[string], name string, path *field.Path, check func(string) []string) (errs field.ErrorList) {
	if seen.Has(name) {
		errs = append(errs, field.Duplicate(path, name))
	}
	seen.Insert(name)
	if check == nil {
		return errs
	}
	for _, problem := range check(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
}

func checkVersion(text string, path *field.Path) field.ErrorList {
	if _, err := version.ParseSemantic(text); err != nil {
		return field.ErrorList{field.Invalid(path, text, "not a Kubernetes version: write it as v1.36.2")}
	}
	return nil
}

func (n *Node) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n.Ready { // One that has never reported has no version, and is left out.
		errs = checkVersion(n.Kubelet, path.Child("kubelet"))
	}
	errs = append(errs, metavalidation.ValidateLabels(n.Labels, path.Child("labels"))...)
	for index, taint := range n.Taints {
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			errs = append(errs, field.NotSupported(path.Child("taints").Index(index).Child("effect"), taint.Effect,
				[]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}))
		}
		for _, problem := range validation.IsQualifiedName(taint.Key) {
			errs = append(errs, field.Invalid(path.Child("taints").Index(index).Child("key"), taint.Key, problem))
		}
	}
	return append(errs, checkResources(n.Allocatable, path.Child("allocatable"))...)
}

func checkResources(list corev1.ResourceList, path *field.Path) (errs field.ErrorList) {
	for name, quantity := range list {
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.String(), "negative: want 0 or more"))
		}
	}
	return errs
}

func (w *Workload) validate(path *field.Path) (errs field.ErrorList) {
	switch w.Kind {
	case Deployment, StatefulSet, DaemonSet:
	default:
		errs = append(errs, field.NotSupported(path.Child("kind"), w.Kind, []WorkloadKind{Deployment, StatefulSet, DaemonSet}))
	}
	errs = append(errs, checkNamed(w.Namespace, w.Name, path)...)
	if w.Replicas < 0 || w.Replicas > mostReplicas {
		errs = append(errs, field.Invalid(path.Child("replicas"), w.Replicas, fmt.Sprintf("want 0 to %d", mostReplicas)))
	}
	if w.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), "how the workload finds its pods"))
	} else if selector, err := metav1.LabelSelectorAsSelector(w.Selector); err != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), w.Selector, err.Error()))
	} else if selector.Empty() || !selector.Matches(labels.Set(w.Pod.Labels)) {
		errs = append(errs, field.Invalid(path.Child("selector"), metav1.FormatLabelSelector(w.Selector), "must match pod.labels, and not be empty"))
	}
	errs = append(errs, metavalidation.ValidateLabels(w.Pod.Labels, path.Child("pod", "labels"))...)
	if len(w.Pod.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("pod", "containers"), "a pod has at least one; {} is one without requests"))
	}
	for index := range w.Pod.Containers {
		errs = append(errs, checkResources(w.Pod.Containers[index].Requests, path.Child("pod", "containers").Index(index).Child("requests"))...)
	}
	return errs
}

func checkNamed(namespace, name string, path *field.Path) (errs field.ErrorList) {
	for _, problem := range validation.IsDNS1123Label(namespace) {
		errs = append(errs, field.Invalid(path.Child("namespace"), namespace, problem))
	}
	for _, problem := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path.Child("name"), name, problem))
	}
	return errs
}

func (b *Budget) validate(path *field.Path) field.ErrorList {
	errs := checkNamed(b.Namespace, b.Name, path)
	if b.MinAvailable != nil && b.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, "minAvailable, maxUnavailable", "set only one of them"))
	}
	if b.Selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(b.Selector); err != nil {
			errs = append(errs, field.Invalid(path.Child("selector"), b.Selector, err.Error()))
		}
	}
	return errs
}
