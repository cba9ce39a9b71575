package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

const (
	// DefaultMostUsers is how many users can look at the same time: each has a copy of what they may read, 60 MB of 10,000 Machines.
	DefaultMostUsers = 8
	// namespacePath begins the paths of the pages of one namespace.
	namespacePath = "namespaces"
	// mostReviews is how many tokens are reviewed at once, and longestReview how long one may take.
	mostReviews, longestReview = 8, 10 * time.Second
	// sweepPeriod is how often what nobody uses is ended.
	sweepPeriod = time.Minute
)

// ServeOptions are those of a dashboard for many users, each of whom signs in with their own token for the hub's API server. The program
// itself needs no right.
type ServeOptions struct {
	// Listener is where browsers reach it, with TLS.
	Listener net.Listener
	// APIServer is the URL of the hub's API server, and CAFile has the authority of its certificate.
	APIServer, CAFile string
	// AllowChanges offers what a user may change.
	AllowChanges bool
	// MostUsers is how many can look at the same time: DefaultMostUsers if 0.
	MostUsers int
}

// Serve answers browsers until ctx ends.
func Serve(ctx context.Context, o ServeOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := newPortal(o, func(run func(context.Context)) (stop func()) {
		following, stop := context.WithCancel(ctx)
		go run(following)
		return stop
	})
	go wait.UntilWithContext(ctx, func(context.Context) { p.sweep() }, sweepPeriod)
	return serveWeb(ctx, o.Listener, p, log.New(io.Discard, "", 0)) // Anyone can come with a wrong certificate or none.
}

// portal lets users in, and shows each what they may read.
type portal struct {
	*visits
	options ServeOptions
	reviews chan struct{}
	style   []byte
}

func newPortal(o ServeOptions, launch func(func(context.Context)) func()) *portal {
	if o.MostUsers == 0 {
		o.MostUsers = DefaultMostUsers
	}
	return &portal{visits: newVisits(o.MostUsers, clock.RealClock{}, launch), options: o, reviews: make(chan struct{}, mostReviews), style: newStyle()}
}

// ServeHTTP implements http.Handler.
func (p *portal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if !isSafe(r.Method) && !isFromServedPage(r) {
		refuse(w, http.StatusForbidden, "Refused: this request does not come from a page of this dashboard", "Nothing was changed.")
		return
	}
	switch {
	case r.URL.Path == "/healthz" && isSafe(r.Method):
		_, _ = io.WriteString(w, "ok")
	case r.URL.Path == "/assets/dashboard.css" && isSafe(r.Method):
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(p.style)
	case r.URL.Path == "/login" && r.Method == http.MethodPost:
		p.signIn(w, r)
	case r.URL.Path == "/login" && isSafe(r.Method):
		showSignIn(w, http.StatusOK, r.URL.Query().Get("namespace"), "")
	case r.URL.Path == "/logout" && r.Method == http.MethodPost:
		p.signOut(w, r)
	default:
		p.showPage(w, r)
	}
}

// isFromServedPage reports whether a browser says that a page of the address that it asked has made the request.
func isFromServedPage(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	site := r.Header.Get("Sec-Fetch-Site")
	return err == nil && origin.Host != "" && origin.Host == r.Host && (site == "" || site == "same-origin")
}

// showPage shows a page to who has signed in, by a cookie or by the token that a proxy sends along.
func (p *portal) showPage(w http.ResponseWriter, r *http.Request) {
	namespace, path, err := splitNamespace(r.URL.Path)
	if err != nil {
		refuse(w, http.StatusNotFound, "Not found", cmdutil.Printable(err.Error()))
		return
	}
	token, user := p.tokenOf(r)
	if token == "" {
		showSignIn(w, http.StatusUnauthorized, namespace, "")
		return
	}
	visit, err := p.visit(r.Context(), visitKey{hashOf(token), namespace}, func(ctx context.Context, key visitKey) (*server, error) {
		return p.newViewer(ctx, key, token, user)
	})
	switch {
	case isUnknownToken(err):
		showSignIn(w, http.StatusUnauthorized, namespace, unknownToken)
	case errors.Is(err, errFull):
		refuse(w, http.StatusServiceUnavailable, "Too many users look at this dashboard", "Try again when one of them has closed it.")
	case err != nil:
		refuse(w, http.StatusBadGateway, "The hub's API server cannot be asked", cmdutil.Printable(err.Error()))
	default:
		defer p.leave(visit)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() { // A stream ends with the visit.
			select {
			case <-visit.ended:
				cancel()
			case <-ctx.Done():
			}
		}()
		visit.pages.ServeHTTP(w, withPath(r.WithContext(ctx), path))
	}
}

// splitNamespace takes the namespace out of a path; empty for all.
func splitNamespace(path string) (namespace, rest string, err error) {
	inside, is := strings.CutPrefix(path, "/"+namespacePath+"/")
	if !is {
		return "", path, nil
	}
	namespace, rest, _ = strings.Cut(inside, "/")
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return "", "", fmt.Errorf("%q cannot be the name of a namespace: %s", namespace, strings.Join(wrong, "; "))
	}
	return namespace, "/" + rest, nil
}

// baseOf is the path of the first page of a namespace, or of all.
func baseOf(namespace string) string {
	if namespace == "" {
		return "/"
	}
	return "/" + namespacePath + "/" + namespace + "/"
}

// unknownToken is said of a token that the API server does not take.
const unknownToken = "The hub's API server does not take this token: it may have expired."

// errAnonymous is an API server that takes a request of nobody.
var errAnonymous = errors.New("the API server does not tell whose this token is")

func isUnknownToken(err error) bool {
	return apierrors.IsUnauthorized(err) || errors.Is(err, errAnonymous)
}

// newViewer is what a user sees of a namespace, with a client that has the user's token and nothing else.
func (p *portal) newViewer(ctx context.Context, key visitKey, token, user string) (*server, error) {
	hub, c, err := p.connect(token, key.namespace)
	if err != nil {
		return nil, err
	}
	if user == "" {
		if user, err = p.review(ctx, hub, c); err != nil {
			return nil, err
		}
	}
	s := newServer(hub, newStore(c, scopeOf(key.namespace)), baseOf(key.namespace), p.options.APIServer)
	s.user, s.readOnly = cmdutil.Printable(user), !p.options.AllowChanges
	s.store.refused = func() { p.forget(key.token) }
	return s, nil
}

// connect makes a client with a token.
func (p *portal) connect(token, namespace string) (*cmdutil.Hub, client.WithWatch, error) {
	hub := cmdutil.NewHub(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: io.Discard, ErrOut: io.Discard})
	*hub.Flags.KubeConfig = os.DevNull // No file of this machine may lend a user its rights.
	*hub.Flags.APIServer, *hub.Flags.CAFile, *hub.Flags.BearerToken, *hub.Flags.Namespace = p.options.APIServer, p.options.CAFile, token, namespace
	c, err := hub.Client()
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for a user: %w", err)
	}
	return hub, c, nil
}

// review asks the API server whose token a client has.
func (p *portal) review(ctx context.Context, hub *cmdutil.Hub, c client.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, longestReview)
	defer cancel()
	select {
	case p.reviews <- struct{}{}:
		defer func() { <-p.reviews }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	user, err := hub.User(ctx, c)
	if err == nil && (user == "" || user == "system:anonymous") {
		err = errAnonymous
	}
	return user, err //nolint:wrapcheck // It says what was asked.
}
