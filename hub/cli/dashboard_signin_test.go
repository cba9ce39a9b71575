package cli_test

import (
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/gomega"

	chromium "github.com/hollowfleet/hollowfleet/internal/dev/browser"
)

// windows are those in which pages are looked at.
var windows = []struct {
	width, height int
	scheme        string
}{{1280, 900, "light"}, {1280, 900, "dark"}, {360, 740, "light"}, {360, 740, "dark"}, {3840, 2160, "light"}, {3840, 2160, "dark"}}

// checkPage finds what is wrong with the page that a tab shows: for accessibility, and for windows of all sizes.
func (f *env) checkPage(page *chromium.Page, name string) {
	f.T.Helper()
	for _, window := range windows {
		at := fmt.Sprintf("%s at %d px, %s", name, window.width, window.scheme)
		page.Resize(window.width, window.height, window.scheme)
		for _, finding := range page.Check() {
			f.T.Errorf("%s: %s", at, finding)
		}
		wide := 0
		page.Evaluate("document.documentElement.scrollWidth", &wide)
		f.Expect(wide).To(BeNumerically("<=", window.width), at)
	}
}

// Claim: The sign-in page of a served dashboard works by keyboard and has no findings of axe-core, also with the message about a wrong token, from 360 px to 4K in light and dark. Broken: a field without a label; a message that no screen reader reads; an input wider than the window.
func TestSigningInByKeyboard(t *testing.T) {
	if testing.Short() && os.Getenv(chromium.RequiredVariable) == "" {
		t.Skip("it needs a browser")
	}
	started := chromium.Start(t)
	f := newEnv(t)
	cluster := f.AcceptedCluster()
	f.namespace()
	token, _ := f.twoUsers()
	i := f.newIssuer()
	i.project(2)
	page := started.Open()
	page.TrustAnyCertificate()
	page.Resize(1280, 900, "light")
	address := "https://" + i.serveDashboard()
	page.Visit(address + "/")
	read := func(expression string) func() string {
		return func() (text string) {
			page.Evaluate(expression, &text)
			return text
		}
	}
	f.Expect(read("document.title")()).To(Equal("Sign in · Hollowfleet"))
	f.checkPage(page, "sign-in")

	// A wrong token: the message is announced, belongs to the field, and the field has the focus again.
	f.Expect(read("document.activeElement.id")()).To(Equal("token"))
	page.Type("wrong")
	page.Press("Enter")
	f.Eventually(read("document.querySelector('[role=alert]')?.textContent || ''")).WithTimeout(patience).Should(ContainSubstring("does not take this token"))
	f.Expect(read("document.getElementById(document.activeElement.getAttribute('aria-describedby') || 'none')?.textContent || ''")()).To(ContainSubstring("does not take this token"))
	f.Expect(read("document.body.innerText")()).NotTo(ContainSubstring("wrong"))
	f.checkPage(page, "sign-in with a wrong token")

	page.Resize(1280, 900, "light")
	page.Type(token)
	page.Press("Tab")
	f.Expect(read("document.activeElement.id")()).To(Equal("namespace"))
	page.Press("Tab")
	f.Expect(read("document.activeElement.tagName")()).To(Equal("BUTTON"))
	page.Press("Enter")
	f.Eventually(read("document.body.innerText")).WithTimeout(patience).Should(And(ContainSubstring("system:serviceaccount:"+f.name+":ann"), ContainSubstring(cluster.Name)))
	f.checkPage(page, "signed in")
	f.Expect(read("document.cookie")()).To(BeEmpty(), "no script reads the cookie")
	page.Evaluate("document.querySelector('form.user button').focus()", nil)
	page.Press("Enter")
	f.Eventually(read("document.title")).WithTimeout(patience).Should(Equal("Sign in · Hollowfleet"))
	page.Visit(address + "/")
	f.Expect(read("document.title")()).To(Equal("Sign in · Hollowfleet"), "who has signed out is not let in again")

	page.Visit(address + "/namespaces/Not_One/")
	f.Expect(read("document.title")()).To(Equal("Not found"))
	f.checkPage(page, "a page that is refused")
}
