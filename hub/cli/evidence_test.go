//go:build linux

package cli_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// planted are credentials as they get into logs and objects. None may be in a bundle.
const (
	plantedToken    = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJlLW9mLWEtdG9rZW4"
	plantedJoin     = "abcdef.0123456789abcdef"
	plantedPassword = "correct-horse-battery"
	plantedKeyLine  = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
	plantedKey      = "-----BEGIN PRIVATE KEY-----\n" + plantedKeyLine + "\n-----END PRIVATE KEY-----"
)

// plantedText has all of them.
func plantedText() string {
	return "Authorization: Bearer " + plantedToken + "\njoining with " + plantedJoin + "\ndb_password=" + plantedPassword + "\n" + plantedKey + "\n" +
		"apiVersion: v1\nkind: Config\nusers:\n- user:\n    client-key-data: " + base64.StdEncoding.EncodeToString([]byte(plantedKey)) + "\n    token: " + plantedPassword + "\n"
}

// Claim: A support bundle has logs and metrics, and no credential that is in them or in objects. Broken: annotations are written unchanged; a stopped process keeps the bundle.
func TestASupportBundleHasLogsAndMetricsAndNoCredentials(t *testing.T) {
	f := newMachineEnv(t)
	f.ExpectExists(f.machine)
	f.machine.Annotations = map[string]string{"example.com/kubeconfig": plantedText(), "example.com/api-token": "opaque-" + plantedPassword}
	f.ExpectApplied(f.machine)
	f.happens("Machine", f.machine.ObjectMeta, "Warning", "Failed", plantedText())
	defer f.answers(v1alpha1.MachineLogRequestStatus{Phase: v1alpha1.MachineLogAnswered, Log: "of the machine\n" + plantedText()})()
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) }))
	defer metrics.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	defer silent.CloseClientConnections()
	kubeconfig, err := os.ReadFile(testenv.Server().Cluster.AdminKubeconfig())
	f.Expect(err).NotTo(HaveOccurred())
	_, dir, path := keptFleet(t, string(kubeconfig), func(s *localfleet.State) {
		hub, agent := *s.Keeper, *s.Keeper
		hub.Name, agent.Name = "hub", "agent-stopped"
		s.Processes = []process.Identity{hub, agent}
		s.Endpoints = map[string]localfleet.Endpoints{"hub": {Metrics: metrics.URL + "/metrics"}, "agent-stopped": {Metrics: silent.URL + "/metrics"}}
	})
	f.Expect(os.MkdirAll(filepath.Dir(localfleet.LogFile(dir, "hub")), 0o700)).To(Succeed())
	f.Expect(os.WriteFile(localfleet.LogFile(dir, "hub"), []byte(strings.Repeat("an early line\n", 100_000)+"of the hub\n"+plantedText()), 0o600)).To(Succeed())

	archive := filepath.Join(t.TempDir(), "bundle.tar.gz")
	var out, errOut bytes.Buffer
	started := time.Now()
	code := cli.Execute(t.Context(), []string{"support-bundle", "--output-file", archive, "--kubeconfig", path}, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	f.Expect(code).To(Equal(0), errOut.String())
	f.Expect(time.Since(started)).To(BeNumerically("<", time.Minute))
	files := f.unpack(archive)
	f.Expect(files["hub.log"]).To(And(HavePrefix("an early line\n"), ContainSubstring("of the hub")))
	f.Expect(len(files["hub.log"])).To(BeNumerically("<", 300<<10))
	f.Expect(files["hub.txt"]).To(Equal("up 1\n"))
	f.Expect(files["machine-"+f.name+"-workers-1-a.log"]).To(ContainSubstring("of the machine"))
	f.Expect(files["problems.txt"]).To(And(ContainSubstring("metrics/agent-stopped.txt: "), ContainSubstring("logs/agent-stopped.log: ")))
	f.Expect(files["machines.json"]).To(ContainSubstring("workers-1-a"))
	for name, content := range files {
		if strings.HasSuffix(name, ".json") {
			f.Expect(json.Valid([]byte(content))).To(BeTrue(), name)
		}
		for _, secret := range []string{plantedToken, plantedJoin, plantedPassword, plantedKeyLine, base64.StdEncoding.EncodeToString([]byte(plantedKey))[:60]} {
			f.Expect(content).NotTo(ContainSubstring(secret), name)
		}
	}
	f.Expect(files).NotTo(HaveKey(ContainSubstring("machinelogrequests")))
	f.Expect(f.requests()).To(BeEmpty())
}

// Claim: A support bundle of a fleet on this machine has its logs while the hub's API server does not answer, and says what is missing with exit code 1; `version` shows that of the program. Broken: nothing written; exit code 0; the silence not among the problems.
func TestASupportBundleOfASilentAPIServerHasTheLogsOfThisMachine(t *testing.T) {
	f := newEnv(t)
	_, dir, path := keptFleet(t, nobodysKubeconfig, func(s *localfleet.State) {
		hub := *s.Keeper
		hub.Name = "hub"
		s.Processes = []process.Identity{hub}
	})
	f.Expect(os.MkdirAll(filepath.Dir(localfleet.LogFile(dir, "hub")), 0o700)).To(Succeed())
	f.Expect(os.WriteFile(localfleet.LogFile(dir, "hub"), []byte("of the hub\n"), 0o600)).To(Succeed())
	execute := func(args ...string) (code int, out, errOut string) {
		var first, second bytes.Buffer
		code = cli.Execute(t.Context(), append(args, "--kubeconfig", path), genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &first, ErrOut: &second})
		return code, first.String(), second.String()
	}
	archive := filepath.Join(t.TempDir(), "bundle.tar.gz")
	code, out, errOut := execute("support-bundle", "--output-file", archive)
	f.Expect(code).To(Equal(1), errOut)
	f.Expect(out).To(Equal("Wrote " + archive + "\n"))
	f.Expect(errOut).To(And(ContainSubstring("Left out: objects"), ContainSubstring("error: ")))
	files := f.unpack(archive)
	f.Expect(files["hub.log"]).To(Equal("of the hub\n"))
	f.Expect(files["versions.txt"]).To(HavePrefix("Client: "))
	f.Expect(files["problems.txt"]).To(ContainSubstring("the hub's API server does not answer"))

	code, out, errOut = execute("version")
	f.Expect(code).To(Equal(1))
	f.Expect(out).To(MatchRegexp(`^Client: \S+\n$`))
	f.Expect(errOut).To(ContainSubstring("error: "))
}
