package shape

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// oldestMinor is the first minor of a control plane that can be simulated.
const oldestMinor = 34

// Order is which part of a cluster is upgraded first.
type Order string

// The orders.
const (
	ControlPlaneFirst Order = "control-plane-first"
	KubeletsFirst     Order = "kubelets-first"
)

// Versions are those before and after.
type Versions struct {
	// From and To are the minors of the control plane, such as "v1.36"; equal if only kubelets are upgraded.
	From string `json:"controlPlaneFrom"`
	To   string `json:"controlPlaneTo"`
	// Kubelet is the version that all kubelets get.
	Kubelet string `json:"kubelet"`
}

// VersionError is a version that cannot be rehearsed. Field is whose it is.
type VersionError struct{ Field, Message string }

// Error implements error.
func (e *VersionError) Error() string { return e.Field + ": " + e.Message }

// The fields of a VersionError.
const (
	SourceVersion       = "controlPlane of the inventory"
	ControlPlaneVersion = "--control-plane-version"
	KubeletVersion      = "--kubelet-version"
)

// DecideVersions says what a rehearsal goes from and to. An empty controlPlane is the next minor, an empty kubelet the first release of it.
func DecideVersions(source, controlPlane, kubelet string) (Versions, error) {
	from, err := version.ParseGeneric(source)
	if err != nil {
		return Versions{}, &VersionError{SourceVersion, fmt.Sprintf("%q is not a Kubernetes version", source)}
	}
	if from.Major() != 1 || from.Minor() < oldestMinor {
		return Versions{}, &VersionError{SourceVersion, fmt.Sprintf("%s cannot be simulated: control planes from v1.%d on can", source, oldestMinor)}
	}
	to := from.WithMinor(from.Minor() + 1)
	if controlPlane != "" {
		if to, err = version.ParseGeneric(controlPlane); err != nil {
			return Versions{}, &VersionError{ControlPlaneVersion, fmt.Sprintf("%q is not a Kubernetes version: write it as v1.%d", controlPlane, from.Minor()+1)}
		}
	}
	switch {
	case to.Major() != 1 || to.Minor() < from.Minor():
		return Versions{}, &VersionError{ControlPlaneVersion, fmt.Sprintf("%s is older than the cluster's %s: a control plane does not go back", controlPlane, source)}
	case to.Minor() > from.Minor()+1:
		return Versions{}, &VersionError{ControlPlaneVersion, fmt.Sprintf("%s is %d minors after the cluster's %s: a control plane is upgraded one minor at a time, so rehearse v1.%d first", controlPlane, to.Minor()-from.Minor(), source, from.Minor()+1)}
	}
	v := Versions{From: minorOf(from), To: minorOf(to), Kubelet: kubelet}
	if kubelet == "" {
		v.Kubelet = minorOf(to) + ".0"
		return v, nil
	}
	node, err := version.ParseSemantic(kubelet)
	switch {
	case err != nil:
		return Versions{}, &VersionError{KubeletVersion, fmt.Sprintf("%q is not a semantic version: write it as %s.0", kubelet, v.To)}
	case node.Major() != 1 || node.Minor() > to.Minor():
		return Versions{}, &VersionError{KubeletVersion, fmt.Sprintf("%s is newer than the control plane will be (%s): a kubelet is never ahead of its API server", kubelet, v.To)}
	}
	if kubelet[0] != 'v' {
		v.Kubelet = "v" + kubelet
	}
	return v, nil
}

func minorOf(v *version.Version) string { return fmt.Sprintf("v%d.%d", v.Major(), v.Minor()) }

// SkewProblem is a state between two steps that Kubernetes' version skew policy does not allow.
type SkewProblem struct {
	// Step is after which the state would be.
	Step string `json:"step"`
	// Group of Nodes, and how many they are.
	Group string `json:"group"`
	Nodes int    `json:"nodes"`
	// Problem says what is wrong, and Remedy what helps.
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
}

// CheckSkew follows the steps in the order that was asked for, and returns the states that the policy forbids, each once.
func CheckSkew(groups []Group, v Versions, order Order) (problems []SkewProblem) {
	controlPlane := v.From
	kubelets := map[string]string{}
	for _, group := range groups {
		kubelets[group.Name] = group.Kubelet
	}
	found := map[string]bool{}
	check := func(step string) {
		for _, group := range groups {
			problem := v1alpha1.UnsupportedKubelet(kubelets[group.Name], controlPlane, nil)
			if key := group.Name + problem; problem != "" && !found[key] {
				found[key] = true
				problems = append(problems, SkewProblem{step, group.Name, group.Nodes, problem, remedyOf(kubelets[group.Name], controlPlane, v)})
			}
		}
	}
	check("now")
	upgradeKubelets := func() {
		for _, group := range groups {
			kubelets[group.Name] = v.Kubelet
			check(fmt.Sprintf("kubelets of %s (%s) to %s", group.Name, plural.Count(group.Nodes, "Node"), v.Kubelet))
		}
	}
	upgradeControlPlane := func() {
		controlPlane = v.To
		check("control plane to " + v.To)
	}
	if order == KubeletsFirst {
		upgradeKubelets()
		upgradeControlPlane()
		return problems
	}
	upgradeControlPlane()
	upgradeKubelets()
	return problems
}

func remedyOf(kubelet, controlPlane string, v Versions) string {
	node, err := version.ParseGeneric(kubelet)
	api, err2 := version.ParseGeneric(controlPlane)
	switch {
	case err != nil || err2 != nil:
		return ""
	case node.Minor() > api.Minor():
		return fmt.Sprintf("upgrade the control plane to %s first", v.To)
	case controlPlane == v.From:
		return fmt.Sprintf("these Nodes are not supported now: upgrade them to %s before anything else", v.From)
	}
	return fmt.Sprintf("upgrade these Nodes to %s before the control plane", v.From)
}

// skews are the groups whose kubelets are not supported at any time of an upgrade that starts with the control plane.
func skews(groups []Group, v Versions) map[string]bool {
	named := map[string]bool{}
	for _, problem := range CheckSkew(groups, v, ControlPlaneFirst) {
		named[problem.Group] = true
	}
	return named
}
