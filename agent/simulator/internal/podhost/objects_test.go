package podhost_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/volume"
)

func (h *testHost) secret(name, key, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: h.namespace}, StringData: map[string]string{key: value}}
}

func (h *testHost) createSecret(secret *corev1.Secret) {
	h.t.Helper()
	if _, err := h.client.CoreV1().Secrets(h.namespace).Create(h.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		h.t.Fatalf("creating a Secret: %v", err)
	}
}

func withVolume(pod *corev1.Pod, path string, source corev1.VolumeSource) {
	name := fmt.Sprintf("volume-%d", len(pod.Spec.Volumes))
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
}

// Claim: Volumes follow their sources. Broken: volumes are not refreshed. Also: TestDownwardAPIVolumeFollowsThePod.
func TestSecretIsVisibleAndUpdated(t *testing.T) {
	h := startHost(t)
	h.createSecret(h.secret("s", "key", "first"))
	pod := h.script("p", `echo "variable $FROM"; while :; do cat /secrets/key; echo; sleep 0.1; done`)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FROM", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "key"},
	}}}
	withVolume(pod, "/secrets", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}})
	h.create(pod)
	h.awaitReady("p")
	if log := h.awaitLog("p", "\nfirst\n"); !strings.HasPrefix(log, "variable first\n") {
		t.Errorf("the log starts with %.40q", log)
	}
	if _, err := h.client.CoreV1().Secrets(h.namespace).Update(t.Context(), h.secret("s", "key", "second"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	log := h.awaitLog("p", "\nsecond\n")
	for _, line := range strings.Split(strings.TrimSpace(log), "\n")[1:] {
		if line != "first" && line != "second" {
			t.Errorf("the process read %q", line)
		}
	}
	if got, _ := h.get("p"); mainStatus(got).RestartCount != 0 {
		t.Error("the process was restarted")
	}
}

// What a kubelet mounts read-only, a container cannot change here either, while the podhost keeps it up to date. Without
// root the container has the podhost's user: it cannot write by accident, but can take itself the right to.
// Claim: Volumes are read-only for other users. Broken: files given to the container's user; write bits left. Also: agent/simulator/internal/podhost/volume TestFilesOfAnotherUser, TestContent.
func TestVolumesAreReadOnly(t *testing.T) {
	byForce := `
  { rm -f $file || mv $file $file-2 || chmod u+w $(realpath $file); } 2>/dev/null && echo "$file is changed"
  { touch $(dirname $(realpath $file))/new; } 2>/dev/null && echo "$file has a neighbour"`
	if os.Geteuid() != 0 {
		byForce = ""
	}
	h := startHost(t)
	h.createSecret(h.secret("s", "key", "first"))
	_, err := h.client.CoreV1().ConfigMaps(h.namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"key": "map"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := h.script("p", `for file in /secret/dir/key /config/key /pod/name /all/key; do
  { echo x >$file; } 2>/dev/null && echo "$file is written"`+byForce+`
  echo $(cat $file)
done
until grep -q second /secret/dir/key; do sleep 0.1; done; echo refreshed; exec sleep 1000`)
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532)}
	object := corev1.LocalObjectReference{Name: "c"}
	withVolume(pod, "/secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: "s", DefaultMode: ptr.To[int32](0o600), Items: []corev1.KeyToPath{{Key: "key", Path: "dir/key"}},
	}})
	withVolume(pod, "/config", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object, DefaultMode: ptr.To[int32](0o666)}})
	withVolume(pod, "/pod", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
		{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
	}}})
	withVolume(pod, "/all", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: object}},
	}}})
	h.create(pod)
	h.awaitReady("p")
	h.awaitLog("p", "first\nmap\np\nmap\n")
	if _, err := h.client.CoreV1().Secrets(h.namespace).Update(t.Context(), h.secret("s", "key", "second"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if log := h.awaitLog("p", "refreshed\n"); log != "first\nmap\np\nmap\nrefreshed\n" {
		t.Errorf("the log is %q", log)
	}
	h.delete("p", metav1.DeleteOptions{})
	h.awaitGone("p")
	base, err := volume.Base(h.options.DataDir, true)
	if err != nil {
		t.Fatal(err)
	}
	h.eventually("nothing is left of the pod", func() error {
		left, _, err := poddir.List(base)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("there are %v", left)
		}
		return err
	})
}

func TestPodWaitsForWhatIsMissing(t *testing.T) {
	h := startHost(t)
	mounts := h.script("mounts", `cat /secrets/key; echo; exec sleep 1000`)
	withVolume(mounts, "/secrets", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "late"}})
	h.create(mounts)
	reads := h.script("reads", `echo "$late_key"; exec sleep 1000`)
	reads.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		Prefix: "late_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}},
	}}
	h.create(reads)
	h.awaitEvent("mounts", "FailedMount", "late")
	h.await("reads", "names the ConfigMap", func(pod *corev1.Pod) string {
		for _, status := range pod.Status.ContainerStatuses {
			if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "CreateContainerConfigError" && strings.Contains(waiting.Message, "late") {
				return ""
			}
		}
		return "it does not"
	})
	h.createSecret(h.secret("late", "key", "secret arrived"))
	_, err := h.client.CoreV1().ConfigMaps(h.namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "late"}, Data: map[string]string{"key": "map arrived"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.awaitReady("mounts")
	h.awaitLog("mounts", "secret arrived")
	h.awaitReady("reads")
	h.awaitLog("reads", "map arrived\n")
}

func TestDownwardAPIVolumeFollowsThePod(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", `while :; do cat /pod/labels; echo; sleep 0.1; done`)
	pod.Labels = map[string]string{"step": "one"}
	withVolume(pod, "/pod", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
		{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
	}}})
	h.create(pod)
	h.awaitLog("p", `step="one"`)
	h.eventually("the label is changed", func() error {
		current, err := h.get("p")
		if err != nil {
			return err
		}
		current.Labels["step"] = "two"
		_, err = h.client.CoreV1().Pods(h.namespace).Update(t.Context(), current, metav1.UpdateOptions{})
		return err
	})
	h.awaitLog("p", `step="two"`)
	// The status must still be written after a change of labels.
	h.awaitReady("p")
}

// The token of a pod's service account works where its path is mentioned.
func TestServiceAccountToken(t *testing.T) {
	h := startHost(t)
	pod := h.script("p", `cat /var/run/secrets/kubernetes.io/serviceaccount/token; echo; echo "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"; exec sleep 1000`)
	pod.Spec.AutomountServiceAccountToken = nil
	created := h.create(pod)
	log := h.awaitLog("p", "https://127.0.0.1:")
	token, _, _ := strings.Cut(log, "\n")
	review, err := h.client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	user := review.Status.User
	if want := "system:serviceaccount:" + h.namespace + ":default"; !review.Status.Authenticated || user.Username != want {
		t.Errorf("the token belongs to %q (%s), want %q", user.Username, review.Status.Error, want)
	}
	if uid := user.Extra["authentication.kubernetes.io/pod-uid"]; len(uid) != 1 || uid[0] != string(created.UID) {
		t.Errorf("the token is bound to pod %v, want %s", uid, created.UID)
	}
}
