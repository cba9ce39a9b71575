package autoscaler

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	account = "cluster-autoscaler"
	itsRole = "hollowfleet-autoscaler"
)

// credential makes what docs/autoscaling.md tells an operator to make: a ServiceAccount with the role in the cluster's
// namespace, and no other right.
func credential(ctx context.Context, administrator client.Client, config *rest.Config, namespace string) *rest.Config {
	GinkgoHelper()
	who := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	Expect(administrator.Create(ctx, who)).To(Succeed())
	Expect(administrator.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: itsRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	})).To(Succeed())
	token := &authenticationv1.TokenRequest{}
	Expect(administrator.SubResource("token").Create(ctx, who, token)).To(Succeed())
	limited := rest.AnonymousClientConfig(config)
	limited.BearerToken = token.Status.Token
	limited.QPS = -1
	return limited
}

// wire is what the autoscaler's requests to the hub go through.
type wire struct {
	mu   sync.Mutex
	seen map[string]bool
	cut  bool
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (w *wire) through(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(request *http.Request) (*http.Response, error) {
		if what := requestOf(request); what != "" {
			w.mu.Lock()
			w.seen[what] = true
			lost := w.cut && strings.HasPrefix(what, "patch ")
			w.mu.Unlock()
			if lost {
				return nil, errors.New("the request is lost")
			}
		}
		return next.RoundTrip(request)
	})
}

// lose makes every later change of a size fail, or no longer.
func (w *wire) lose(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// sent lists the verbs and resources of all requests so far.
func (w *wire) sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.seen))
}

// requestOf is the right that a request needs, such as "patch machinesets/scale"; empty for discovery.
func requestOf(request *http.Request) string {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	if len(path) < 6 || path[0] != "apis" || path[3] != "namespaces" {
		return ""
	}
	resource := path[5]
	if len(path) > 7 {
		resource += "/" + path[7]
	}
	verb := map[string]string{http.MethodPut: "update", http.MethodPatch: "patch", http.MethodPost: "create", http.MethodDelete: "delete"}[request.Method]
	switch {
	case verb != "":
	case len(path) > 6:
		verb = "get"
	case request.URL.Query().Get("watch") != "":
		verb = "watch"
	default:
		verb = "list"
	}
	return verb + " " + resource
}

// rightsOf lists what a role allows, in the form of requestOf.
func rightsOf(role *rbacv1.ClusterRole) []string {
	GinkgoHelper()
	var rights []string
	for _, rule := range role.Rules {
		Expect(rule.APIGroups).To(ConsistOf(group))
		Expect(rule.ResourceNames).To(BeEmpty())
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				rights = append(rights, verb+" "+resource)
			}
		}
	}
	return rights
}
