package content

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const content = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func TestRead(t *testing.T) {
	configs := &corev1.ConfigMap{
		Data:       map[string]string{"good": content, "empty": "", "long": strings.Repeat("x", v1alpha1.MaxConfigContent+1), "latin1": "\xff"},
		BinaryData: map[string][]byte{"binary": {1}},
	}
	for _, test := range []struct {
		source *v1alpha1.ConfigSource
		found  *corev1.ConfigMap
		want   string
	}{
		{&v1alpha1.ConfigSource{Key: "good"}, nil, "ConfigMap c1/hollowfleet-kubelet does not exist: create it with the key good"},
		{&v1alpha1.ConfigSource{Key: "good"}, configs, ""},
		{&v1alpha1.ConfigSource{Key: "good", SHA256: v1alpha1.ContentHash(content)}, configs, ""},
		{&v1alpha1.ConfigSource{Key: "good", SHA256: "0"}, configs, "and sha256 asks for 0: write that content, or change sha256"},
		{&v1alpha1.ConfigSource{Key: "none"}, configs, "has no key none: add it, or name another key"},
		{&v1alpha1.ConfigSource{Key: "empty"}, configs, "is empty: write a KubeletConfiguration into it"},
		{&v1alpha1.ConfigSource{Key: "binary"}, configs, "is not text: write it into data, not binaryData"},
		{&v1alpha1.ConfigSource{Key: "long"}, configs, "has 16385 bytes, or is not UTF-8: shorten it to 16384 bytes"},
		{&v1alpha1.ConfigSource{Key: "latin1"}, configs, "is not UTF-8"},
	} {
		got, problem := Read("c1", test.found, test.source)
		if (test.want == "") != (problem == "") || !strings.Contains(problem, test.want) {
			t.Errorf("%+v: got %q, want %q", test.source, problem, test.want)
		}
		if (got != "") != (problem == "") {
			t.Errorf("%+v: content %q with problem %q", test.source, got, problem)
		}
	}
}
