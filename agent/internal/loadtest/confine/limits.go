package confine

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	psaapi "k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"
)

const (
	// DefaultPodSecurity is the Pod Security Standard of the namespaces of a run.
	DefaultPodSecurity = string(psaapi.LevelBaseline)
	// DefaultMaxStored is half of what etcd takes by default.
	DefaultMaxStored = "1Gi"
	// HollowNodes and AnyNodes say where pods of a run go.
	HollowNodes, AnyNodes = "hollow", "any"
)

// Limits is what an administrator of a cluster lets load tests do there.
type Limits struct {
	// PodSecurity is the Pod Security Standard that the namespaces of a run enforce: privileged, baseline or restricted. Default
	// baseline.
	PodSecurity string
	// Nodes is hollow, which pins the pods of a run to hollow Nodes, or any. Default hollow.
	Nodes string
	// Kinds may be in templates beside those that reach no further than their namespace, such as PersistentVolumeClaim or
	// Widget.example.com. Default none.
	Kinds []string
	// MaxStored is how many bytes the objects of a run may take in the API server's etcd at a time, by an estimate from their size and
	// number: a quantity such as 4Gi. Default 1Gi.
	MaxStored string
}

// Complete sets defaults, and returns what is wrong with limits.
func (l Limits) Complete() (Limits, error) {
	if l.PodSecurity == "" {
		l.PodSecurity = DefaultPodSecurity
	}
	if _, err := psaapi.ParseLevel(l.PodSecurity); err != nil {
		return l, fmt.Errorf("--load-test-pod-security: want privileged, baseline or restricted, got %q", l.PodSecurity)
	}
	if l.MaxStored == "" {
		l.MaxStored = DefaultMaxStored
	}
	if most, err := resource.ParseQuantity(l.MaxStored); err != nil || most.Cmp(leastStored) < 0 || most.Cmp(mostStored) > 0 {
		return l, fmt.Errorf("--load-test-max-stored: want bytes such as 4Gi, from %s to %s, got %q", leastStored.String(), mostStored.String(), l.MaxStored)
	}
	if l.Nodes == "" {
		l.Nodes = HollowNodes
	}
	if l.Nodes != HollowNodes && l.Nodes != AnyNodes {
		return l, fmt.Errorf("--load-test-nodes: want %s or %s, got %q", HollowNodes, AnyNodes, l.Nodes)
	}
	for _, kind := range l.Kinds {
		if kind == "" || strings.ContainsAny(kind, "/ \t\n") || kind[0] < 'A' || kind[0] > 'Z' {
			return l, fmt.Errorf("--load-test-kinds: want a kind such as PersistentVolumeClaim or Widget.example.com, got %q", kind)
		}
	}
	return l, nil
}

// leastStored and mostStored bound MaxStored.
var leastStored, mostStored = resource.MustParse("1Mi"), resource.MustParse("1Pi")

// MaxStoredBytes is MaxStored as a number. The limits have to be complete.
func (l Limits) MaxStoredBytes() int64 {
	most, err := resource.ParseQuantity(l.MaxStored)
	if err != nil {
		return 0
	}
	return most.Value()
}

// NamespaceLabels make the API server hold pods of a run, whoever creates them, to the Pod Security Standard.
func (l Limits) NamespaceLabels() map[string]string {
	return map[string]string{psaapi.EnforceLevelLabel: l.PodSecurity, psaapi.EnforceVersionLabel: psaapi.VersionLatest}
}

// Enforces reports whether the labels of a namespace are those of NamespaceLabels.
func (l Limits) Enforces(labels map[string]string) bool {
	for key, value := range l.NamespaceLabels() {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// allowsKind reports whether a kind was allowed by name.
func (l Limits) allowsKind(kind string) bool { return slices.Contains(l.Kinds, kind) }

// standards are the Pod Security Standards, the same as those of the API server.
var standards = func() psa.Evaluator {
	evaluator, err := psa.NewEvaluator(psa.DefaultChecks(), nil)
	if err != nil {
		panic(err) // The checks are constant.
	}
	return evaluator
}()

// Error is a field that a template must not have.
type Error struct {
	// Field is its path.
	Field string
	// Reason says why, and what to do instead.
	Reason string
}

func (e *Error) Error() string { return e.Field + ": " + e.Reason }

func refuseField(field, reason string, args ...any) error {
	return &Error{Field: field, Reason: fmt.Sprintf(reason, args...)}
}
