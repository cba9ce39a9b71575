// Package kubeletversion knows the version of the kubelet code in this binary.
package kubeletversion

import (
	"runtime/debug"
	"strings"

	"k8s.io/component-base/version"
)

// kubernetesModule is the module whose kubelet is built in.
const kubernetesModule = "k8s.io/kubernetes"

// unsetPrefix starts the version of component-base when the linker was not told another.
const unsetPrefix = "v0.0.0-master"

// BuiltIn is the version of the kubelet code in this binary, such as "v1.37.1": the one given to the
// linker, else that of the module, else (in test binaries, which do not know their modules) the minor
// release that the code names itself.
func BuiltIn() string {
	if v := linked; !strings.HasPrefix(v, unsetPrefix) {
		return v
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == kubernetesModule {
				return module.Version
			}
		}
	}
	return "v" + version.DefaultKubeBinaryVersion + ".0"
}

// linked is the version as the linker set it.
var linked = version.Get().GitVersion
