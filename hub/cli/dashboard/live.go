package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/htmlpage"
)

const (
	// quickest is how soon a page follows a change at the earliest, and slowest how soon it is made again without one: times on it grow.
	quickest, slowest = 400 * time.Millisecond, 2 * time.Second
	// longestWrite is how long a browser may take to receive a change.
	longestWrite = 10 * time.Second
)

// liveKey is the key of the liveTarget in a context.
type liveKey struct{}

// liveTarget is what a page is made for that is followed.
type liveTarget struct {
	view *view
	body template.HTML
	err  error
}

// serveLive sends the parts of a page again whenever they change, until the browser closes it.
func (s *server) serveLive(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, "too many pages are open: close some", http.StatusServiceUnavailable)
		return
	}
	asked, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "/"+r.URL.Query().Get("page"), nil)
	if err != nil || strings.HasPrefix(asked.URL.Path, "/live") {
		http.Error(w, "page: is not a page", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stream := &stream{server: s, response: http.NewResponseController(w), out: w, page: asked}
	for {
		_, changed := s.store.nextChange()
		if err := stream.sendChanges(); err != nil { //nolint:contextcheck // The page has it.
			return
		}
		if !waitForChange(r.Context(), changed) {
			return
		}
	}
}

// waitForChange waits until the next change, in any case neither shorter nor longer than its bounds. It reports false when ctx has ended.
func waitForChange(ctx context.Context, changed <-chan struct{}) bool {
	soon, late := time.NewTimer(quickest), time.NewTimer(slowest)
	defer soon.Stop()
	defer late.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-soon.C:
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-late.C:
	}
	return true
}

// stream is a page that is followed.
type stream struct {
	server   *server
	response *http.ResponseController
	out      http.ResponseWriter
	page     *http.Request
	sent     map[string][sha256.Size]byte
}

// sendChanges sends the parts that differ from those that were sent last, and that the program is alive.
func (s *stream) sendChanges() error {
	target := &liveTarget{}
	s.server.pages.ServeHTTP(discarded{}, s.page.WithContext(context.WithValue(s.page.Context(), liveKey{}, target)))
	var text bytes.Buffer
	if err := htmlpage.Execute(templates, &text, "banner.tmpl", s.server.newBanner()); err != nil {
		return err
	}
	var events bytes.Buffer
	s.addEvent(&events, "banner", text.String())
	switch {
	case target.err != nil:
		s.addEvent(&events, "body", template.HTMLEscapeString(cmdutil.Printable(target.err.Error())))
	case target.view != nil:
		s.addEvent(&events, "body", string(target.body))
	}
	events.WriteString("event: alive\ndata:\n\n")
	if err := s.response.SetWriteDeadline(time.Now().Add(longestWrite)); err != nil {
		return fmt.Errorf("sending a change: %w", err)
	}
	if _, err := s.out.Write(events.Bytes()); err != nil {
		return fmt.Errorf("sending a change: %w", err)
	}
	return s.response.Flush()
}

// addEvent adds an event, unless the last one of that name had the same text.
func (s *stream) addEvent(events *bytes.Buffer, name, text string) {
	sum := sha256.Sum256([]byte(text))
	if s.sent == nil {
		s.sent = map[string][sha256.Size]byte{}
	}
	if s.sent[name] == sum {
		return
	}
	s.sent[name] = sum
	fmt.Fprintf(events, "event: %s\n", name)
	for line := range strings.Lines(text) {
		fmt.Fprintf(events, "data: %s\n", strings.TrimRight(line, "\r\n"))
	}
	events.WriteString("\n")
}

// discarded is for a page whose parts are taken from its liveTarget.
type discarded struct{}

func (discarded) Header() http.Header            { return http.Header{} }
func (discarded) Write(text []byte) (int, error) { return len(text), nil }
func (discarded) WriteHeader(int)                {}
