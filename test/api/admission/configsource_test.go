package admission_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// Claim: A fleet names the content of a kubelet configuration, and users write no content into deployments. Broken: the rules are removed.
func TestKubeletConfigurationsAreNamed(t *testing.T) {
	g, c := NewWithT(t), testenv.Server().Client
	hash := v1alpha1.ContentHash("x")
	resolved := &v1alpha1.ResolvedConfigSource{Key: "a", Content: "x"}
	inFleet := func(source v1alpha1.ConfigSource) client.Object {
		return with(fleet(), func(f *v1alpha1.MachineFleet) { f.Spec.Template.Spec.Template.Spec.ConfigSource = &source })
	}
	inDeployment := func(source v1alpha1.ConfigSource) client.Object {
		return with(deployment(), func(d *v1alpha1.MachineDeployment) { d.Spec.Template.Spec.ConfigSource = &source })
	}
	inMachine := func(source v1alpha1.ConfigSource) client.Object {
		return with(machine(), func(m *v1alpha1.Machine) { m.Spec.ConfigSource = &source })
	}
	for what, object := range map[string]client.Object{
		"a fleet":      inFleet(v1alpha1.ConfigSource{Key: "a", SHA256: hash}),
		"a deployment": inDeployment(v1alpha1.ConfigSource{Key: "a"}),
		"one pinned":   inDeployment(v1alpha1.ConfigSource{Key: "a", SHA256: hash}),
		"a machine":    inMachine(v1alpha1.ConfigSource{Key: "a"}),
		"one resolved": inMachine(v1alpha1.ConfigSource{Key: "a", Resolved: resolved}),
	} {
		g.Expect(c.Create(t.Context(), object, client.DryRunAll)).To(Succeed(), what)
	}
	for want, object := range map[string]client.Object{
		"set sha256 to the SHA-256 of the content that is meant":                             inFleet(v1alpha1.ConfigSource{Key: "a"}),
		"and not resolved, so that a new content is a new template":                          inFleet(v1alpha1.ConfigSource{Key: "a", SHA256: hash, Resolved: resolved}),
		"the hub writes it into MachineSets and Machines: remove it, and set sha256 to keep": inDeployment(v1alpha1.ConfigSource{Key: "a", Resolved: resolved}),
		"spec.configSource.key":              inMachine(v1alpha1.ConfigSource{Key: "a/b"}),
		"spec.configSource.sha256":           inMachine(v1alpha1.ConfigSource{Key: "a", SHA256: strings.ToUpper(hash)}),
		"spec.configSource.resolved.content": inMachine(v1alpha1.ConfigSource{Key: "a", Resolved: &v1alpha1.ResolvedConfigSource{Key: "a", Content: strings.Repeat("x", v1alpha1.MaxConfigContent+1)}}),
	} {
		g.Expect(c.Create(t.Context(), object, client.DryRunAll)).To(MatchError(ContainSubstring(want)))
	}
}
