package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// TestAnotherMinor is what make test-minors runs with a hollow-node that has the kubelet of another minor than the control plane.
// Claim: A Node says which kubelet code it runs. Broken: the label of the built-in minor; the label of another kubelet stays. Also: agent/simulator/internal/hollownode TestNodeLabelsTellWhereTheVersionComesFrom.
// Claim: No program runs as a version whose code it has not, where code is demanded. Broken: the program is not asked. Also: agent/simulator/internal/hollownode TestCodeThatIsDemanded.
func TestAnotherMinor(t *testing.T) {
	longOnly(t)
	output, err := exec.Command(binary(t, "hollow-node"), "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	code := strings.TrimSpace(string(output))
	cluster := realCluster(t)

	configuration := configurationOf("code")
	configuration.KubeletVersion, configuration.RequireVersionCode = code, true
	p := newProcess(t, cluster, configuration, goodToken)
	node := p.join(t)
	p.create(t, p.pod("a"), isReady)
	for what, got := range map[string][2]string{
		"kubelet version": {node.Status.NodeInfo.KubeletVersion, code},
		"version source":  {node.Labels["hollowfleet.io/kubelet-version-source"], "BuiltIn"},
		"kubelet code":    {node.Labels["hollowfleet.io/kubelet-code"], code},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: want %q, got %q", what, got[1], got[0])
		}
	}
	p.deleteAndWait(t, p.name+"-a")

	configuration = configurationOf("name-only")
	configuration.KubeletVersion, configuration.RequireVersionCode = "v1.30.1", true
	refused := newProcess(t, cluster, configuration, goodToken)
	refused.start(t)
	var exit *exec.ExitError
	if err := refused.awaitEnd(t, time.Minute); !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
		t.Errorf("code of %s was demanded of that of %s: %v", configuration.KubeletVersion, code, err)
	}
	log, err := os.ReadFile(filepath.Join(refused.dir, "log"))
	if want := "start the hollow-node of Kubernetes " + contract.MinorOf(configuration.KubeletVersion); err != nil || !strings.Contains(string(log), want) {
		t.Errorf("the log lacks %q: %v: %s", want, err, log)
	}
}
