package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// docker answers as Docker does where it runs two kind clusters, of which dev has one node. What is loaded into it becomes a
// file.
const docker = `#!/bin/sh
case "$*" in
-v) echo "Docker version 29.0.0, build 0000000" ;;
*"ps "*"io.x-k8s.kind.cluster=dev "*) echo dev-control-plane ;;
*"ps "*"io.x-k8s.kind.cluster=broken "*) echo "Cannot connect to the Docker daemon" >&2; exit 1 ;;
*"ps "*"io.x-k8s.kind.cluster="*) ;;
*"ps "*) echo dev; echo other ;;
inspect*) echo control-plane ;;
*"containerd config dump") printf 'version = 3\n[plugins."io.containerd.cri.v1.images"]\nsnapshotter = "overlayfs"\n' ;;
*"dev-control-plane ctr --namespace=k8s.io images import "*) exec cat >"${0%/*}/loaded.$(date +%s%N)" ;;
*) echo "unexpected: docker $*" >&2; exit 1 ;;
esac
`

// Claim: `make images-load` names what is missing. Broken: a cluster without nodes is no error. Also: TestLoadWithoutAnEngine.
func TestLoad(t *testing.T) {
	g := NewWithT(t)
	bin, from := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, image := range []string{"hub", "agent"} {
		g.Expect(os.WriteFile(filepath.Join(from, image+".tar"), []byte("the archive of "+image), 0o600)).To(Succeed())
	}
	g.Expect(os.WriteFile(filepath.Join(bin, "docker"), []byte(docker), 0o700)).To(Succeed())

	var out bytes.Buffer
	g.Expect(run([]string{"load", "--kind", "dev", "--from", from, "--only", "hub,agent"}, &out)).To(Succeed())
	g.Expect(out.String()).To(Equal("loaded " + from + "/hub.tar into dev-control-plane\nloaded " + from + "/agent.tar into dev-control-plane\n"))
	loaded, err := filepath.Glob(filepath.Join(bin, "loaded.*"))
	g.Expect(err).NotTo(HaveOccurred())
	var contents []string
	for _, file := range loaded {
		contents = append(contents, string(read(t, file)))
	}
	g.Expect(contents).To(Equal([]string{"the archive of hub", "the archive of agent"}))

	g.Expect(run([]string{"load", "--kind", "test", "--from", from, "--only", "hub"}, &out)).To(MatchError(
		"kind has no cluster test, there are dev, other: create it with 'kind create cluster --name test', or name another one with KIND="))
	g.Expect(run([]string{"load", "--kind", "broken", "--from", from, "--only", "hub"}, &out)).To(MatchError(
		ContainSubstring("is the engine running, and may this user use it?")))
}

func TestLoadWithoutAnEngine(t *testing.T) {
	g := NewWithT(t)
	from := t.TempDir()
	t.Setenv("PATH", t.TempDir())
	g.Expect(os.WriteFile(filepath.Join(from, "hub.tar"), nil, 0o600)).To(Succeed())
	g.Expect(run([]string{"load", "--from", from, "--only", "hub"}, os.Stdout)).To(MatchError(
		HavePrefix("no container engine answers (docker, nerdctl or podman), and a kind cluster runs in one")))
}
