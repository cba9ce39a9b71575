package pki_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pki"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

type files struct{ cert, key string }

func filesIn(dir, name string) files {
	return files{filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")}
}

func newAuthority(t *testing.T, dir string) *pki.Authority {
	t.Helper()
	ca := filesIn(dir, "ca")
	authority, err := pki.LoadOrCreateAuthority(ca.cert, ca.key, "test-ca", now)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func TestAuthorityIsKept(t *testing.T) {
	dir := t.TempDir()
	first := newAuthority(t, dir)
	second := newAuthority(t, dir)
	if !first.Certificate.Equal(second.Certificate) {
		t.Error("the second load made another authority")
	}
	pair, err := second.Issue(pki.Request{CommonName: "u", Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Certificate.CheckSignatureFrom(first.Certificate); err != nil {
		t.Errorf("the reloaded authority's signature: %v", err)
	}
}

func TestHalfAnAuthorityIsAnError(t *testing.T) {
	for _, missing := range []string{"ca.crt", "ca.key"} {
		dir := t.TempDir()
		newAuthority(t, dir)
		if err := os.Remove(filepath.Join(dir, missing)); err != nil {
			t.Fatal(err)
		}
		ca := filesIn(dir, "ca")
		if _, err := pki.LoadOrCreateAuthority(ca.cert, ca.key, "test-ca", now); err == nil {
			t.Errorf("without %s a new authority was made", missing)
		}
	}
}

func TestKeysAreForTheOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	authority := newAuthority(t, dir)
	leaf := filesIn(dir, "leaf")
	if _, err := authority.EnsurePair(leaf.cert, leaf.key, pki.Request{CommonName: "u", Lifetime: time.Hour}, 0, now); err != nil {
		t.Fatal(err)
	}
	if err := pki.EnsureServiceAccountKeys(filepath.Join(dir, "sa.key"), filepath.Join(dir, "sa.pub")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.key", "leaf.key", "sa.key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, info.Mode().Perm())
		}
	}
}

func TestServingCertificateIsAcceptedForItsHostsOnly(t *testing.T) {
	authority := newAuthority(t, t.TempDir())
	pair, err := authority.Issue(pki.Request{CommonName: "server", Hosts: []string{"127.0.0.1", "localhost"}, Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority.Certificate)
	for host, want := range map[string]bool{"127.0.0.1": true, "localhost": true, "127.0.0.2": false, "example.org": false} {
		_, err := pair.Certificate.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if (err == nil) != want {
			t.Errorf("host %s: accepted %t, want %t (%v)", host, err == nil, want, err)
		}
	}
	if _, err := pair.Certificate.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("a serving certificate can be used as a client's")
	}
}

func TestIssueRefuses(t *testing.T) {
	authority := newAuthority(t, t.TempDir())
	for name, test := range map[string]struct {
		request pki.Request
		want    string
	}{
		"no name":          {pki.Request{Lifetime: time.Hour}, "common name is empty"},
		"no lifetime":      {pki.Request{CommonName: "u"}, "not positive"},
		"outlives the CA":  {pki.Request{CommonName: "u", Lifetime: 20 * 365 * 24 * time.Hour}, "ends after the cluster's authority"},
		"negative ":        {pki.Request{CommonName: "u", Lifetime: -time.Hour}, "not positive"},
		"overflowing time": {pki.Request{CommonName: "u", Lifetime: 1<<63 - 1}, "ends after"},
	} {
		if _, err := authority.Issue(test.request, now); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
}

func TestEnsurePairKeepsWhatIsStillRight(t *testing.T) {
	base := pki.Request{CommonName: "u", Groups: []string{"b", "a"}, Hosts: []string{"127.0.0.1", "localhost"}, Lifetime: 100 * time.Hour}
	other := newAuthority(t, t.TempDir())
	for name, test := range map[string]struct {
		change func(*pki.Request)
		after  time.Duration
		other  bool
		kept   bool
	}{
		"nothing changed":         {kept: true},
		"order of groups changed": {change: func(r *pki.Request) { r.Groups = []string{"a", "b"} }, kept: true},
		"long before its end":     {after: 89 * time.Hour, kept: true},
		"near its end":            {after: 91 * time.Hour},
		"before its time":         {after: -10 * time.Hour},
		"name changed":            {change: func(r *pki.Request) { r.CommonName = "v" }},
		"group added":             {change: func(r *pki.Request) { r.Groups = []string{"a", "b", "c"} }},
		"address changed":         {change: func(r *pki.Request) { r.Hosts = []string{"127.0.0.2", "localhost"} }},
		"no hosts any more":       {change: func(r *pki.Request) { r.Hosts = nil }},
		"another authority":       {other: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			authority, leaf := newAuthority(t, dir), filesIn(dir, "leaf")
			first, err := authority.EnsurePair(leaf.cert, leaf.key, base, 10*time.Hour, now)
			if err != nil {
				t.Fatal(err)
			}
			request := base
			if test.change != nil {
				test.change(&request)
			}
			if test.other {
				authority = other
			}
			second, err := authority.EnsurePair(leaf.cert, leaf.key, request, 10*time.Hour, now.Add(test.after))
			if err != nil {
				t.Fatal(err)
			}
			if kept := first.Certificate.Equal(second.Certificate); kept != test.kept {
				t.Errorf("kept %t, want %t", kept, test.kept)
			}
		})
	}
}

func TestEnsurePairReplacesABrokenFile(t *testing.T) {
	dir := t.TempDir()
	authority, leaf := newAuthority(t, dir), filesIn(dir, "leaf")
	request := pki.Request{CommonName: "u", Lifetime: time.Hour}
	if err := os.WriteFile(leaf.cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := authority.EnsurePair(leaf.cert, leaf.key, request, 0, now)
	if err != nil {
		t.Fatal(err)
	}
	// A key that belongs to another certificate is as useless as none.
	stranger, err := authority.Issue(request, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(leaf.key, stranger.KeyPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := authority.EnsurePair(leaf.cert, leaf.key, request, 0, now)
	if err != nil {
		t.Fatal(err)
	}
	if first.Certificate.Equal(second.Certificate) {
		t.Error("a certificate with another's key was kept")
	}
}

func TestServiceAccountKeysAreKept(t *testing.T) {
	dir := t.TempDir()
	private, public := filepath.Join(dir, "sa.key"), filepath.Join(dir, "sa.pub")
	var contents [2]string
	for i := range contents {
		if err := pki.EnsureServiceAccountKeys(private, public); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(private)
		if err != nil {
			t.Fatal(err)
		}
		contents[i] = string(content)
	}
	if contents[0] != contents[1] {
		t.Error("the second call replaced the key, which makes all tokens invalid")
	}
}
