package podhost_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
)

// A hollow node reads the plan of its disruptions from such a file. It has to be there at once, and not with the next look at
// Secrets and ConfigMaps.
// Claim: Annotation changes reach a running process. Broken: the podhost does not take over the pod's change.
func TestAChangedAnnotationReachesItsFile(t *testing.T) {
	h := startHost(t, func(o *podhost.Options) { o.RefreshPeriod = time.Hour })
	pod := h.script("p", `last=; while :; do now="plan <$(cat /etc/disruptions/plan.json)>"; [ "$now" = "$last" ] || echo "$now"; last=$now; sleep 0.1; done`)
	withVolume(pod, "/etc/disruptions", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
		Path: plan.FileName, FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.annotations['%s']", plan.Annotation)},
	}}}})
	h.create(pod)
	h.awaitReady("p")
	h.awaitLog("p", "plan <>\n")
	for _, step := range []struct {
		annotation any
		want       string
	}{
		{`{"version":"v1"}`, "plan <>\nplan <{\"version\":\"v1\"}>\n"},
		{nil, "plan <>\nplan <{\"version\":\"v1\"}>\nplan <>\n"},
	} {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{plan.Annotation: step.annotation}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.client.CoreV1().Pods(h.namespace).Patch(t.Context(), "p", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		h.awaitLog("p", step.want)
	}
	if got, _ := h.get("p"); mainStatus(got).RestartCount != 0 {
		t.Error("the process was restarted")
	}
}
