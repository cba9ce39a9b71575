package cli_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/hub/cli/dashboard"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// portal is a dashboard for many users.
type portal struct {
	*env
	address string
}

// openPortal starts one, which ends with the test.
func (f *env) openPortal(change func(*dashboard.ServeOptions)) *portal {
	f.T.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	f.Expect(err).NotTo(HaveOccurred())
	authority := filepath.Join(f.T.TempDir(), "ca.crt")
	f.Expect(os.WriteFile(authority, testenv.Server().Config.CAData, 0o600)).To(Succeed())
	o := dashboard.ServeOptions{Listener: listener, APIServer: testenv.Server().Config.Host, CAFile: authority}
	if change != nil {
		change(&o)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(f.T.Context()))
	ended := make(chan error, 1)
	go func() { ended <- dashboard.Serve(ctx, o) }()
	f.T.Cleanup(func() {
		end()
		f.Expect(<-ended).To(MatchError(context.Canceled))
	})
	return &portal{f, "http://" + listener.Addr().String()}
}

// newAccount makes a ServiceAccount in the env's namespace, and a token of it.
func (f *env) newAccount(name string) (subject rbacv1.Subject, token string) {
	f.T.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: name}}
	f.ExpectApplied(account)
	request := &authenticationv1.TokenRequest{}
	f.Expect(f.Client.SubResource("token").Create(f.T.Context(), account, request)).To(Succeed())
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: f.name, Name: name}, request.Status.Token
}

// visitor is a browser at a portal.
type visitor struct {
	*portal
	http.Client
	// bearer is what a proxy sends along; empty for none.
	bearer string
}

func (p *portal) newVisitor() *visitor {
	jar := &insecureJar{}
	jar.Jar, _ = cookiejar.New(nil)
	return &visitor{portal: p, Client: http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// insecureJar sends its cookies without TLS too, as browsers do to their own machine.
type insecureJar struct{ *cookiejar.Jar }

// SetCookies implements http.CookieJar.
func (j *insecureJar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	for _, cookie := range cookies {
		cookie.Secure = false
	}
	j.Jar.SetCookies(u, cookies)
}

// ask asks as a browser on a page of the portal does.
func (v *visitor) ask(method, path string, form url.Values, change func(*http.Request)) (int, string, http.Header) {
	v.T.Helper()
	r, err := http.NewRequestWithContext(v.T.Context(), method, v.address+path, strings.NewReader(form.Encode()))
	v.Expect(err).NotTo(HaveOccurred())
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", v.address)
	}
	if v.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+v.bearer)
	}
	if change != nil {
		change(r)
	}
	response, err := v.Do(r)
	v.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	v.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(text), response.Header
}

// shows returns what is on a page that has to be there.
func (v *visitor) shows(path string) func() string {
	return func() string {
		code, text, _ := v.ask(http.MethodGet, path, nil, nil)
		if code != http.StatusOK {
			return ""
		}
		return text
	}
}

// codeOf is the status of a page.
func (v *visitor) codeOf(path string) func() int {
	return func() int {
		code, _, _ := v.ask(http.MethodGet, path, nil, nil)
		return code
	}
}

// twoUsers are accounts in the env's namespace with different rights: ann reads all of a fleet, and ben that namespace alone.
func (f *env) twoUsers() (ann, ben string) {
	f.T.Helper()
	f.Expect(config.Apply(f.T.Context(), f.Client, config.RBAC, "rbac/users")).To(Succeed())
	one, ann := f.newAccount("ann")
	two, ben := f.newAccount("ben")
	viewer := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hollowfleet-viewer"}
	f.ExpectApplied(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name()}, RoleRef: viewer, Subjects: []rbacv1.Subject{one}})
	f.ExpectApplied(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "ben"}, RoleRef: viewer, Subjects: []rbacv1.Subject{two}})
	return ann, ben
}

// Claim: A dashboard that is served for many users shows each what their own token may read, and nobody anything without one. Broken: a page shown from another user's visit; a client with the program's own rights; a revoked token still shown something.
func TestEachUserOfAServedDashboardSeesTheirOwnPart(t *testing.T) {
	f := newEnv(t)
	secret := f.AcceptedCluster() // Ben may not read of it.
	f.deployment(1)
	annToken, benToken := f.twoUsers()
	p := f.openPortal(nil)

	nobody := p.newVisitor()
	for _, path := range []string{"/", "/clusters/" + secret.Name, "/live?page=", "/assets/dashboard.js", "/namespaces/" + f.name + "/"} {
		code, text, _ := nobody.ask(http.MethodGet, path, nil, nil)
		f.Expect(code).To(Equal(http.StatusUnauthorized), path)
		f.Expect(text).NotTo(ContainSubstring(secret.Name), path)
	}
	nobody.bearer = annToken[:len(annToken)-4] + "AAAA"
	f.Expect(nobody.codeOf("/")()).To(Equal(http.StatusUnauthorized))

	ann, ben := p.newVisitor(), p.newVisitor()
	code, _, header := ann.ask(http.MethodPost, "/login", url.Values{"token": {annToken}}, nil)
	f.Expect(code).To(Equal(http.StatusSeeOther))
	f.Expect(header.Get("Location")).To(Equal("/"))
	f.Expect(header.Get("Set-Cookie")).To(And(HavePrefix("__Host-hollowfleet="), ContainSubstring("HttpOnly"), ContainSubstring("Secure"),
		ContainSubstring("SameSite=Strict"), Not(ContainSubstring(annToken))))
	ben.bearer = benToken
	f.Eventually(ann.shows("/?q=" + secret.Name)).WithTimeout(patience).Should(And(
		ContainSubstring("clusters/"+secret.Name), ContainSubstring("system:serviceaccount:"+f.name+":ann")))
	f.Eventually(ben.shows("/")).WithTimeout(patience).Should(And(ContainSubstring("Clusters are not known"), ContainSubstring("system:serviceaccount:"+f.name+":ben"),
		ContainSubstring("open /namespaces/NAMESPACE/ here")))
	f.Expect(ben.shows("/")()).NotTo(ContainSubstring(secret.Name))
	f.Expect(ben.codeOf("/clusters/" + secret.Name)()).NotTo(Equal(http.StatusOK))
	inside := "/namespaces/" + f.name + "/"
	f.Eventually(ben.shows(inside + "clusters/" + f.name)).WithTimeout(patience).Should(And(
		ContainSubstring("Only namespace "+f.name+" is shown"), ContainSubstring("you may not read this Cluster"), ContainSubstring("</span> workers")))
	f.Expect(ben.shows(inside)()).To(And(ContainSubstring(`href="`+inside+`clusters/`+f.name+`"`), Not(ContainSubstring(secret.Name))))
	f.Eventually(ben.shows("/namespaces/" + secret.Name + "/")).WithTimeout(patience).Should(ContainSubstring("Machine: not checked: you may not list them"))
	f.Expect(ben.codeOf("/namespaces/..%2f/")()).To(Equal(http.StatusNotFound))

	// Who signs out, and whose token is revoked, sees nothing more.
	code, _, _ = ann.ask(http.MethodPost, "/logout", nil, nil)
	f.Expect(code).To(Equal(http.StatusSeeOther))
	f.Expect(ann.codeOf("/")()).To(Equal(http.StatusUnauthorized))
	f.ExpectDeleted(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "ben"}})
	f.Eventually(ben.codeOf(inside)).WithTimeout(patience).Should(Equal(http.StatusUnauthorized))
}

// Claim: A dashboard that is served for many users changes nothing unless its administrator allows it, the user may, and their own page asks for it. Broken: --allow-changes not asked; a form that a read-only dashboard did not offer taken; a form of another site taken.
func TestAServedDashboardIsReadOnly(t *testing.T) {
	f := newFleetEnv(t)
	f.settle()
	f.namespace()
	annToken, _ := f.twoUsers()
	editor, token := f.newAccount("editor")
	f.ExpectApplied(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name()}, Subjects: []rbacv1.Subject{editor},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hollowfleet-editor"}})
	page := "/fleets/" + f.name
	paused := func() bool {
		fleet := &v1alpha1.MachineFleet{}
		f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
		return fleet.Spec.Paused
	}
	still := f.openPortal(nil).newVisitor()
	still.bearer = token
	f.Eventually(still.shows(page)).WithTimeout(patience).Should(And(ContainSubstring("Wave 1"), Not(ContainSubstring("Pause…"))))
	code, text, _ := still.ask(http.MethodPost, page+"/pause", url.Values{"generation": {"1"}, "rollout": {"1"}}, nil)
	f.Expect(code).To(Equal(http.StatusConflict), text)
	f.Expect(text).To(ContainSubstring("read-only"))

	p := f.openPortal(func(o *dashboard.ServeOptions) { o.AllowChanges = true })
	ann, ed := p.newVisitor(), p.newVisitor()
	ann.bearer, ed.bearer = annToken, token
	f.Eventually(ed.shows(page)).WithTimeout(patience).Should(ContainSubstring("Pause…"))
	form := fieldsOf(ed.shows(page + "/pause")())
	f.Expect(form).To(HaveKey("generation"))
	f.Eventually(ann.shows(page)).WithTimeout(patience).Should(ContainSubstring("You may not pause it"))
	code, text, _ = ann.ask(http.MethodPost, page+"/pause", form, nil)
	f.Expect(code).To(Equal(http.StatusConflict), text)
	for name, change := range map[string]func(*http.Request){
		"another site":      func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"no origin":         func(r *http.Request) { r.Header.Del("Origin") },
		"a site beside":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"an unknown origin": func(r *http.Request) { r.Header.Set("Origin", "null") },
	} {
		code, text, _ = ed.ask(http.MethodPost, page+"/pause", form, change)
		f.Expect(code).To(Equal(http.StatusForbidden), name+": "+text)
	}
	f.Expect(paused()).To(BeFalse())
	code, text, _ = ed.ask(http.MethodPost, page+"/pause", form, nil)
	f.Expect(code).To(Equal(http.StatusOK), text)
	f.Expect(paused()).To(BeTrue())
}

// Claim: A served dashboard takes bad input without a trace, and refuses more users than it has room for. Broken: a token with spaces sent on; the ninth user shown a page while eight look.
func TestBadInputOfAServedDashboard(t *testing.T) {
	f := newEnv(t)
	f.namespace()
	annToken, benToken := f.twoUsers()
	p := f.openPortal(func(o *dashboard.ServeOptions) { o.MostUsers = 1 })
	nobody := p.newVisitor()
	for name, c := range map[string]struct {
		form url.Values
		want int
		says string
	}{
		"no token":        {url.Values{}, 400, "Enter a token"},
		"two words":       {url.Values{"token": {"a b"}}, 400, "Enter a token"},
		"unknown token":   {url.Values{"token": {"abc"}}, 401, "does not take this token"},
		"bad namespace":   {url.Values{"token": {annToken}, "namespace": {"../x"}}, 400, "cannot be the name of a namespace"},
		"markup":          {url.Values{"token": {"abc"}, "namespace": {`"><script>`}}, 400, "&lt;script&gt;"},
		"very long token": {url.Values{"token": {strings.Repeat("a", 1<<20)}}, 400, "Enter a token"},
	} {
		code, text, header := nobody.ask(http.MethodPost, "/login", c.form, nil)
		f.Expect(code).To(Equal(c.want), name)
		f.Expect(text).To(And(ContainSubstring(c.says), Not(ContainSubstring("<script>"))), name)
		f.Expect(header.Get("Set-Cookie")).To(BeEmpty(), name)
		f.Expect(header.Get("Content-Security-Policy")).To(ContainSubstring("default-src 'none'"), name)
	}
	f.Expect(nobody.codeOf("/healthz")()).To(Equal(200))
	f.Expect(nobody.codeOf("/login")()).To(Equal(200))

	ann, ben := p.newVisitor(), p.newVisitor()
	ann.bearer, ben.bearer = annToken, benToken
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.address+"/live?page=", nil)
	f.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Authorization", "Bearer "+annToken)
	stream, err := http.DefaultClient.Do(r)
	f.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = stream.Body.Close() }()
	f.Expect(stream.StatusCode).To(Equal(200))
	code, text, _ := ben.ask(http.MethodGet, "/", nil, nil)
	f.Expect(code).To(Equal(http.StatusServiceUnavailable))
	f.Expect(text).To(ContainSubstring("Too many users"))
	leave()
	f.Eventually(ben.codeOf("/")).WithTimeout(patience).Should(Equal(200))

	silent := f.openPortal(func(o *dashboard.ServeOptions) { o.APIServer = "https://127.0.0.1:1" }).newVisitor()
	code, text, _ = silent.ask(http.MethodPost, "/login", url.Values{"token": {annToken}}, nil)
	f.Expect(code).To(Equal(http.StatusBadGateway))
	f.Expect(text).To(And(ContainSubstring("cannot be asked"), Not(ContainSubstring(annToken))))
}
