// Package browser drives Chromium without a screen, for tests of pages. It talks the Chrome DevTools Protocol over two pipes.
package browser

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// RequiredVariable is the environment variable that makes tests fail, and not be skipped, where Chromium is missing.
	RequiredVariable = "HOLLOWFLEET_BROWSER_REQUIRED"
	// patience is how long an answer may take.
	patience = 60 * time.Second
	// longestEnd is how long Chromium may take to end.
	longestEnd = 5 * time.Second
)

// names are those by which Chromium is installed.
var names = []string{"chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"}

// axe is axe-core, with which pages are checked for accessibility. hack/dashboard-assets.sh fetches it.
//
//go:embed axe/axe.min.js
var axe string

// Browser is a running Chromium.
type Browser struct {
	t  testing.TB
	to *os.File

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	pages   map[string]*Page
	ended   bool
}

// answer is that to a command, or an event.
type answer struct {
	ID        int             `json:"id"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	SessionID string          `json:"sessionId"`
	Result    json.RawMessage `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start starts Chromium, which ends with the test. The test is skipped where it is not installed.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := ""
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		if os.Getenv(RequiredVariable) != "" {
			t.Fatalf("Chromium is not installed, and %s is set", RequiredVariable)
		}
		t.Skip("left out: Chromium is not installed (hack/browser.sh installs it)")
	}
	commands, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	profile, err := os.MkdirTemp("", "hollowfleet-browser-") //nolint:usetesting // A process that ends late may still write there.
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	command.ExtraFiles = []*os.File{commands, answers} // They are 3 and 4 there.
	if err := command.Start(); err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	_, _ = commands.Close(), answers.Close()
	b := &Browser{t: t, to: to, waiting: map[int]chan answer{}, pages: map[string]*Page{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.readAnswers(bufio.NewReaderSize(from, 1<<20))
	}()
	t.Cleanup(func() {
		_ = b.call("", "Browser.close", map[string]any{}, nil) // Its own processes end with it, and write nothing more.
		kill := time.AfterFunc(longestEnd, end)
		_ = command.Wait()
		kill.Stop()
		end()
		_ = to.Close()
		<-read
		_ = from.Close()
		_ = os.RemoveAll(profile)
	})
	return b
}

// readAnswers hands answers to those who wait, and events to their pages, until Chromium has ended.
func (b *Browser) readAnswers(from *bufio.Reader) {
	for {
		text, err := from.ReadBytes(0)
		b.mu.Lock()
		if err != nil {
			b.ended = true
			for id, waiting := range b.waiting {
				close(waiting)
				delete(b.waiting, id)
			}
			b.mu.Unlock()
			return
		}
		var one answer
		if json.Unmarshal(text[:len(text)-1], &one) == nil {
			if waiting := b.waiting[one.ID]; waiting != nil {
				waiting <- one
				delete(b.waiting, one.ID)
			} else if page := b.pages[one.SessionID]; page != nil {
				page.note(one)
			}
		}
		b.mu.Unlock()
	}
}

// call sends a command and reads its result into result, unless that is nil.
func (b *Browser) call(session, method string, params, result any) error {
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return errors.New("chromium has ended")
	}
	b.last++
	id, waiting := b.last, make(chan answer, 1)
	b.waiting[id] = waiting
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": session})
	if session == "" && err == nil {
		text, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case one, open := <-waiting:
		switch {
		case !open:
			return fmt.Errorf("%s: chromium has ended", method)
		case one.Error != nil:
			return fmt.Errorf("%s: %s", method, one.Error.Message)
		case result != nil:
			return json.Unmarshal(one.Result, result)
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s: no answer within %s", method, patience)
	}
}

// Page is a tab.
type Page struct {
	b       *Browser
	session string
	// The browser's mu guards these.
	loaded chan struct{}
	errors []string
}

// Open opens an empty tab.
func (b *Browser) Open() *Page {
	b.t.Helper()
	var target struct{ TargetID string }
	var session struct{ SessionID string }
	b.must(b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target))
	b.must(b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session))
	p := &Page{b: b, session: session.SessionID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.call(domain+".enable", nil, nil)
	}
	return p
}

func (b *Browser) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("driving Chromium: %v", err)
	}
}

func (p *Page) call(method string, params, result any) {
	p.b.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	p.b.must(p.b.call(p.session, method, params, result))
}

// note takes in an event. The caller has the browser's lock.
func (p *Page) note(event answer) {
	switch event.Method {
	case "Page.loadEventFired":
		if p.loaded != nil {
			close(p.loaded)
			p.loaded = nil
		}
	case "Log.entryAdded", "Runtime.exceptionThrown":
		p.errors = append(p.errors, string(event.Params))
	}
}

// Errors are what the page has logged, such as a breach of its policy, and the exceptions that nobody caught.
func (p *Page) Errors() []string {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	return append([]string{}, p.errors...)
}

// Resize gives the window a size, and the colours of a scheme: light or dark.
func (p *Page) Resize(width, height int, scheme string) {
	p.b.t.Helper()
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Visit loads an address.
func (p *Page) Visit(address string) {
	p.b.t.Helper()
	loaded := make(chan struct{})
	p.b.mu.Lock()
	p.loaded, p.errors = loaded, nil
	p.b.mu.Unlock()
	p.call("Page.navigate", map[string]any{"url": address}, nil)
	select {
	case <-loaded:
	case <-time.After(patience):
		p.b.t.Fatalf("%s has not loaded within %s", address, patience)
	}
}

// Evaluate evaluates an expression on the page, and waits for it if it is a promise. result may be nil.
func (p *Page) Evaluate(expression string, result any) {
	p.b.t.Helper()
	var found struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &found)
	if found.ExceptionDetails != nil {
		p.b.t.Fatalf("evaluating %.200s: %s %s", expression, found.ExceptionDetails.Text, found.ExceptionDetails.Exception.Description)
	}
	if result != nil && len(found.Result.Value) > 0 {
		p.b.must(json.Unmarshal(found.Result.Value, result))
	}
}

// Press presses a key, such as Tab or Enter.
func (p *Page) Press(key string) {
	p.b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13}
	event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		event["text"] = "\r"
	}
	p.call("Input.dispatchKeyEvent", event, nil)
	p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// Type types a text into what has the focus.
func (p *Page) Type(text string) {
	p.b.t.Helper()
	p.call("Input.insertText", map[string]any{"text": text}, nil)
}

// TrustAnyCertificate lets the tab load addresses whose certificate no authority has signed that Chromium knows.
func (p *Page) TrustAnyCertificate() {
	p.b.t.Helper()
	p.call("Security.setIgnoreCertificateErrors", map[string]any{"ignore": true}, nil)
}

// Screenshot writes what the window shows to a file.
func (p *Page) Screenshot(path string) {
	p.b.t.Helper()
	var shot struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	image, err := base64.StdEncoding.DecodeString(shot.Data)
	p.b.must(err)
	const permissions = 0o644
	p.b.must(os.WriteFile(path, image, permissions))
}

// Check returns what axe-core finds on the page, a line each.
func (p *Page) Check() (findings []string) {
	p.b.t.Helper()
	p.Evaluate(axe+"; undefined", nil)
	var found []struct {
		ID, Help string
		Nodes    []struct{ HTML, FailureSummary string }
	}
	p.Evaluate(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => ({ID: v.id, Help: v.help, Nodes: v.nodes.slice(0, 3).map(n => ({HTML: n.html, FailureSummary: n.failureSummary}))})))`, &found)
	for _, one := range found {
		for _, node := range one.Nodes {
			findings = append(findings, fmt.Sprintf("%s: %s: %.300s: %s", one.ID, one.Help, node.HTML, strings.Join(strings.Fields(node.FailureSummary), " ")))
		}
	}
	return findings
}
