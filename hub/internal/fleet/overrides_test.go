package fleet

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

func raw(t testing.TB, text string) *runtime.RawExtension {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: content}
}

// override gives the clusters with a label a template of their own.
func override(t testing.TB, name, template string) func(*v1alpha1.MachineFleet) {
	return func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Overrides = append(fleet.Spec.Overrides, v1alpha1.MachineFleetOverride{
			Name: name, ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{name: "yes"}}, Template: raw(t, template),
		})
	}
}

const kubelet138 = `{spec: {template: {spec: {versions: {kubelet: v1.38.0}}}}}`

func TestAnOverriddenTemplateIsRolledOutInWaves(t *testing.T) {
	f := newEnv(t, 3, inSteps(1, 0))
	f.label(1, "late", "yes")
	f.settle()
	f.update(override(t, "late", `{spec: {template: {spec: {versions: {kubelet: v1.36.1}}}}}`))
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.status()
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonKubeletDowngrade))
	f.Expect(f.fleet.Status.Message).To(And(ContainSubstring("spec.overrides[late].template.spec.template.spec.versions.kubelet"), ContainSubstring(f.clusters[1].Name)))
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Overrides[0].Template = raw(t, kubelet138) })
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"), "the canary proves the revision")
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.38.0, Succeeded v1.36.2"))
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.38.0, Succeeded v1.36.2"))
	f.Expect(f.status().Clusters.Updated).To(BeEquivalentTo(3))

	// A cluster for which the override holds from now on has its turn as well.
	f.label(0, "late", "yes")
	f.label(2, "late", "yes")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.38.0, Succeeded v1.38.0, Succeeded v1.36.2"), "the canary first")
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.38.0, Succeeded v1.38.0, Progressing v1.38.0"))
	f.settle()
	f.restart()
	f.settle()
	for range 2 {
		f.ExpectReconciled(f.fleet)
	}
	f.Expect(f.Writes.Counts()).NotTo(HaveKey("patch MachineDeployment"), "nothing is written at rest")
}

func TestAnOverrideThatCannotBeUsedBeginsNothing(t *testing.T) {
	f := newEnv(t, 2, inSteps(2, 0))
	f.label(1, "bad", "yes")
	f.settle()
	f.update(override(t, "bad", `{spec: {minimumReadySeconds: 3}}`))
	f.upgrade("v1.37.0") // Nothing rolls out before the override is mended.
	for name, c := range map[string]struct{ template, field, why string }{
		"an unknown field":                    {`{spec: {minimumReadySeconds: 3}}`, ".spec.minimumReadySeconds", "unknown field"},
		"a deep unknown field":                {`{spec: {template: {spec: {versions: {kubectl: v1.38.0}}}}}`, ".spec.template.spec.versions.kubectl", "unknown field"},
		"a wrong type":                        {`{spec: {minReadySeconds: soon}}`, ".spec.minReadySeconds", "string does not fit"},
		"a map for a text":                    {`{spec: {template: {spec: {versions: {kubelet: {major: 1}}}}}}`, ".spec.template.spec.versions.kubelet", "does not fit"},
		"the selector":                        {`{spec: {selector: {matchLabels: {app: other}}}}`, ".spec.selector", "cannot be overridden"},
		"a value out of bounds":               {`{spec: {minReadySeconds: -1}}`, ".spec.minReadySeconds", "greater than or equal to 0"},
		"two values that do not fit together": {`{spec: {minReadySeconds: 4000}}`, ".spec.progressDeadlineSeconds", "must be more than"},
		"two provider configurations":         {`{spec: {template: {spec: {providerConfig: {value: {kind: X}}}}}}`, ".spec.template.spec.providerConfig", "exactly one"},
		"labels that the selector needs":      {`{spec: {template: {metadata: {labels: {app: null}}}}}`, ".spec.selector", "does not match"},
		"too much":                            {`{metadata: {annotations: {a: "` + strings.Repeat("x", rollout.MostOverrideBytes) + `"}}}`, "", "more than 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			f.WithT, f.T = NewWithT(t), t
			f.update(func(fleet *v1alpha1.MachineFleet) {
				fleet.Spec.Overrides = nil
				override(t, "bad", c.template)(fleet)
			})
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2"), "not in the other clusters either")
			f.status()
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.StalledCondition).Reason).To(Equal(v1alpha1.ReasonInvalidFleet))
			field := "spec.overrides[bad].template" + c.field + ":"
			if c.field == "" {
				field = "spec.overrides:"
			}
			f.Expect(f.fleet.Status.Message).To(And(ContainSubstring(field), ContainSubstring(c.why)))
		})
	}
	f.WithT, f.T = NewWithT(t), t
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Overrides = nil })
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0"))
}

// The kubelet of an override is what the API server of the cluster has to support, not that of the fleet's template.
// Claim: Kubelet support is checked for the overridden version. Broken: that of the fleet's template is asked for.
func TestTheSkewOfAnOverriddenKubeletIsChecked(t *testing.T) {
	f := newEnv(t, 2, inSteps(2, 0))
	f.label(1, "late", "yes")
	f.settle()
	f.cluster(1).Status.KubernetesVersion = "v1.37.1"
	f.ExpectStatusApplied(f.clusters[1])
	f.update(override(t, "late", kubelet138))
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2"), "nothing is started where it is not supported")
	f.Expect(f.status().Failures).To(ConsistOf(And(HaveField("Cluster", f.clusters[1].Name), HaveField("Reason", v1alpha1.ReasonUnsupportedKubeletVersion),
		HaveField("Message", And(ContainSubstring("spec.overrides[late].template.spec.template.spec.versions.kubelet"), ContainSubstring("v1.38.0"))))))
	f.cluster(1).Status.KubernetesVersion = "v1.38.0"
	f.ExpectStatusApplied(f.clusters[1])
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.38.0"))
}

func TestAnOverrideSetsSomething(t *testing.T) {
	f := newEnv(t, 0, nil)
	f.refresh().Spec.Overrides = []v1alpha1.MachineFleetOverride{{Name: "empty"}}
	f.Expect(f.Client.Update(t.Context(), f.fleet)).To(MatchError(ContainSubstring("set replicas or template, or both")))
}

// Of two overrides that match, the first with replicas and the first with a template hold. Those that match no cluster are named.
// Claim: An override or group without clusters is named and stops nothing. Broken: they are not looked for; the upgrade does not print them. Also: hub/cli TestADryRunShowsTheKubeletOfEachCluster.
func TestOverridesOfReplicasAndOfTemplates(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.label(0, "a", "yes")
	f.label(0, "b", "yes")
	f.label(0, "c", "yes")
	f.update(func(fleet *v1alpha1.MachineFleet) {
		override(t, "a", "{}")(fleet)
		fleet.Spec.Overrides[0].Template, fleet.Spec.Overrides[0].Replicas = nil, new(int32(5))
		override(t, "b", kubelet138)(fleet)
		fleet.Spec.Overrides[1].Replicas = new(int32(6))
		override(t, "c", `{spec: {minReadySeconds: 9}}`)(fleet)
		override(t, "unmatched", kubelet138)(fleet)
		fleet.Spec.Groups = []v1alpha1.MachineFleetGroup{{Name: "nowhere", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"nowhere": "yes"}}}}
	})
	f.settle()
	d := f.deployment(0)
	f.Expect(*d.Spec.Replicas).To(BeEquivalentTo(5))
	f.Expect(d.Spec.Template.Spec.Versions.Kubelet).To(Equal("v1.38.0"))
	f.Expect(d.Spec.MinReadySeconds).To(BeZero())
	f.Expect(f.status().Message).To(HaveSuffix(
		"without a cluster, correct or remove: spec.overrides[unmatched].clusterSelector, spec.groups[nowhere].clusterSelector"))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue), "that stops nothing")
	f.label(0, "unmatched", "yes")
	f.label(0, "nowhere", "yes")
	f.Expect(f.status().Message).NotTo(ContainSubstring("without a cluster"))
}

func TestTheTemplatesOfOverridesAreKeptAndRestored(t *testing.T) {
	f := newEnv(t, 2, inSteps(2, 0))
	f.label(1, "late", "yes")
	f.update(func(fleet *v1alpha1.MachineFleet) {
		override(t, "late", kubelet138)(fleet)
		fleet.Spec.Overrides[0].Replicas = new(int32(4))
	})
	f.settle()
	first := f.status().Revision
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Overrides = []v1alpha1.MachineFleetOverride{{Name: "few", Replicas: new(int32(1))}}
		fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.39.0"
	})
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.39.0, Succeeded v1.39.0"))
	kept, err := rollout.Templates(t.Context(), f.Client, f.refresh())
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(kept).To(HaveLen(2))
	f.update(func(fleet *v1alpha1.MachineFleet) {
		kept[0].Restore(fleet)
		fleet.Spec.AllowDowngrade = true
	})
	f.Expect(rollout.Revision(f.refresh())).To(Equal(first), "it is the same revision")
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.38.0"))
	f.Expect(*f.deployment(1).Spec.Replicas).To(BeEquivalentTo(1), "replicas are no part of what is gone back to")
}

func TestReplicasComeFromALabel(t *testing.T) {
	f := newEnv(t, 4, func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.ReplicasFromLabel = "example.com/machines"
		fleet.Spec.Overrides = []v1alpha1.MachineFleetOverride{{Name: "all", Replicas: new(int32(2))}}
	})
	f.label(0, "example.com/machines", "7")
	f.label(1, "example.com/machines", "many")
	f.settle()
	replicas := func(i int) int32 { return *f.deployment(i).Spec.Replicas }
	f.Expect([]int32{replicas(0), replicas(2), replicas(3)}).To(Equal([]int32{7, 2, 2}))
	f.Expect(f.deployment(1)).To(BeNil(), "nothing is started where the label is not a number")
	f.Expect(f.status().Failures).To(ConsistOf(And(HaveField("Cluster", f.clusters[1].Name), HaveField("Reason", v1alpha1.ReasonInvalidReplicasLabel),
		HaveField("Message", And(ContainSubstring("example.com/machines"), ContainSubstring("correct or remove the label"))))))
	f.label(1, "example.com/machines", "0")
	f.label(0, "example.com/machines", "7x")
	f.label(2, "example.com/machines", "10001")
	f.settle()
	f.Expect([]int32{replicas(0), replicas(1), replicas(2), replicas(3)}).To(Equal([]int32{7, 0, 2, 2}), "a mistyped label deletes no Machine")
	f.label(0, "example.com/machines", "")
	f.settle()
	f.Expect(replicas(0)).To(BeEquivalentTo(2), "without the label the fleet's own numbers hold")
}

// Claim: An override that changes nothing is no new revision. Broken: its text counts; the record has its hash.
func TestAnOverrideThatChangesNothingIsNoRevision(t *testing.T) {
	f := newEnv(t, 2, inSteps(1, 0))
	f.settle()
	revision := f.refresh().Status.Revision
	expectSame := func(what string) {
		t.Helper()
		for range 2 {
			f.ExpectReconciled(f.fleet)
			f.Expect(f.Writes.Counts()).NotTo(Or(HaveKey("patch MachineDeployment"), HaveKey("create ControllerRevision")), what)
		}
		f.Expect(f.refresh().Status.Revision).To(Equal(revision), what)
		f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2"), what)
	}
	all := override(t, "all", "{}")
	f.label(0, "all", "yes")
	f.label(1, "all", "yes")
	f.update(all)
	expectSame("it is added")
	f.restart()
	expectSame("the hub is started again")
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Overrides[0].Template = raw(t, `{spec: {template: {spec: {versions: {kubelet: v1.36.2}}}}}`)
	})
	expectSame("it says what the template says")
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Overrides = nil })
	expectSame("it is removed")

	// It is one if it keeps a cluster from a later override.
	f.label(1, "late", "yes")
	f.update(both(all, override(t, "late", kubelet138)))
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.refresh().Status.Revision).NotTo(Equal(revision))
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Overrides = fleet.Spec.Overrides[1:] })
	f.settle()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.38.0"))
	revision = f.refresh().Status.Revision
	f.update(func(fleet *v1alpha1.MachineFleet) {
		idle := fleet.Spec.Overrides[0].DeepCopy()
		idle.Name, idle.ClusterSelector, idle.Template = "idle", metav1.LabelSelector{}, raw(t, "{}")
		fleet.Spec.Overrides = append(fleet.Spec.Overrides, *idle)
	})
	f.ExpectReconciled(f.fleet)
	f.Expect(f.refresh().Status.Revision).To(Equal(revision), "nothing comes after it that it could keep a cluster from")
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.38.0"))
}

// The hub before this one noted the hash of an override that changes nothing.
func TestRecordsOfAnOverrideThatChangesNothingAreRead(t *testing.T) {
	f := newEnv(t, 1, override(t, "all", "{}"))
	f.label(0, "all", "yes")
	f.settle()
	chosen, err := rollout.TextRevision(f.refresh())
	f.Expect(err).NotTo(HaveOccurred())
	f.edit(0, func(d *v1alpha1.MachineDeployment) {
		r := rollout.ReadRecord(d)
		f.Expect(r.Revision).To(Equal(chosen))
		merged, err := rollout.UnchangedHash(&f.fleet.Spec.Template)
		f.Expect(err).NotTo(HaveOccurred())
		r.Revision += "." + merged
		d.Annotations[v1alpha1.FleetRecordAnnotation] = r.AnnotationValue()
	})
	f.restart()
	f.Writes.Counts()
	f.ExpectReconciled(f.fleet)
	f.Expect(f.Writes.Counts()).NotTo(HaveKey("patch MachineDeployment"))
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2"))
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Overrides = nil })
	f.ExpectReconciled(f.fleet)
	f.Expect(f.refresh().Status.Revision).To(Equal(chosen), "what is kept has an override that changes nothing, too")
	f.Expect(f.Writes.Counts()).NotTo(HaveKey("patch MachineDeployment"))
}
