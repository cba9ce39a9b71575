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
	// token is the first part of the path of every address, and host what every request names.
	token, host string
	// apiServer is the address of the hub's API server, for people.
	apiServer string
	readOnly  bool
	pages     *http.ServeMux
	style     []byte

	fleets  fleetPreviews
	reports reports
	rights  rights
	seen    judged
	streams chan struct{}
}

// mostStreams is how many pages can be followed at the same time.
const mostStreams = 64

func newServer(hub *cmdutil.Hub, s *store, token, host, apiServer string) *server {
	server := &server{
		hub: hub, store: s, clock: clock.RealClock{}, token: token, host: host, apiServer: apiServer, pages: http.NewServeMux(), style: newStyle(),
		streams: make(chan struct{}, mostStreams),
	}
	server.addPages()
	return server
}

// address is where the first page is.
func (s *server) address() string { return "http://" + s.host + "/" + s.token + "/" }

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
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin") // With no-referrer a browser would not say from which page a form is.
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
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
	inner := r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath = "/"+path, ""
	s.pages.ServeHTTP(w, inner)
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
		"/fleets/{fleet}/{action}": s.confirmAction, "/": showNothing,
	} {
		s.pages.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) { s.servePage(w, r, page) })
	}
	s.pages.HandleFunc("POST /fleets/{fleet}/{action}", s.serveAction)
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
