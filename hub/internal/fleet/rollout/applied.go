package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Applied is what the fleet writes into a MachineDeployment, and what FleetAppliedAnnotation keeps of it. The fields that
// are not in it are others': paused, annotations, labels, and what the template leaves out.
type Applied struct {
	Metadata v1alpha1.TemplateMetadata      `json:"metadata"`
	Spec     v1alpha1.MachineDeploymentSpec `json:"spec"`

	// previous becomes FleetPreviousAnnotation; empty leaves it as it is.
	previous string
}

// NewApplied is a template of the fleet for one cluster. Without replicas, these are others'.
func NewApplied(fleet *v1alpha1.MachineFleet, template *v1alpha1.MachineDeploymentTemplate, cluster string, replicas *int32) *Applied {
	labels := map[string]string{}
	maps.Copy(labels, template.Metadata.Labels)
	labels[v1alpha1.MachineFleetNameLabel], labels[v1alpha1.ClusterNameLabel] = fleet.Name, cluster
	return &Applied{
		Metadata: v1alpha1.TemplateMetadata{Labels: labels, Annotations: template.Metadata.Annotations},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: cluster, Replicas: replicas,
			Selector: template.Spec.Selector, Template: template.Spec.Template, Strategy: template.Spec.Strategy,
			MinReadySeconds: template.Spec.MinReadySeconds, ProgressDeadlineSeconds: template.Spec.ProgressDeadlineSeconds,
			RevisionHistoryLimit: template.Spec.RevisionHistoryLimit, DeletePolicy: template.Spec.DeletePolicy, Remediation: template.Spec.Remediation,
		},
	}
}

// readApplied returns what was applied to a MachineDeployment last; nil if there is nothing that can be read.
func readApplied(deployment metav1.Object) *Applied {
	text, found := deployment.GetAnnotations()[v1alpha1.FleetAppliedAnnotation]
	if !found {
		return nil
	}
	a := &Applied{}
	if err := json.Unmarshal([]byte(text), a); err != nil || a.Spec.ClusterName != deployment.GetNamespace() {
		return nil
	}
	return a
}

// isIn reports whether deployment has all of a. It may say no where a patch would find nothing to change, because others have
// added fields.
func (a *Applied) isIn(deployment *v1alpha1.MachineDeployment) bool {
	for _, pair := range [][2]map[string]string{
		{a.Metadata.Labels, deployment.Labels}, {a.Metadata.Annotations, deployment.Annotations},
	} {
		for key, value := range pair[0] {
			if found, has := pair[1][key]; !has || found != value {
				return false
			}
		}
	}
	spec := deployment.Spec
	if spec.Paused = a.Spec.Paused; a.Spec.Replicas == nil {
		spec.Replicas = nil
	}
	return equality.Semantic.DeepEqual(spec, a.Spec)
}

// NewDeployment is the MachineDeployment that does not exist yet.
func (a *Applied) NewDeployment(name string, r *Record) (*v1alpha1.MachineDeployment, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("writing the template as text: %w", err)
	}
	annotations := map[string]string{}
	maps.Copy(annotations, a.Metadata.Annotations)
	annotations[v1alpha1.FleetRecordAnnotation], annotations[v1alpha1.FleetAppliedAnnotation] = r.AnnotationValue(), string(text)
	return &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Spec.ClusterName, Name: name, Labels: a.Metadata.Labels, Annotations: annotations},
		Spec:       a.Spec,
	}, nil
}

// MergePatch is the merge patch that gives deployment all of a, and a record. What was applied before and is not in a any more
// is taken away, but for replicas: without them the API server would scale to its default. A nil patch changes nothing.
func (a *Applied) MergePatch(deployment *v1alpha1.MachineDeployment, r *Record) ([]byte, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("writing the template as text: %w", err)
	}
	wanted := *a
	wanted.Metadata.Annotations = map[string]string{}
	maps.Copy(wanted.Metadata.Annotations, a.Metadata.Annotations)
	wanted.Metadata.Annotations[v1alpha1.FleetRecordAnnotation] = r.AnnotationValue()
	wanted.Metadata.Annotations[v1alpha1.FleetAppliedAnnotation] = string(text)
	if a.previous != "" {
		wanted.Metadata.Annotations[v1alpha1.FleetPreviousAnnotation] = a.previous
	}
	last := readApplied(deployment)
	if had := ReadRecord(deployment); had == nil || had.UID != r.UID || !had.isOf(deployment) {
		last = nil // It came with a copy, or is another fleet's.
	}
	if last == nil {
		last = &Applied{}
		last.Spec.Selector, last.Spec.Template = a.Spec.Selector, a.Spec.Template // Nothing of them was the fleet's.
	}
	last.Spec.Replicas = nil
	// A value and a reference exclude each other: the one that is there goes if the other is wanted.
	if there := &deployment.Spec.Template.Spec.ProviderConfig; (there.ValueRef == nil) != (a.Spec.Template.Spec.ProviderConfig.ValueRef == nil) {
		last.Spec.Template.Spec.ProviderConfig = *there
	}
	var texts [3][]byte
	for i, object := range []any{last, wanted, deployment} {
		if texts[i], err = json.Marshal(object); err != nil {
			return nil, fmt.Errorf("comparing machine deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
		}
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(texts[0], texts[1], texts[2])
	if err != nil {
		return nil, fmt.Errorf("comparing machine deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
	}
	return lockPatch(patch, deployment)
}

// RecordPatch is the merge patch that writes a record only.
func RecordPatch(deployment *v1alpha1.MachineDeployment, r *Record) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{v1alpha1.FleetRecordAnnotation: r.AnnotationValue()},
	}})
	if err != nil {
		return nil, fmt.Errorf("writing a record as text: %w", err)
	}
	return lockPatch(patch, deployment)
}

// lockPatch makes the API server refuse a patch, which is not empty, if the object has changed since it was read or is
// another one. An empty patch becomes nil.
func lockPatch(patch []byte, object metav1.Object) ([]byte, error) {
	var content map[string]any
	if err := json.Unmarshal(patch, &content); err != nil {
		return nil, fmt.Errorf("reading a patch: %w", err)
	}
	if len(content) == 0 {
		return nil, nil
	}
	metadata, _ := content["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		content["metadata"] = metadata
	}
	metadata["resourceVersion"], metadata["uid"] = object.GetResourceVersion(), string(object.GetUID())
	return json.Marshal(content)
}

// ChangedFields names the fields that a merge patch changes, sorted, but for what is written with every patch.
func ChangedFields(patch []byte) []string {
	var content map[string]any
	if json.Unmarshal(patch, &content) != nil {
		return nil
	}
	fields := leafPaths("", content)
	slices.Sort(fields)
	return slices.DeleteFunc(fields, func(field string) bool {
		key, isAnnotation := strings.CutPrefix(field, "metadata.annotations[")
		return field == "metadata.resourceVersion" || field == "metadata.uid" || isAnnotation && slices.Contains(ownAnnotations, strings.TrimSuffix(key, "]"))
	})
}

// ownAnnotations are what the fleet keeps on a MachineDeployment for itself.
var ownAnnotations = []string{
	v1alpha1.FleetRecordAnnotation, v1alpha1.FleetAppliedAnnotation, v1alpha1.FleetPreviousAnnotation, v1alpha1.TraceparentAnnotation,
}

// leafPaths are the paths of all values below one that are not objects.
func leafPaths(path string, value any) []string {
	object, is := value.(map[string]any)
	if !is {
		return []string{path}
	}
	var all []string
	for key, below := range object {
		switch {
		case path == "":
		case strings.ContainsAny(key, "./"):
			key = path + "[" + key + "]"
		default:
			key = path + "." + key
		}
		all = append(all, leafPaths(key, below)...)
	}
	return all
}
