package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/htmlpage"
)

//go:embed assets
var assets embed.FS

// policy lets a page load nothing but from this server, and nothing inline: what objects contain is never carried out.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// server answers the browser.
type server struct {
	hub   *cmdutil.Hub
	store *store
	clock clock.PassiveClock
	// base is the path of the first page, with which all others begin.
	base string
	// token is the first part of the path of every address, and host what every request names: on this machine, ServeHTTP checks them.
	token, host string
	// apiServer is the address of the hub's API server, for people.
	apiServer string
	// user is who has signed in; empty on this machine.
	user     string
	readOnly bool
	pages    *http.ServeMux
	style    []byte

	fleets  fleetPreviews
	reports reports
	rights  rights
	seen    judged
	streams chan struct{}
}

// mostStreams is how many pages can be followed at the same time.
const mostStreams = 64

// newServer answers who gets as far as its pages.
func newServer(hub *cmdutil.Hub, s *store, base, apiServer string) *server {
	server := &server{
		hub: hub, store: s, clock: clock.RealClock{}, base: base, apiServer: apiServer, pages: http.NewServeMux(), style: newStyle(),
		streams: make(chan struct{}, mostStreams),
	}
	server.addPages()
	return server
}

// newLocalServer answers who knows the token, on this machine.
func newLocalServer(hub *cmdutil.Hub, s *store, token, host, apiServer string) *server {
	server := newServer(hub, s, "/"+token+"/", apiServer)
	server.token, server.host = token, host
	return server
}

// address is where the first page is.
func (s *server) address() string { return "http://" + s.host + s.base }

// newStyle is that of reports, and what is added to it here.
func newStyle() []byte {
	added, err := assets.ReadFile("assets/dashboard.css")
	if err != nil {
		panic(err) // It is embedded.
	}
	return append([]byte(htmlpage.Style()), added...)
}

// ServeHTTP implements http.Handler: it lets in who knows the token, by the address of this machine, and from no other page.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if !s.isOwnHost(r.Host) {
		refuse(w, http.StatusMisdirectedRequest, "This is not the address of this dashboard", "Open the address that kubectl hollow dashboard has printed.")
		return
	}
	given, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !isSame(given, s.token) {
		refuse(w, http.StatusForbidden, "This address is not valid (any more)",
			"Each start of kubectl hollow dashboard has another address. Run it again, and open the address that it prints.")
		return
	}
	if !isSafe(r.Method) && !s.isFromOwnPage(r) {
		refuse(w, http.StatusForbidden, "Refused: this request does not come from a page of this dashboard", "Nothing was changed. Open the address that kubectl hollow dashboard has printed.")
		return
	}
	s.pages.ServeHTTP(w, withPath(r, "/"+path))
}

// setHeaders are those of every answer.
func setHeaders(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin") // With no-referrer a browser would not say from which page a form is.
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// withPath is a request of another path.
func withPath(r *http.Request, path string) *http.Request {
	inner := r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath = path, ""
	return inner
}

// isSame compares in a time that says nothing about either.
func isSame(given, wanted string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(wanted))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func isSafe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// isOwnHost reports whether a request names this server by an address of this machine: a name that someone else lets lead here is none.
func (s *server) isOwnHost(named string) bool {
	_, port, err := net.SplitHostPort(s.host)
	return err == nil && (named == s.host || named == "localhost:"+port)
}

// isFromOwnPage reports whether a browser says that a page of this server has made the request.
func (s *server) isFromOwnPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Header.Get("Origin") == "http://"+r.Host && (site == "" || site == "same-origin")
}

// addPages says which page is where.
func (s *server) addPages() {
	s.pages.HandleFunc("GET /assets/{name}", s.serveAsset)
	s.pages.HandleFunc("GET /live", s.serveLive)
	for pattern, page := range map[string]pageFunc{
		"/{$}": s.showClusters, "/clusters/{cluster}": s.showCluster, "/fleets": s.showFleets, "/fleets/{fleet}": s.showFleet,
		"/timeline": s.showTimeline, "/loadtests": s.showLoadTests, "/loadtests/{test}": s.showLoadTest, "/compare": s.compareLoadTests,
		"/sets": s.showSets, "/sets/{fleet}": s.showSet, "/": showNothing,
	} {
		s.pages.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) { s.servePage(w, r, page) })
	}
	for path, of := range map[string]rollingKind{"/fleets/{fleet}/{action}": fleetRollouts, "/sets/{fleet}/{action}": setRollouts} {
		s.pages.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			s.servePage(w, r, func(r *http.Request) (*view, error) { return s.confirmAction(r, of) })
		})
		s.pages.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.serveAction(w, r, of) })
	}
}

// serveAsset serves a file, or the style.
func (s *server) serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == "dashboard.css" {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(s.style)
		return
	}
	http.ServeFileFS(w, r, assets, "assets/"+name)
}

// judged keeps the last judgement of the fleet for all pages that are followed.
type judged struct {
	mu      sync.Mutex
	version uint64
	at      time.Time
	fleet   *fleetState
	// rest is how long the next judgement waits at least.
	rest time.Duration
}
