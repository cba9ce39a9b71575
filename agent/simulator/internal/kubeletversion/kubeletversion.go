// Package kubeletversion makes kubelet code report another version than its own.
//
// A kubelet takes what it reports from k8s.io/component-base/version, whose setter refuses every other
// minor release. Rewriting the Node on its way to the API server is no way out: the kubelet would find a
// foreign version there with every heartbeat and patch it again. So the variable behind the setter is set
// directly; the package's test fails if a newer library keeps it elsewhere.
package kubeletversion

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	_ "unsafe" // for go:linkname

	"k8s.io/component-base/version"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// kubernetesModule is the module whose kubelet is built in.
const kubernetesModule = "k8s.io/kubernetes"

// unsetPrefix starts the version of component-base when the linker was not told another.
const unsetPrefix = "v0.0.0-master"

//go:linkname reported k8s.io/component-base/version.dynamicGitVersion
var reported atomic.Value

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

// linked is the version as the linker set it, read before Report can change it.
var linked = version.Get().GitVersion

// Report makes everything in this process that asks component-base for the version see v, which must be a
// semantic version such as "v1.29.4". It must be called before a kubelet is built.
func Report(v string) error {
	if err := hollownode.CheckKubeletVersion(v); err != nil {
		return err
	}
	reported.Store(v)
	if got := version.Get().GitVersion; got != v {
		return fmt.Errorf("setting the reported version: want %s, the library still says %s", v, got)
	}
	return nil
}
