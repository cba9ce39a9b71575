package hollownode

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/server"
	"k8s.io/kubernetes/pkg/kubelet/server/stats"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

// reviewBackoff is how a kubelet asks the API server again that does not answer.
var reviewBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}

// clientAuthority is the authority that client certificates are checked with: the cluster's own, which the bootstrap kubeconfig names. It is
// nil if that names none; callers need tokens then.
func clientAuthority(certificates []byte) (dynamiccertificates.CAContentProvider, error) {
	if len(certificates) == 0 {
		return nil, nil
	}
	authority, err := dynamiccertificates.NewStaticCAContent("client-ca", certificates)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's certificate authority: %w", err)
	}
	return authority, nil
}

// newPortAuth is what a kubelet has whose configuration says authorization mode Webhook and no anonymous requests.
func (n *node) newPortAuth(clientCA dynamiccertificates.CAContentProvider) (server.AuthInterface, error) {
	authn := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                          &apiserver.AnonymousAuthConfig{Enabled: false},
		TokenAccessReviewClient:            n.client.AuthenticationV1(),
		WebhookRetryBackoff:                &reviewBackoff,
		CacheTTL:                           n.settings.Authentication.Webhook.CacheTTL.Duration,
		ClientCertificateCAContentProvider: clientCA,
	}
	authenticator, _, authnErr := authn.New()
	authz := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: n.client.AuthorizationV1(),
		Compiler:                  noConditions{},
		AllowCacheTTL:             n.settings.Authorization.Webhook.CacheAuthorizedTTL.Duration,
		DenyCacheTTL:              n.settings.Authorization.Webhook.CacheUnauthorizedTTL.Duration,
		WebhookRetryBackoff:       &reviewBackoff,
	}
	authorizer, authzErr := authz.New()
	if err := errors.Join(authnErr, authzErr); err != nil {
		return nil, fmt.Errorf("delegating authentication and authorization to the API server: %w", err)
	}
	if clientCA == nil {
		clientCA = dynamiccertificates.NewUnionCAContentProvider()
	}
	return server.NewKubeletAuth(authenticator, server.NewNodeAuthorizerAttributesGetter(types.NodeName(n.configuration.NodeName)), authorizer, clientCA), nil
}

// noConditions compiles nothing: there are no conditions, and the default compiler takes megabytes.
type noConditions struct{}

// CompileCELExpression implements authorizationcel.Compiler.
func (noConditions) CompileCELExpression(authorizationcel.ExpressionAccessor) (authorizationcel.CompilationResult, error) {
	return authorizationcel.CompilationResult{}, errors.New("a kubelet has no match conditions")
}

// newAPIHandler is the kubelet's own server.
func (n *node) newAPIHandler(ctx context.Context, k *kubelet.Kubelet, clientCA dynamiccertificates.CAContentProvider) (http.Handler, error) {
	auth, err := n.newPortAuth(clientCA)
	if err != nil {
		return nil, err
	}
	analyzer, err := getField[stats.ResourceAnalyzer](k, resourceAnalyzer)
	if err != nil {
		return nil, err
	}
	handler := server.NewServer(ctx, apiHost{k}, analyzer, nil, nil, auth, n.settings)
	if n.options.SharedDir == "" {
		return &handler, nil
	}
	return withoutProcessMetrics(&handler), nil
}

// withoutProcessMetrics leaves out what counts a process whose other nodes are not this one.
func withoutProcessMetrics(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" || r.URL.Path == "/metrics/slis" {
			http.Error(w, "this node shares its process with others, and has no metrics of a process: see /metrics/resource and /stats/summary", http.StatusNotFound)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// apiHost is what the server asks.
type apiHost struct{ *kubelet.Kubelet }

// RunInContainer is asked by the server only. Of the runtime's commands those of hooks and probes succeed without running.
func (apiHost) RunInContainer(context.Context, string, types.UID, string, []string) ([]byte, error) {
	return nil, fakecri.ErrNoProcess
}
