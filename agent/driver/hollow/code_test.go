package hollow

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// Claim: The kubelet code of a Machine's minor runs where it is built. Broken: the first image for all; a patch release without image.
// Claim: Nothing is made of a Machine that demands code which is not built. Broken: the image is chosen after the Secret; the code of another minor will do.
func TestImageOf(t *testing.T) {
	for name, test := range map[string]struct {
		version  string
		required bool
		image    string
	}{
		"no version":                  {"", true, "default"},
		"the built-in minor":          {"v" + hollownode.BuiltInMinor + ".7", true, "default"},
		"a minor that is built":       {"v1.36.2", true, "of 1.36"},
		"without a demand":            {"v1.36.2", false, "of 1.36"},
		"without v, a pre-release":    {"1.36.0-rc.1", true, "of 1.36"},
		"only a name":                 {"v1.35.4", false, "default"},
		"only a name, where not fine": {"v1.35.4", true, ""},
		"another major":               {"v2.36.0", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := &Driver{options: Options{Image: "default", MinorImages: map[string]string{"1.36": "of 1.36"}}}
			image, err := d.imageOf(desired{configuration: hollownode.Configuration{KubeletVersion: test.version, RequireVersionCode: test.required}})
			g.Expect(image).To(Equal(test.image))
			if test.image != "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(driver.ErrInvalidConfiguration))
			g.Expect(err).To(MatchError(And(HavePrefix("spec.requireVersionCode: "), ContainSubstring("only of 1.36, "+hollownode.BuiltInMinor),
				ContainSubstring("make build-simulator MINORS="+hollownode.MinorOf(test.version)), ContainSubstring("hollowNode.minors"))))
		})
	}
}

func TestCheckMinorImages(t *testing.T) {
	for minor, problem := range map[string]string{"1.36": "", "v1.36": "write it as 1.36", "1.36.2": "write it as 1.36", "2.0": "write it as 1.36", "": "write it as 1.36"} {
		err := CheckMinorImages(map[string]string{minor: "i"})
		if problem == "" {
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			continue
		}
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(problem)), minor)
	}
	NewWithT(t).Expect(CheckMinorImages(map[string]string{"1.36": ""})).To(MatchError("minor 1.36 has no image"))
}

// A demand is a change of the configuration: it takes another pod, unless that cannot be made.
func TestDemandForCode(t *testing.T) {
	g, b := NewWithT(t), newEnv(t)
	request := b.request("m1")
	request.Machine.Spec.Versions.Kubelet, request.Machine.Spec.RequireVersionCode = "v1.36.2", true
	_, err := b.Create(t.Context(), request)
	g.Expect(err).To(MatchError(driver.ErrInvalidConfiguration))
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}} {
		g.Expect(b.client.List(t.Context(), list, client.InNamespace(b.namespace))).To(Succeed())
		g.Expect(list).To(HaveField("Items", BeEmpty()), "nothing is half made")
	}

	request.Machine.Spec.RequireVersionCode = false
	_, err = b.Create(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.pod(g, "m1").Spec.Containers[0].Image).To(Equal("hollowfleet/hollow-node"))

	request.Machine.Spec.RequireVersionCode = true
	g.Expect(b.CheckUpdate(t.Context(), request)).To(MatchError(driver.ErrInvalidConfiguration), "before anything is drained")
	_, err = b.Update(t.Context(), request)
	g.Expect(err).To(MatchError(driver.ErrInvalidConfiguration))
	g.Expect(b.pod(g, "m1").DeletionTimestamp).To(BeNil(), "the pod that runs stays")

	b.options.MinorImages = map[string]string{"1.36": "hollowfleet/hollow-node-v1.36"}
	g.Expect(b.CheckUpdate(t.Context(), request)).To(Succeed())
	updated, err := b.Update(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(updated.State).To(Equal(driver.Deleting))
	g.Expect(b.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(b.namespace), client.GracePeriodSeconds(0))).To(Succeed())
	_, err = b.Create(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.pod(g, "m1").Spec.Containers[0].Image).To(Equal("hollowfleet/hollow-node-v1.36"))
	configuration, err := hollownode.Parse(b.secret(g, "m1").Data[hollownode.ConfigFileName])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(configuration.RequireVersionCode).To(BeTrue(), "the program checks itself")

	b.options.MinorImages = nil
	found, err := b.Get(t.Context(), request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.UpToDate).To(BeTrue(), "a pod that runs needs no image any more")
}
