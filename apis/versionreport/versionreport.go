// Package versionreport is what the control plane of a simulated cluster says about its own components. It is a ConfigMap in that cluster,
// which everyone may read, as they may read /version of the API server: who runs the cluster has no other way to the two components
// that serve on the loopback address only.
package versionreport

import "k8s.io/apimachinery/pkg/util/version"

// Where the report is.
const (
	Namespace = "kube-public"
	Name      = "simcluster-versions"
)

// The keys of the ConfigMap.
const (
	apiServer, controllerManager, scheduler = "kube-apiserver", "kube-controller-manager", "kube-scheduler"
	problem                                 = "problem"
)

// Report has the versions that components run, such as v1.36. Empty: the component does not run, or is not healthy yet.
type Report struct {
	APIServer, ControllerManager, Scheduler string
	// Problem is why what was asked for last is not carried out; empty if it is, or is under way.
	Problem string
}

// Data is the report as its ConfigMap has it.
func (r Report) Data() map[string]string {
	data := map[string]string{}
	for key, value := range map[string]string{apiServer: r.APIServer, controllerManager: r.ControllerManager, scheduler: r.Scheduler, problem: r.Problem} {
		if value != "" {
			data[key] = value
		}
	}
	return data
}

// longestVersion is more than any version has.
const longestVersion = 64

// Parse reads what Data has written. An administrator of the cluster may have written something else: what is not a version is left out.
func Parse(data map[string]string) Report {
	return Report{
		APIServer: readVersion(data[apiServer]), ControllerManager: readVersion(data[controllerManager]), Scheduler: readVersion(data[scheduler]),
		Problem: data[problem],
	}
}

func readVersion(text string) string {
	if len(text) > longestVersion {
		return ""
	}
	if _, err := version.ParseGeneric(text); err != nil {
		return ""
	}
	return text
}
