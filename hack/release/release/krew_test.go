package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// krewPrograms builds krew and its validator, and kubectl as the script that the validator finds krew by.
func krewPrograms(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", directory+"/", "sigs.k8s.io/krew/cmd/krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building krew: %v\n%s", err, output)
	}
	write(t, directory, map[string]string{"kubectl": "#!/bin/sh\nshift\nexec " + directory + "/krew \"$@\"\n"}, 0o700)
	return directory
}

// Claim: krew's own validator takes the manifest, and krew installs each platform's archive by it. Broken: another sum; a second entry for a platform; the licence left out of archives; the name of the program without .exe.
func TestKrewTakesTheManifest(t *testing.T) {
	g, out := NewWithT(t), filepath.Join(t.TempDir(), "out")
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer server.Close()
	arguments := append(pluginOf(smallRepository(t, ""), out), "--download", server.URL)
	g.Expect(runRelease(t.Context(), arguments, io.Discard)).To(Succeed())

	programs := krewPrograms(t)
	validate := func(manifest string) (string, error) {
		command := exec.CommandContext(t.Context(), filepath.Join(programs, "validate-krew-manifest"), "-manifest", manifest)
		command.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
		output, err := command.CombinedOutput()
		return string(output), err
	}
	manifest := filepath.Join(out, krewFile)
	output, err := validate(manifest)
	g.Expect(err).NotTo(HaveOccurred(), output)
	g.Expect(output).To(ContainSubstring("all 2 spec.platforms installed fine"))

	bad := filepath.Join(t.TempDir(), krewFile)
	g.Expect(os.WriteFile(bad, []byte(strings.Replace(read(t, manifest), "version: v0.1.0", "version: 0.1.0", 1)), 0o600)).To(Succeed())
	output, err = validate(bad)
	g.Expect(err).To(HaveOccurred())
	g.Expect(output).To(ContainSubstring("failed to parse plugin version"))
}
