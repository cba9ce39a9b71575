package podhost_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
)

func (h *testHost) patch(name string, patch map[string]any) {
	h.t.Helper()
	content, err := json.Marshal(patch)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.client.CoreV1().Pods(h.namespace).Patch(h.t.Context(), name, types.MergePatchType, content, metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// A hollow node reads the plan of its disruptions from such a file. It has to be there at once, and not with the next look at the Secret.
// Claim: Annotation changes reach a running process. Broken: the podhost does not take over the pod's change.
func TestAChangedAnnotationReachesItsFile(t *testing.T) {
	h := startHost(t, func(o *podhost.Options) { o.RefreshPeriod = time.Hour })
	h.runs("p", "")
	h.awaitReady("p")
	h.awaitLog("p", "plan <>\n")
	for _, step := range []struct {
		annotation any
		want       string
	}{
		{`{"version":"v1"}`, "plan <>\nvalue <first> plan <{\"version\":\"v1\"}>\n"},
		{nil, "plan <{\"version\":\"v1\"}>\nvalue <first> plan <>\n"},
	} {
		h.patch("p", map[string]any{"metadata": map[string]any{"annotations": map[string]any{plan.Annotation: step.annotation}}})
		h.awaitLog("p", step.want)
	}
	if got, _ := h.get("p"); mainStatus(got).RestartCount != 0 {
		t.Error("the process was restarted")
	}
}

// Claim: The configuration follows its Secret. Broken: files are not refreshed.
func TestSecretIsVisibleAndUpdated(t *testing.T) {
	h := startHost(t)
	h.create(h.pod("p"))
	h.awaitEvent("p", "FailedMount", `"p" not found`)
	h.createSecret("p", "")
	h.awaitReady("p")
	h.awaitLog("p", "value <first>")
	h.patchSecret("p", "second")
	log := h.awaitLog("p", "value <second>")
	for line := range strings.Lines(log) {
		if strings.Contains(line, "value <>") {
			t.Errorf("the node read half of a change: %s", log)
		}
	}
	if got, _ := h.get("p"); mainStatus(got).RestartCount != 0 {
		t.Error("the process was restarted")
	}
	// A Secret that is gone leaves what was there.
	if err := h.client.CoreV1().Secrets(h.namespace).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.awaitEvent("p", "FailedMount", `"p" not found`)
	if log := h.awaitLog("p", "value <second>"); strings.Count(log, "\n") != 3 {
		t.Errorf("without the Secret the log is %q", log)
	}
}

func (h *testHost) patchSecret(name, value string) {
	h.t.Helper()
	patch := []byte(`{"stringData":{"value":"` + value + `"}}`)
	if _, err := h.client.CoreV1().Secrets(h.namespace).Patch(h.t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// The data directory is like one below root's home, which the nodes' user cannot reach. What a kubelet mounts read-only, a node cannot
// change here either, while the podhost keeps it up to date. Without root it has the podhost's user, and can take itself the right to.
// Claim: A node has no privileges, and its configuration is read-only. Broken: files given to the node's user; write bits left; no_new_privs not set. Also: agent/simulator/internal/podhost/packs TestProcessesGiveWayAndGainNothing.
func TestANodeHasNoPrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the nodes of a podhost without root have its user")
	}
	h := startHost(t, func(o *podhost.Options) {
		if err := os.Chmod(filepath.Dir(o.DataDir), 0o700); err != nil {
			t.Fatal(err)
		}
	})
	h.runs("shared", "identity write")
	h.runs("alone", "identity write alone")
	for _, name := range []string{"shared", "alone"} {
		h.awaitReady(name)
		log := h.awaitLog(name, "value <first>")
		for _, want := range []string{
			"Uid:\t65532\t65532\t65532\t65532\n", "Gid:\t65532\t65532\t65532\t65532\n", "Groups:\t \n", "NoNewPrivs:\t1\n",
			"CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n",
		} {
			if !strings.Contains(log, want) {
				t.Errorf("the log of %s lacks %q: %s", name, want, log)
			}
		}
		if strings.Contains(log, "changed") {
			t.Errorf("%s: %s", name, log)
		}
		h.patchSecret(name, "second")
		h.awaitLog(name, "value <second>")
	}
}
