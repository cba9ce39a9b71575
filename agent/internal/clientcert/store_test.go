package clientcert

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func stored(g *WithT, dir *Dir) Contents {
	contents, err := dir.Load(context.Background())
	g.Expect(err).NotTo(HaveOccurred())
	return contents
}

func files(g *WithT, path string) []string {
	entries, err := os.ReadDir(path)
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestDirHoldsExactlyWhatWasSaved(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "a", "b")
	dir, err := NewDir(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stored(g, dir)).To(BeEmpty())
	first := Contents{privateKeyKey: []byte("k"), certificateKey: []byte("c"), pendingKey: []byte("p"), kubeconfigKey: []byte("f")}
	g.Expect(dir.Save(t.Context(), first)).To(Succeed())
	g.Expect(stored(g, dir)).To(Equal(first))
	second := Contents{tokenKey: []byte("t"), kubeconfigKey: []byte("g")}
	g.Expect(dir.Save(t.Context(), second)).To(Succeed())
	g.Expect(stored(g, dir)).To(Equal(second))
	g.Expect(files(g, path)).To(ConsistOf(tokenKey, kubeconfigKey), "no temporary file is left")
	info, err := os.Stat(filepath.Join(path, tokenKey))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
}

// A process may die between any two of the writes of a Save. What is there must be of use at every moment.
func TestACrashWhileSavingCostsNoCredential(t *testing.T) {
	authority := newAuthority(t)
	user, group := v1alpha1.AgentUserPrefix+"c1", v1alpha1.AgentGroupPrefix+"c1"
	oldCertificate, oldKey := authority.client(t, user, group)
	newCertificate, newKey := authority.client(t, user, group)
	before := Contents{certificateKey: oldCertificate, privateKeyKey: oldKey, pendingKey: newKey, kubeconfigKey: []byte("k")}
	after := Contents{certificateKey: newCertificate, privateKeyKey: newKey, kubeconfigKey: []byte("k")}
	state := maps.Clone(before)
	check := func(what string) {
		t.Helper()
		read, found, err := state.readCredential("c1")
		if err != nil || !found {
			t.Errorf("after %s: found %t, %v", what, found, err)
		}
		if string(read.Certificate) != string(state[certificateKey]) {
			t.Errorf("after %s: another certificate", what)
		}
	}
	check("nothing")
	for _, name := range names {
		if len(after[name]) > 0 {
			state[name] = after[name]
			check("writing " + name)
		}
	}
	for _, name := range names {
		if len(after[name]) == 0 {
			delete(state, name)
			check("removing " + name)
		}
	}
	if !slices.Contains(names, pendingKey) {
		t.Error("the test looks at the wrong names")
	}
}

func TestCredentialOfAnotherClusterIsRefused(t *testing.T) {
	authority := newAuthority(t)
	for name, subject := range map[string][2]string{
		"another cluster":    {v1alpha1.AgentUserPrefix + "c2", v1alpha1.AgentGroupPrefix + "c2"},
		"a longer name":      {v1alpha1.AgentUserPrefix + "c11", v1alpha1.AgentGroupPrefix + "c1"},
		"another's group":    {v1alpha1.AgentUserPrefix + "c1", v1alpha1.AgentGroupPrefix + "c2"},
		"nothing of the hub": {"admin", "system:masters"},
	} {
		certificate, key := authority.client(t, subject[0], subject[1])
		if _, err := fromCertificate("c1", certificate, key); err == nil || !strings.Contains(err.Error(), "want user") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
