package plan

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// machineSet is one whose template gives labels and annotations.
func machineSet(labels, annotations map[string]string) *v1alpha1.MachineSet {
	all := map[string]string{"app": "x"}
	maps.Copy(all, labels)
	return &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "workers", Labels: map[string]string{v1alpha1.MachineDeploymentNameLabel: "pool"}},
		Spec: v1alpha1.MachineSetSpec{
			ClusterName: "c1", Selector: v1alpha1.MachineSelector{MatchLabels: map[string]string{"app": "x"}},
			Template: v1alpha1.MachineTemplate{Metadata: v1alpha1.TemplateMetadata{Labels: all, Annotations: annotations}},
		},
	}
}

func TestTemplateGivesAndTakesOnlyItsOwn(t *testing.T) {
	machine := &v1alpha1.Machine{}
	TemplateOf(machineSet(map[string]string{"tier": "a", "zone": "1"}, map[string]string{"note": "n", "gone": "soon"})).Give(machine)
	machine.Labels["user"], machine.Annotations["agent"] = "u", "a"
	changed := TemplateOf(machineSet(map[string]string{"tier": "b"}, map[string]string{"note": "m"}))
	if changed.Reached(machine) {
		t.Error("a changed template has reached the machine before it was given")
	}
	changed.Give(machine)
	wantLabels := map[string]string{
		"app": "x", "tier": "b", "user": "u", v1alpha1.ClusterNameLabel: "c1",
		v1alpha1.MachineSetNameLabel: "workers", v1alpha1.MachineDeploymentNameLabel: "pool",
	}
	wantAnnotations := map[string]string{
		"note": "m", "agent": "a", v1alpha1.TemplateKeysAnnotation: `{"labels":["tier"],"annotations":["note"]}`,
	}
	if !maps.Equal(machine.Labels, wantLabels) || !maps.Equal(machine.Annotations, wantAnnotations) {
		t.Errorf("labels %v\nwant %v\nannotations %v\nwant %v", machine.Labels, wantLabels, machine.Annotations, wantAnnotations)
	}
	less := TemplateOf(machineSet(nil, nil))
	if less.Reached(machine) {
		t.Error("it was not seen that a key has left the template")
	}
	less.Give(machine)
	delete(wantLabels, "tier")
	if !maps.Equal(machine.Labels, wantLabels) || !maps.Equal(machine.Annotations, map[string]string{"agent": "a"}) {
		t.Errorf("labels %v, annotations %v after the template lost its own", machine.Labels, machine.Annotations)
	}
}

func TestTemplateTakesNothingForAnAnnotationThatItCannotRead(t *testing.T) {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"user": "u"}, Annotations: map[string]string{v1alpha1.TemplateKeysAnnotation: `{"labels":"user"`},
	}}
	template := TemplateOf(machineSet(nil, nil))
	template.Give(machine)
	if machine.Labels["user"] != "u" || !template.Reached(machine) {
		t.Errorf("labels %v, annotations %v", machine.Labels, machine.Annotations)
	}
}

func TestTemplateKeepsWhatNeedsNoReplacementInSync(t *testing.T) {
	changes := map[string]func(*v1alpha1.MachineTemplateBody){
		"node labels": func(b *v1alpha1.MachineTemplateBody) { b.NodeMetadata.Labels = map[string]string{"a": "b"} },
		"taints": func(b *v1alpha1.MachineTemplateBody) {
			b.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		},
		"roles": func(b *v1alpha1.MachineTemplateBody) { b.Roles = []string{"worker"} },
		"timeouts": func(b *v1alpha1.MachineTemplateBody) {
			b.Timeouts = &v1alpha1.MachineTimeouts{Drain: &metav1.Duration{Duration: time.Hour}}
		},
		"bad conditions": func(b *v1alpha1.MachineTemplateBody) { b.UnhealthyNodeConditions = []string{"KernelDeadlock"} },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			set, machine := machineSet(nil, nil), &v1alpha1.Machine{}
			TemplateOf(set).Give(machine)
			machine.Spec.ProviderID, machine.Spec.Versions.Kubelet = new("hollow://x"), "v1.36.2"
			change(&set.Spec.Template.Spec)
			set.Spec.Template.Spec.Versions.Kubelet, set.Spec.Template.Spec.RequireVersionCode = "v1.37.1", true
			template := TemplateOf(set)
			if template.Reached(machine) {
				t.Fatal("the change is not seen")
			}
			template.Give(machine)
			if !template.Reached(machine) {
				t.Error("what was given has not arrived")
			}
			if machine.Spec.Versions.Kubelet != "v1.36.2" || machine.Spec.RequireVersionCode || *machine.Spec.ProviderID != "hollow://x" {
				t.Errorf("spec is now %+v: what needs a replacement is not to be given", machine.Spec)
			}
		})
	}
}

func TestWhatIsGivenHasReachedTheMachineAndNothingElseIsTouched(t *testing.T) {
	keys := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.SampledFrom([]string{"1", "2"}))
	rapid.Check(t, func(t *rapid.T) {
		machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"user-label": "u"}, Annotations: map[string]string{"user-annotation": "u"},
		}}
		for range rapid.IntRange(1, 4).Draw(t, "templates") {
			set := machineSet(keys.Draw(t, "labels"), keys.Draw(t, "annotations"))
			template := TemplateOf(set)
			template.Give(machine)
			if !template.Reached(machine) {
				t.Fatalf("%+v has not reached %+v", template, machine.ObjectMeta)
			}
			again := machine.DeepCopy()
			if template.Give(again); !equality.Semantic.DeepEqual(again, machine) {
				t.Fatalf("giving twice made %+v of %+v", again.ObjectMeta, machine.ObjectMeta)
			}
			metadata := set.Spec.Template.Metadata
			for _, key := range slices.Collect(maps.Keys(machine.Labels)) {
				if _, given := metadata.Labels[key]; len(key) == 1 && !given {
					t.Fatalf("label %s stays", key)
				}
			}
			if machine.Labels["user-label"] != "u" || machine.Annotations["user-annotation"] != "u" {
				t.Fatalf("a user's own is lost: %+v", machine.ObjectMeta)
			}
		}
	})
}

func TestMarkTime(t *testing.T) {
	at := time.Date(2026, 1, 31, 10, 0, 0, 123456789, time.UTC)
	for _, value := range []string{at.String(), at.String() + " m=+0.000000001", "2026-01-31T10:00:00.123456789Z"} {
		if got, readable := MarkTime(value); !readable || !got.Equal(at) {
			t.Errorf("%q is %v, %v", value, got, readable)
		}
	}
	if got, readable := MarkTime(time.Now().String()); !readable {
		t.Errorf("time.Now().String() is not read: %v", got)
	}
	for _, value := range []string{"", "true", "yesterday"} {
		if _, readable := MarkTime(value); readable {
			t.Errorf("%q is read as a time", value)
		}
	}
}
