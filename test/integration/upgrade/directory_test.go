package upgrade

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// The fleet of 9b97cca had one cluster. Its files are in testdata: the text ones with DIR for its directory, INODE for that of the directory
// that a marker is in, and the processes by name; certificates and keys are made by the test, under the names that they had.
var _ = Describe("The directory of an older local fleet", func() {
	// Claim: An older local fleet's files are read and removed. Broken: other names of files and fields.
	It("should be read by status, refused by up, and removed by down but for other files", func(ctx SpecContext) {
		dir := filepath.Join(GinkgoT().TempDir(), "fleet")
		keeper, hub := sleeping(), sleeping()
		layDown(dir, map[string]*exec.Cmd{"KEEPER": keeper, "HUB": hub})

		code, output := hollow(ctx, "local", "status", "--dir", dir, "-o", "json")
		Expect(code).To(Equal(1), output)
		Expect(output).To(ContainSubstring("cluster c1"), "the message names what has ended")
		var report localfleet.Report
		Expect(json.NewDecoder(strings.NewReader(output)).Decode(&report)).To(Succeed(), output)
		Expect(report.Ready).To(BeTrue())
		Expect(report.Hub).To(Equal(localfleet.ControlPlane{
			Name: "hub", Dir: filepath.Join(dir, "hub"), Server: "https://127.0.0.1:39653", Version: "v1.37.1", Kubeconfig: filepath.Join(dir, "hub/kubeconfigs/admin.conf"),
		}))
		Expect(report.Clusters).To(ConsistOf(HaveField("Server", "https://127.0.0.1:43485")))
		alive := map[string]bool{}
		for _, running := range report.Processes {
			alive[running.Name] = running.Alive
			Expect(running.Log).To(BeARegularFile())
		}
		Expect(alive).To(Equal(map[string]bool{"keeper": true, "hub": true, "cluster hub": false, "cluster c1": false, "agent c1": false}))

		before := filesIn(dir)
		code, output = hollow(ctx, "local", "up", "--dir", dir, "--clusters", "1")
		Expect(code).To(Equal(4), output)
		Expect(output).To(ContainSubstring("there is a fleet already"))
		Expect(filesIn(dir)).To(Equal(before))

		other := filepath.Join(dir, "c1", "notes.txt")
		Expect(os.WriteFile(other, []byte("mine"), 0o600)).To(Succeed())
		code, output = hollow(ctx, "local", "down", "--dir", dir)
		Expect(code).To(BeZero(), output)
		Expect(filesIn(dir)).To(ConsistOf("c1/notes.txt"), output)
		for _, process := range []*exec.Cmd{keeper, hub} {
			Eventually(ctx, func() error { return syscall.Kill(process.Process.Pid, 0) }).Should(MatchError(syscall.ESRCH), "it has ended")
		}
	}, SpecTimeout(fleettest.Patience))

	It("should have control planes that start with the objects, the authority and the address that they had", func(ctx SpecContext) {
		dir := filepath.Join(GinkgoT().TempDir(), "fleet")
		layDown(dir, nil)
		plane := filepath.Join(dir, "c1")
		address, err := testenv.FreeAddress()
		Expect(err).NotTo(HaveOccurred())
		host, port, _ := strings.Cut(address, ":")
		movePlane(plane, host, port)
		kept := map[string]string{}
		for _, name := range []string{"pki/ca.crt", "pki/ca.key", "pki/sa.key", "pki/sa.pub"} {
			kept[name] = read(filepath.Join(plane, name))
		}
		copied := filepath.Join(GinkgoT().TempDir(), "copied.kubeconfig")
		Expect(os.WriteFile(copied, []byte(read(filepath.Join(plane, "kubeconfigs/admin.conf"))), 0o600)).To(Succeed())

		binary, err := testenv.Binary("simcluster")
		Expect(err).NotTo(HaveOccurred())
		cluster, err := process.StartCluster(ctx, process.ClusterOptions{
			Name: "c1", Dir: plane, Binary: binary, Components: []string{"etcd", "kube-apiserver"}, LogFile: filepath.Join(dir, "logs/cluster-c1.log"),
			Args: []string{"--listen", host},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
		config, err := clientcmd.BuildConfigFromFlags("", copied)
		Expect(err).NotTo(HaveOccurred())
		c, err := client.New(config, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		stored := &corev1.ConfigMap{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "kept"}, stored)).To(Succeed(), "a kubeconfig that somebody copied works")
		Expect(stored.Data).To(Equal(map[string]string{"by": "9b97cca"}))
		for name, content := range kept {
			Expect(read(filepath.Join(plane, name))).To(Equal(content), name)
		}
	}, SpecTimeout(testenv.StartTimeout))
})

// movePlane gives a control plane that has ended an address that is free here.
func movePlane(plane, host, port string) {
	GinkgoHelper()
	for _, name := range []string{"cluster.json", "kubeconfigs/admin.conf"} {
		path := filepath.Join(plane, name)
		moved := strings.NewReplacer("127.0.0.1", host, "43485", port).Replace(read(path))
		Expect(os.WriteFile(path, []byte(moved), 0o600)).To(Succeed())
	}
}

// hollow runs kubectl-hollow.
func hollow(ctx context.Context, args ...string) (int, string) {
	GinkgoHelper()
	program, err := testenv.Binary("kubectl-hollow")
	Expect(err).NotTo(HaveOccurred())
	output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), string(output)
	}
	Expect(err).NotTo(HaveOccurred())
	return 0, string(output)
}

// sleeping is a process of a fleet that still runs.
func sleeping() *exec.Cmd {
	GinkgoHelper()
	command := exec.Command("sleep", "600")
	Expect(command.Start()).To(Succeed())
	reaped := make(chan struct{})
	go func() { defer close(reaped); _ = command.Wait() }()
	DeferCleanup(func() { _ = command.Process.Kill(); <-reaped })
	return command
}

// layDown makes the directory of the fleet, in which these processes still run.
func layDown(dir string, running map[string]*exec.Cmd) {
	GinkgoHelper()
	bin, err := testenv.BinDir()
	Expect(err).NotTo(HaveOccurred())
	var words []string
	for _, name := range []string{"KEEPER", "HUBPLANE", "C1PLANE", "HUB", "AGENT"} {
		pid, ticks := "4194303", "1" // No process has that ID: the kernel gives smaller ones.
		if one := running[name]; one != nil {
			pid = fmt.Sprint(one.Process.Pid)
			stat := read("/proc/" + pid + "/stat")
			ticks = strings.Fields(stat[strings.LastIndex(stat, ")"):])[20]
		}
		words = append(words, "PID-"+name+",", pid+",", "TICKS-"+name+"\n", ticks+"\n")
	}
	words = append(words, "DIR", dir, "BIN", bin)
	authority := newAuthority("c1-ca")
	authority.writePKI(filepath.Join(dir, "c1", "pki"))
	words = append(words, "CA-DATA", base64.StdEncoding.EncodeToString(authority.certificate), "ADMIN-CERT", encoded(filepath.Join(dir, "c1/pki/admin-client.crt")), "ADMIN-KEY", encoded(filepath.Join(dir, "c1/pki/admin-client.key")))
	replacer := strings.NewReplacer(words...)
	for _, part := range strings.Split(read("testdata/9b97cca-fleet.txt"), "-- ")[1:] {
		name, content, found := strings.Cut(part, " --\n")
		Expect(found).To(BeTrue())
		path := filepath.Join(dir, name)
		Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		info, err := os.Stat(filepath.Dir(path))
		Expect(err).NotTo(HaveOccurred())
		content = strings.ReplaceAll(replacer.Replace(content), "INODE", fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino))
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	for _, plane := range []string{"hub", "c1"} {
		for _, made := range []string{"podhost", "run"} {
			Expect(os.MkdirAll(filepath.Join(dir, plane, made), 0o700)).To(Succeed())
		}
	}
	extract("testdata/9b97cca-etcd.tar.gz", filepath.Join(dir, "c1"))
}

func extract(archive, dir string) {
	GinkgoHelper()
	file, err := os.Open(archive)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	Expect(err).NotTo(HaveOccurred())
	for entries := tar.NewReader(unpacked); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		path := filepath.Join(dir, filepath.Clean("/"+entry.Name))
		if entry.Typeflag == tar.TypeDir {
			Expect(os.MkdirAll(path, 0o700)).To(Succeed())
			continue
		}
		content, err := io.ReadAll(entries)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
	}
}

func read(path string) string {
	GinkgoHelper()
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

func encoded(path string) string {
	GinkgoHelper()
	return base64.StdEncoding.EncodeToString([]byte(read(path)))
}

// filesIn are the files below dir.
func filesIn(dir string) []string {
	GinkgoHelper()
	var found []string
	Expect(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			path, err = filepath.Rel(dir, path)
			found = append(found, path)
		}
		return err
	})).To(Succeed())
	return found
}
