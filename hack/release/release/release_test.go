package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

func released() options {
	return options{
		root: root, version: "v1.2.3", parts: []string{partPlugin}, arches: []string{"amd64"}, download: "https://example.com/v1.2.3",
		source: source{commit: "0123456789abcdef0123456789abcdef01234567", time: time.Unix(1795649554, 0).UTC(), tags: []string{"v1.2.3"}, changelog: "## v1.2.3\n\n- x\n"},
	}
}

// write makes a directory of a name with files by name.
func write(t *testing.T, directory string, files map[string]string, mode fs.FileMode) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(directory, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), mode)); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func sumOf(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

// packedChart is a package of the hub's chart, made once: it has the time at which helm made it.
var packedChart = sync.OnceValues(func() (string, error) {
	loaded, err := loader.Load(filepath.Join(root, "charts", "hub"))
	if err != nil {
		return "", err
	}
	directory, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(directory)
	loaded.Metadata.Version, loaded.Metadata.AppVersion = "1.2.3", "v1.2.3"
	path, err := chartutil.Save(loaded, directory)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(path)
	return string(content), err
})

// assembled is a release of this test, as a plugin for Linux and for Windows, and of a chart. Mode and times of what it is made of are no
// part of it.
func assembled(t *testing.T, mode fs.FileMode, modified time.Time) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := read(t, own)
	work, made := t.TempDir(), t.TempDir()
	write(t, work, map[string]string{"plugin/linux_amd64/kubectl-hollow": program, "plugin/windows_arm64/kubectl-hollow.exe": program}, mode)
	g := NewWithT(t)
	chart, err := packedChart()
	g.Expect(err).NotTo(HaveOccurred())
	write(t, made, map[string]string{"hollowfleet-hub-1.2.3.tgz": chart}, mode)
	programs, err := findPrograms(work)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(programs).To(HaveLen(2))
	for _, path := range programs {
		g.Expect(os.Chtimes(path, modified, modified)).To(Succeed())
	}
	g.Expect(released().assembleRelease(programs, made)).To(Succeed())
	return made
}

// Claim: The same programs give the same release, byte for byte. Broken: the mode of a file in an archive; its time; a time in gzip's header; modules in the order of a map.
func TestTheSameProgramsGiveTheSameRelease(t *testing.T) {
	g := NewWithT(t)
	one, two := assembled(t, 0o600, time.Unix(1e9, 0)), assembled(t, 0o755, time.Now())
	names, err := os.ReadDir(one)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(names)).To(BeNumerically(">=", 9))
	for _, name := range names {
		g.Expect(sumOf(read(t, two, name.Name()))).To(Equal(sumOf(read(t, one, name.Name()))), name.Name())
	}
}

// Claim: A release has the plugin, SBOMs of it and of charts, krew's manifest, the provenance and checksums of all. Broken: a file without checksum; a chart without SBOM; the sum of another file in the manifest; the completion left out; the sum of a module as Go writes it.
func TestWhatAReleaseHas(t *testing.T) {
	g := NewWithT(t)
	made := assembled(t, 0o600, time.Now())
	sums := map[string]string{}
	for line := range strings.Lines(read(t, made, "SHA256SUMS")) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		g.Expect(sum).To(Equal(sumOf(read(t, made, name))), name)
		sums[name] = sum
	}
	const linux, windows = "kubectl-hollow_v1.2.3_linux_amd64", "kubectl-hollow_v1.2.3_windows_arm64"
	for _, name := range []string{linux + ".tar.gz", linux + ".cdx.json", windows + ".zip", windows + ".cdx.json", "hollow.yaml", "hollowfleet-hub-1.2.3.tgz", "hollowfleet-hub-1.2.3.cdx.json", "provenance.intoto.json"} {
		g.Expect(sums).To(HaveKey(name))
	}
	g.Expect(sums).To(HaveLen(8))

	g.Expect(tarMembers(t, filepath.Join(made, linux+".tar.gz"))).To(Equal(map[string]int64{"LICENSE": 0o644, "kubectl-hollow": 0o755, "kubectl_complete-hollow": 0o755}))
	packed, err := zip.OpenReader(filepath.Join(made, windows+".zip"))
	g.Expect(err).NotTo(HaveOccurred())
	defer packed.Close()
	var names []string
	for _, file := range packed.File {
		names = append(names, file.Name)
	}
	g.Expect(names).To(Equal([]string{"LICENSE", "kubectl-hollow.exe", "kubectl_complete-hollow.cmd"}))

	manifest := krewPlugin{}
	g.Expect(yaml.UnmarshalStrict([]byte(read(t, made, "hollow.yaml")), &manifest)).To(Succeed())
	g.Expect(manifest.Spec.Version).To(Equal("v1.2.3"))
	g.Expect(manifest.Spec.Platforms).To(Equal([]krewPlatform{
		{krewSelector{map[string]string{"os": "linux", "arch": "amd64"}}, "https://example.com/v1.2.3/" + linux + ".tar.gz", sums[linux+".tar.gz"], "kubectl-hollow"},
		{krewSelector{map[string]string{"os": "windows", "arch": "arm64"}}, "https://example.com/v1.2.3/" + windows + ".zip", sums[windows+".zip"], "kubectl-hollow.exe"},
	}))

	provenance := statement{}
	g.Expect(json.Unmarshal([]byte(read(t, made, "provenance.intoto.json")), &provenance)).To(Succeed())
	g.Expect(provenance.Subject).To(HaveLen(7), "all but itself and the checksums")
	for _, subject := range provenance.Subject {
		g.Expect(subject.Digest).To(HaveKeyWithValue("sha256", sums[subject.Name]), subject.Name)
	}
	materials := provenance.Predicate.BuildDefinition.ResolvedDependencies
	g.Expect(materials[0].Digest).To(HaveKeyWithValue("gitCommit", released().source.commit))
	g.Expect(materials).To(ContainElement(And(HaveField("URI", HavePrefix("pkg:golang/sigs.k8s.io/yaml@v")), HaveField("Digest", HaveKeyWithValue("dirHash", MatchRegexp("^[0-9a-f]{64}$"))))))
}

func tarMembers(t *testing.T, path string) map[string]int64 {
	t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader([]byte(read(t, path))))
	if err != nil {
		t.Fatal(err)
	}
	modes, reader := map[string]int64{}, tar.NewReader(unpacked)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return modes
		} else if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
		NewWithT(t).Expect([]any{header.Uid, header.Gid, header.Uname, header.ModTime.Unix()}).To(Equal([]any{0, 0, "", released().source.time.Unix()}), header.Name)
	}
}

// Claim: The same source gives the same program, wherever it is and whatever the environment says. Broken: paths of the machine in the program; flags of the environment.
func TestTheSameSourceGivesTheSameProgram(t *testing.T) {
	g := NewWithT(t)
	var programs []string
	for _, flags := range []string{"", "-ldflags=-X=main.x=y"} {
		t.Setenv("GOFLAGS", flags)
		directory := t.TempDir()
		write(t, directory, map[string]string{"go.mod": "module example.com/x\n\ngo 1.26.0\n", "main.go": "package main\n\nvar x string\n\nfunc main() { panic(x) }\n"}, 0o600)
		to := filepath.Join(directory, "out", "x")
		c := compilation{name: "x", platform: platform{"linux", "amd64"}, directory: directory, packages: []string{"."}, to: to}
		g.Expect(options{root: directory}.compileProgram(t.Context(), c, io.Discard)).To(Succeed())
		programs = append(programs, sumOf(read(t, to)))
	}
	g.Expect(programs[1]).To(Equal(programs[0]))
}

// Claim: Nothing is released that is not what its version says. Broken: the tree, the tag or the changelog is not looked at; a heading without a section.
func TestWhatIsNotReleased(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*options)
		want   string
	}{
		"as it should be": {func(*options) {}, ""},
		"a version before release": {func(o *options) {
			o.version, o.source.tags, o.source.changelog = "v1.0.0-rc.1", []string{"v1.0.0-rc.1"}, "## v1.0.0-rc.1\nx"
		}, ""},
		"a section with a date":     {func(o *options) { o.source.changelog = "## Unreleased\n\n## v1.2.3 (2026-11-29)\n\n- x\n\n## v1.2.2\n" }, ""},
		"a commit":                  {func(o *options) { o.version = "0123456789ab" }, `VERSION: "0123456789ab" is not the version of a release: write it as v0.1.0`},
		"what git describe says":    {func(o *options) { o.version = "v1.2.3-4-g0123456789ab" }, "has no tag v1.2.3-4-g0123456789ab"},
		"changed files":             {func(o *options) { o.source.changed = []string{"README.md", "x"} }, "2 files are not as in the commit (README.md, x): commit or remove them"},
		"no tag":                    {func(o *options) { o.source.tags = nil }, "commit 0123456789ab has no tag v1.2.3, and programs tell the version that git tells: git tag v1.2.3"},
		"no section":                {func(o *options) { o.source.changelog = "## Unreleased\n\n- x\n\n## v1.2.31\n\n- y\n" }, `CHANGELOG.md has no section "## v1.2.3"`},
		"an empty section":          {func(o *options) { o.source.changelog = "## v1.2.3\n\n## v1.2.2\n\n- y\n" }, `CHANGELOG.md has no section "## v1.2.3"`},
		"a snapshot of all of that": {func(o *options) { o.snapshot, o.version, o.source = true, "x", source{changed: []string{"x"}} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, o := NewWithT(t), released()
			test.change(&o)
			if test.want == "" {
				g.Expect(o.checkSource()).To(Succeed())
				return
			}
			g.Expect(o.checkSource()).To(MatchError(And(ContainSubstring(test.want), HaveSuffix("; SNAPSHOT=1 makes a snapshot"))))
		})
	}
}

// A program that another commit left in the cache, or that was built beside the repository, is noticed.
func TestProgramsTellTheirCommit(t *testing.T) {
	own, err := os.Executable()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(released().checkPrograms([]string{own})).To(MatchError(ContainSubstring("was built of commit")))
}

func TestSourceOfARelease(t *testing.T) {
	g, directory := NewWithT(t), t.TempDir()
	_, err := readSource(t.Context(), directory)
	g.Expect(err).To(MatchError(ContainSubstring("a release is made of a commit: ")))
	write(t, directory, map[string]string{"CHANGELOG.md": "# Changes\n"}, 0o600)
	git(t, directory, "init", "-q")
	git(t, directory, "add", ".")
	git(t, directory, "commit", "-q", "-m", "x")
	git(t, directory, "tag", "v0.1.0")
	got, err := readSource(t.Context(), directory)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.commit).To(HaveLen(40))
	g.Expect(got.time).To(BeTemporally("==", time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)))
	g.Expect(got.tags).To(Equal([]string{"v0.1.0"}))
	g.Expect(got.changed).To(BeEmpty())
	write(t, directory, map[string]string{"CHANGELOG.md": "x", "new": ""}, 0o600)
	t.Setenv("SOURCE_DATE_EPOCH", "7")
	got, err = readSource(t.Context(), directory)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.changed).To(Equal([]string{"CHANGELOG.md", "new"}))
	g.Expect(got.time.Unix()).To(Equal(int64(7)))
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	_, err = readSource(t.Context(), directory)
	g.Expect(err).To(MatchError(`SOURCE_DATE_EPOCH: want seconds since 1970, got "today"`))
}

func TestCommandLine(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no version":           {nil, "--version is required, such as v0.1.0"},
		"unknown part":         {[]string{"--version", "v1.2.3", "--parts", "plugin,image"}, `--parts: unknown part "image"; known are plugin, images and charts`},
		"unknown platform":     {[]string{"--version", "v1.2.3", "--platforms", "plan9_amd64"}, `--platforms: unknown platform "plan9_amd64"; known are darwin_amd64 `},
		"unknown architecture": {[]string{"--version", "v1.2.3", "--arches", "amd64 s390x"}, `--arches: unknown architecture "s390x"; known are amd64 and arm64`},
		"no flags":             {[]string{"--version", "v1.2.3"}, "SIMULATOR_LDFLAGS is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SIMULATOR_LDFLAGS", "")
			NewWithT(t).Expect(runRelease(t.Context(), test.args, io.Discard)).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

func TestVersionsForKrew(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "0123456789ab-dirty-4f89bb99": "v0.0.0-snapshot.0123456789ab-dirty-4f89bb99", "v1.2+x": "v0.0.0-snapshot.v1-2-x"} {
		NewWithT(t).Expect(options{version: version}.krewVersion()).To(Equal(want))
	}
}
