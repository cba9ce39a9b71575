package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	. "github.com/onsi/gomega"
)

var testBuild = build{version: "v1.2.3", revision: "0123456789abcdef", created: time.Unix(1795649554, 0).UTC()}

// testProgram is this test: a Go program that is linked as ours are.
func testProgram(t *testing.T) (program, string) {
	t.Helper()
	file, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return program{name: "hub", title: "T", description: "D", roots: true, temporary: true}, file
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Claim: Same program, same image and SBOM. Broken: files with the time of the build.
func TestTheSameProgramGivesTheSameImage(t *testing.T) {
	g := NewWithT(t)
	p, file := testProgram(t)
	first, second, other := t.TempDir(), t.TempDir(), t.TempDir()
	one, err := testBuild.writeImage(p, file, first)
	g.Expect(err).NotTo(HaveOccurred())

	copied := filepath.Join(t.TempDir(), filepath.Base(file))
	content := read(t, file)
	g.Expect(os.WriteFile(copied, content, 0o700)).To(Succeed(), "later, with another mode, from another directory")
	two, err := testBuild.writeImage(p, copied, second)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(two.digest).To(Equal(one.digest))
	g.Expect(bytes.Equal(read(t, two.archive), read(t, one.archive))).To(BeTrue(), "the archives are the same, byte for byte")
	g.Expect(bytes.Equal(read(t, two.materials), read(t, one.materials))).To(BeTrue(), "and so are the SBOMs")

	g.Expect(os.WriteFile(copied, append(content, 0), 0o700)).To(Succeed())
	three, err := testBuild.writeImage(p, copied, other)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(three.digest).NotTo(Equal(one.digest), "of a program with one byte more")
}

// files are what a container of the image sees.
func files(t *testing.T, image v1.Image) map[string]*tar.Header {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	found, reader := map[string]*tar.Header{}, tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		found[path.Join("/", header.Name)] = header
	}
}

// Claim: An image has only what it needs. Broken: no certificate authorities. Also: TestAProgramStartsInItsImage.
func TestWhatAnImageHas(t *testing.T) {
	g := NewWithT(t)
	p, file := testProgram(t)
	r, err := testBuild.writeImage(p, file, t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	var image v1.Image
	for _, version := range []string{"v1.2.3", "latest"} {
		tag, err := name.NewTag("hollowfleet/hub:" + version)
		g.Expect(err).NotTo(HaveOccurred())
		image, err = tarball.ImageFromPath(r.archive, &tag)
		g.Expect(err).NotTo(HaveOccurred(), "the archive has the image as %s", tag)
	}
	config, err := image.ConfigFile()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Config.User).To(Equal("65532:65532"))
	g.Expect(config.Config.Entrypoint).To(Equal([]string{"/hub"}))
	g.Expect(config.Config.Cmd).To(BeEmpty())
	g.Expect(config.Created.Time).To(BeTemporally("==", testBuild.created))
	g.Expect(config.Config.Labels).To(Equal(map[string]string{
		"org.opencontainers.image.title":       "T",
		"org.opencontainers.image.description": "D",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     "v1.2.3",
		"org.opencontainers.image.revision":    "0123456789abcdef",
		"org.opencontainers.image.created":     "2026-11-25T23:32:34Z",
	}))

	found := files(t, image)
	modes := map[string]int64{}
	for name, header := range found {
		modes[name] = header.Mode
		g.Expect(header.ModTime.Unix()).To(BeZero(), name)
		g.Expect([]int{header.Uid, header.Gid}).To(Equal([]int{0, 0}), "root owns %s", name)
	}
	g.Expect(modes).To(Equal(map[string]int64{
		"/hub": 0o755, "/etc": 0o755, "/etc/passwd": 0o644, "/etc/group": 0o644,
		"/etc/ssl": 0o755, "/etc/ssl/certs": 0o755, "/etc/ssl/certs/ca-certificates.crt": 0o644, "/tmp": 0o1777,
	}), "and nothing else, no shell least of all")
}

// Nothing but the program and the system files of the image is there.
func TestAProgramStartsInItsImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may change the root directory")
	}
	g := NewWithT(t)
	p, file := testProgram(t)
	image, err := testBuild.buildImage(p, file)
	g.Expect(err).NotTo(HaveOccurred())
	root := t.TempDir()
	content := mutate.Extract(image)
	defer content.Close()
	g.Expect(extract(content, root)).To(Succeed())
	g.Expect(os.Chmod(root, 0o755)).To(Succeed())
	command := exec.CommandContext(t.Context(), "/hub", "-test.run", "^TestAuthoritiesAreTrusted$", "-test.v")
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	output, err := command.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(output))
	g.Expect(string(output)).To(ContainSubstring("--- PASS: TestAuthoritiesAreTrusted"))
}

func extract(from io.Reader, to string) error {
	reader := tar.NewReader(from)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		file := filepath.Join(to, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(file, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(reader); err == nil {
				err = os.WriteFile(file, content, header.FileInfo().Mode())
			}
		}
		if err != nil {
			return err
		}
	}
}

func TestSBOM(t *testing.T) {
	g := NewWithT(t)
	p, file := testProgram(t)
	sbom := filepath.Join(t.TempDir(), "hub.cdx.json")
	g.Expect(testBuild.writeSBOM(p, file, sbom)).To(Succeed())
	var bom struct {
		BOMFormat, SerialNumber string
		Metadata                struct{ Component struct{ Version string } }
		Components              []struct{ Name, Version string }
	}
	g.Expect(json.Unmarshal(read(t, sbom), &bom)).To(Succeed())
	g.Expect(bom.BOMFormat).To(Equal("CycloneDX"))
	g.Expect(bom.SerialNumber).To(BeEmpty(), "it would be another one each time")
	g.Expect(bom.Metadata.Component.Version).To(Equal("v1.2.3"))
	versions := map[string]string{}
	for _, component := range bom.Components {
		versions[component.Name] = component.Version
	}
	for _, module := range []string{"std", "github.com/google/go-containerregistry", rootsModule} {
		g.Expect(versions).To(HaveKeyWithValue(module, Not(BeEmpty())))
	}
}

func TestSizes(t *testing.T) {
	g := NewWithT(t)
	p, file := testProgram(t)
	image, err := testBuild.buildImage(p, file)
	g.Expect(err).NotTo(HaveOccurred())
	size, packed, err := imageSizes(image)
	g.Expect(err).NotTo(HaveOccurred())
	info, err := os.Stat(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(size).To(BeNumerically("~", info.Size(), 400_000), "the program and a few files")
	g.Expect(packed).To(And(BeNumerically(">", size/10), BeNumerically("<", size)))

	g.Expect(checkSizes([]row{{image: "a", size: 60 * megabyte, limit: 60 * megabyte}, {image: "b", size: 200 * megabyte}})).To(Succeed())
	g.Expect(checkSizes([]row{{image: "hollowfleet/hub:v1", size: 60*megabyte + 100_000, limit: 60 * megabyte}})).
		To(MatchError("hollowfleet/hub:v1 has 60.1 MB, and may have at most 60.0 MB"))
}

func TestCommandLine(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no command":      {nil, "which command?"},
		"unknown command": {[]string{"push"}, `unknown command "push"`},
		"no version":      {[]string{"build"}, "--version is required"},
		"no time":         {[]string{"build", "--version", "v1", "--created", "today"}, `--created: want seconds since 1970, got "today"`},
		"no programs":     {[]string{"build", "--version", "v1", "--bin", "/nowhere", "--out", t.TempDir()}, "making the image of hub: reading /nowhere/hub as a Linux program"},
		"unknown image":   {[]string{"load", "--only", "hub,hubs"}, `--only: there is no image "hubs", only hub, agent, dashboard, hollow-node, simcluster`},
		"nothing built":   {[]string{"load", "--from", "/nowhere"}, "/nowhere/hub.tar: no such file or directory: make images writes it"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(run(test.args, io.Discard)).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

// Claim: Hollow nodes of other minors have images of their own. Broken: the program has the image's name, which no pod starts.
func TestOtherMinors(t *testing.T) {
	g := NewWithT(t)
	_, file := testProgram(t)
	bin, out := t.TempDir(), t.TempDir()
	g.Expect(os.MkdirAll(filepath.Join(bin, "v1.36"), 0o700)).To(Succeed())
	g.Expect(os.Symlink(file, filepath.Join(bin, "v1.36", "hollow-node"))).To(Succeed())
	built, paths, err := builtPrograms(bin)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(built).To(HaveLen(len(programs) + 1))
	made, err := testBuild.writeImage(built[len(programs)], paths[len(programs)], out)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made.image).To(HavePrefix("hollowfleet/hollow-node-v1.36:"))
	image, err := tarball.ImageFromPath(made.archive, nil)
	g.Expect(err).NotTo(HaveOccurred())
	config, err := image.ConfigFile()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Config.Entrypoint).To(Equal([]string{"/hollow-node"}))

	minors, err := archivedMinors(out)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(selectPrograms("", minors)).To(Equal([]string{"hub", "agent", "dashboard", "hollow-node", "simcluster", "hollow-node-v1.36"}))
}
