package dashboard

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/htmlpage"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
)

// cookieName is that of the cookie of who has signed in. A browser takes this prefix only with TLS, and for this address alone.
const cookieName = "__Host-hollowfleet"

// mostToken is how long a token may be.
const mostToken = 64 << 10

// scopeOf is a namespace, or all.
func scopeOf(namespace string) overview.Scope { return overview.Scope{Namespace: namespace} }

// signInPage asks for a token.
type signInPage struct{ Namespace, Problem string }

func showSignIn(w http.ResponseWriter, status int, namespace, problem string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = htmlpage.Execute(templates, w, "signin.tmpl", signInPage{namespace, problem})
}

// tokenOf is the token of a request, and whose it is if that is known. One that a proxy sends along comes first.
func (p *portal) tokenOf(r *http.Request) (token, user string) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && token != "" {
		return token, ""
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return "", ""
	}
	return p.find(cookie.Value)
}

// signIn takes a token, if the API server knows it.
func (p *portal) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostToken)
	token, namespace := strings.TrimSpace(r.PostFormValue("token")), strings.TrimSpace(r.PostFormValue("namespace"))
	switch {
	case token == "" || strings.ContainsAny(token, " \t\r\n"):
		showSignIn(w, http.StatusBadRequest, namespace, "Enter a token: one word, without spaces.")
		return
	case namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0:
		showSignIn(w, http.StatusBadRequest, namespace, "This cannot be the name of a namespace: use lower-case letters, digits and '-'.")
		return
	}
	hub, c, err := p.connect(token, namespace)
	user := ""
	if err == nil {
		user, err = p.review(r.Context(), hub, c)
	}
	switch {
	case isUnknownToken(err):
		showSignIn(w, http.StatusUnauthorized, namespace, unknownToken)
		return
	case err != nil:
		showSignIn(w, http.StatusBadGateway, namespace, "The hub's API server cannot be asked: "+cmdutil.Printable(err.Error()))
		return
	}
	id, err := newToken()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Signing in has failed", err.Error())
		return
	}
	p.remember(id, token, user)
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, baseOf(namespace), http.StatusSeeOther)
}

// signOut forgets the token of a cookie, and ends what was shown for it.
func (p *portal) signOut(w http.ResponseWriter, r *http.Request) {
	if token, _ := p.tokenOf(r); token != "" {
		p.forget(hashOf(token))
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
