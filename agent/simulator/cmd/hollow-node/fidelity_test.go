package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Edge case: No join without /etc/passwd.
func TestANodeJoinsInAnImageFromScratch(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("hiding /etc from a process takes root")
	}
	p := newProcess(t, realCluster(t), configurationOf("scratch"), goodToken)
	p.withoutEtc = true
	p.join(t)
}

// PodSecurity "restricted" asks for a user other than root and for no number.
// Edge case: Non-root hollow pods did not start.
func TestPodsOfEveryUserRun(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("users"), goodToken)
	p.join(t)
	for name, user := range map[string]*corev1.PodSecurityContext{
		"not-root": {RunAsNonRoot: ptr.To(true)},
		"numbered": {RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](1000)},
		"root":     {RunAsUser: ptr.To[int64](0)},
		"any":      nil,
	} {
		p.create(t, p.pod(name, func(pod *corev1.Pod) { pod.Spec.SecurityContext = user }), isReady)
	}
}

// An endpoint with a loopback address is invalid, and with it all endpoints of its Service.
func TestAServiceOfPodsOnTheHostNetworkHasEndpoints(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("endpoints"), goodToken)
	p.join(t)
	labels := map[string]string{"app": "endpoints"}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "endpoints"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := p.client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.create(t, p.pod("host", func(pod *corev1.Pod) { pod.Labels, pod.Spec.HostNetwork = labels, true }), isReady)
	p.create(t, p.pod("own", func(pod *corev1.Pod) { pod.Labels = labels }), isReady)
	eventually(t, "the Service has both pods as endpoints", time.Minute, func(ctx context.Context) error {
		slices, err := p.client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=endpoints"})
		if err != nil {
			return err
		}
		ready := 0
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				if ptr.Deref(endpoint.Conditions.Ready, false) {
					ready++
				}
			}
		}
		if ready != 2 {
			return fmt.Errorf("%d endpoints are ready", ready)
		}
		return nil
	})
}

// Edge case: `hollow-node --version` was unknown.
func TestVersionIsPrinted(t *testing.T) {
	for _, arguments := range []string{"version", "--version"} {
		output, err := exec.Command(binary(t, "hollow-node"), arguments).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(output), "v1.") {
			t.Errorf("hollow-node %s: %v, %q", arguments, err, output)
		}
	}
}

// Nothing makes volumes here, but what was made by hand is bound and mounted.
// Edge case: Claims were never bound or deleted.
func TestAPodWithAClaimOfAVolumeMadeByHandRuns(t *testing.T) {
	t.Parallel()
	p := newProcess(t, realCluster(t), configurationOf("claims"), goodToken)
	p.join(t)
	resources := corev1.ResourceList{corev1.ResourceStorage: *newQuantity(1 << 30)}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "by-hand"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: resources, AccessModes: modes,
			// Without this the other claim, which asks for no volume by name, may be given it.
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "bound"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nowhere", Path: "/by-hand"}},
		},
	}
	if _, err := p.client.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claims := p.client.CoreV1().PersistentVolumeClaims("default")
	for name, volume := range map[string]string{"bound": "by-hand", "unbound": ""} {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: ptr.To(""), VolumeName: volume, AccessModes: modes,
				Resources: corev1.VolumeResourceRequirements{Requests: resources},
			},
		}
		if volume == "" {
			claim.Spec.StorageClassName = nil
		}
		if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.create(t, p.pod("claims", func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "bound"},
		}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}), isReady)
	eventually(t, "the claim without a volume says why", time.Minute, func(ctx context.Context) error {
		events, err := p.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=unbound"})
		if err != nil {
			return err
		}
		if len(events.Items) == 0 || !strings.Contains(events.Items[0].Message, "no storage class") {
			return fmt.Errorf("%d events", len(events.Items))
		}
		return nil
	})
	p.deleteAndWait(t, p.name+"-claims")
	for _, name := range []string{"bound", "unbound"} {
		if err := claims.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the claim "+name+" is gone", time.Minute, func(ctx context.Context) error {
			if _, err := claims.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("the claim is there"), err)
			}
			return nil
		})
	}
}
