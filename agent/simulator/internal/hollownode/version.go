package hollownode

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/kubeletversion"
)

// Labels that tell which kubelet a Node runs; apis/v1alpha1 documents them.
const (
	versionSourceLabel = "hollowfleet.io/kubelet-version-source"
	codeLabel          = "hollowfleet.io/kubelet-code"
	versionBuiltIn     = "BuiltIn"
	versionSameMinor   = "SameMinor"
	versionReported    = "Reported"
)

// versionLabels are the labels of a Node that reports one version, or none, and runs the code of another.
func versionLabels(reported, code string) map[string]string {
	source := versionReported
	switch {
	case reported == "" || reported == code:
		source = versionBuiltIn
	case contract.MinorOf(reported) == contract.MinorOf(code):
		source = versionSameMinor
	}
	return map[string]string{versionSourceLabel: source, codeLabel: strings.ReplaceAll(code, "+", "_")}
}

// checkCode refuses a configuration that demands the code of another minor than this program has.
func checkCode(c contract.Configuration, code string) error {
	if !c.RequireVersionCode || c.KubeletVersion == "" || contract.MinorOf(c.KubeletVersion) == contract.MinorOf(code) {
		return nil
	}
	return fmt.Errorf("kubeletVersion: %s has to be the code that runs (requireVersionCode), and this hollow-node has that of %s: "+
		"start the hollow-node of Kubernetes %s instead", c.KubeletVersion, code, contract.MinorOf(c.KubeletVersion))
}

// setVersion lets the Node have the version of its configuration, and say which code it runs: another one than before, if its kubelet was
// updated in place. A kubelet reports the version of its process, which may be others' too.
func (n *node) setVersion(_ context.Context, node *corev1.Node) error {
	node.Status.NodeInfo.KubeletVersion = cmp.Or(n.configuration.KubeletVersion, kubeletversion.BuiltIn())
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, versionLabels(n.configuration.KubeletVersion, kubeletversion.BuiltIn()))
	return nil
}
