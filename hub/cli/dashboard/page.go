package dashboard

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/htmlpage"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
)

//go:embed pages
var pageFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"countLine": overview.CountLine, "menu": func() []menuEntry { return menu },
	"rows": func(base string, rows []problemRow) any {
		return struct {
			Base string
			Rows []problemRow
		}{base, rows}
	},
	"bars": func(a axis, bars []bar) any {
		return struct {
			Axis axis
			Bars []bar
		}{a, bars}
	},
}).ParseFS(pageFiles, "pages/*.tmpl"))

// menuEntry is a section of the dashboard.
type menuEntry struct{ Section, Name, Path string }

var menu = []menuEntry{
	{"clusters", "Clusters", ""}, {"fleets", "Fleets", "fleets"}, {"sets", "Simulated clusters", "sets"}, {"timeline", "Timeline", "timeline"},
	{"loadtests", "Load tests", "loadtests"},
}

// view is what a page shows.
type view struct {
	Title string
	// Section is the entry of the menu that the page belongs to.
	Section string
	// Template makes the page of Data.
	Template string
	Data     any
	// Still: nothing on the page changes, or it must not while a user decides.
	Still bool
	// Status is that of HTTP; 0 for 200.
	Status int
}

// pageFunc makes a page. A *gone error is a page that says so.
type pageFunc func(*http.Request) (*view, error)

// frame is what all pages have.
type frame struct {
	*view
	Base      string
	Live      string
	APIServer string
	// User has signed in; empty on the user's own machine.
	User string
	// Silent says what to do when the dashboard does not answer.
	Silent string
	Banner banner
	Body   template.HTML
}

// localSilence and servedSilence are what a page says of a dashboard that does not answer.
const (
	localSilence  = "kubectl hollow dashboard does not answer. If it has ended, run it again and open the address that it prints."
	servedSilence = "the dashboard does not answer. Load the page again: you may have to sign in."
)

// servePage serves a whole page.
func (s *server) servePage(w http.ResponseWriter, r *http.Request, page pageFunc) {
	v, body, err := s.renderBody(r, page)
	if target, followed := r.Context().Value(liveKey{}).(*liveTarget); followed {
		target.view, target.body, target.err = v, body, err
		return
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "This page cannot be shown", cmdutil.Printable(err.Error()))
		return
	}
	f := frame{view: v, Base: s.base, APIServer: s.apiServer, User: s.user, Silent: localSilence, Banner: s.newBanner(), Body: body}
	if s.user != "" {
		f.Silent = servedSilence
	}
	if !v.Still {
		f.Live = s.base + "live?" + url.Values{"page": {strings.TrimPrefix(r.URL.RequestURI(), "/")}}.Encode()
	}
	var text bytes.Buffer
	if err := htmlpage.Execute(templates, &text, "frame.tmpl", f); err != nil {
		refuse(w, http.StatusInternalServerError, "This page cannot be shown", err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.Status != 0 {
		w.WriteHeader(v.Status)
	}
	_, _ = w.Write(text.Bytes())
}

// renderBody makes what is on a page below its head. An error that a user can understand is a page too.
func (s *server) renderBody(r *http.Request, page pageFunc) (*view, template.HTML, error) {
	v, err := page(r)
	switch code := cmdutil.Code(err); {
	case err != nil && r.Context().Err() != nil:
		return nil, "", err
	case code == cmdutil.Missing:
		v = newMessage(http.StatusNotFound, "Not found", err)
	case code == cmdutil.Refused || code == cmdutil.BadUsage:
		v = newMessage(http.StatusConflict, "Refused", err)
	case err != nil:
		v = newMessage(http.StatusBadGateway, "This page cannot be shown", err)
	}
	var body bytes.Buffer
	data := struct {
		Base string
		Data any
	}{s.base, v.Data}
	if err := htmlpage.Execute(templates, &body, v.Template, data); err != nil {
		return nil, "", err
	}
	return v, template.HTML(body.String()), nil //nolint:gosec // A template of html/template has made it.
}

// message is a page with some text only.
type message struct{ Title, Text string }

func newMessage(status int, title string, err error) *view {
	return &view{Title: title, Template: "message.tmpl", Data: message{title, cmdutil.Printable(err.Error())}, Status: status}
}

var errNoPage = errors.New("page not found")

func showNothing(*http.Request) (*view, error) {
	v := newMessage(http.StatusNotFound, "Not found", errNoPage)
	v.Still = true
	return v, nil
}

// refuse answers with a page that loads nothing, for who may not load anything.
func refuse(w http.ResponseWriter, status int, title, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = htmlpage.Execute(templates, w, "refused.tmpl", message{title, text})
}

// ageText is how long ago something was, for people.
func ageText(now, at time.Time) string {
	if at.IsZero() {
		return "an unknown time"
	}
	return duration.HumanDuration(max(now.Sub(at), 0))
}

// sinceText is ageText of a time of the API; a dash for none.
func sinceText(now time.Time, at *metav1.Time) string {
	if at.IsZero() {
		return "–"
	}
	return ageText(now, at.Time)
}
