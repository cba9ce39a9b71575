package hollow

import (
	"encoding/json"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/hollowfleet/hollowfleet/agent/driver"
)

// Users write provider configurations, and no schema of the API server checks them.
// Edge case: Inputs without a fuzz test. Also: FuzzTokens; agent/internal/csrapprover FuzzRequestsAreDecided; agent/internal/freeze FuzzUptime; hub/internal/autoscaler FuzzDecide; hub/internal/machineset/plan FuzzAnnotations; hub/cmd/hub FuzzFlagValues; agent/simulator/cmd/simcluster FuzzImages; agent/simulator/internal/fakecri FuzzLifetime.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "{}", `{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`,
		`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","capacity":{"cpu":"1e-2000000000"}}`,
		`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","capacity":{"example.com/gpu":"2","memory":"16Gi"},` +
			`"maxPods":30,"osImage":"x","startupDelay":"30s","podResources":{"cpu":"20m"}}`,
		`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","startupDelay":"2d"}`,
		`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","hostPath":"/"}`,
		`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","profile":"Realistic","probes":"Skip","terminationPercent":50,` +
			`"imagePull":{"bytesPerSecond":"1e-2000000000","failurePercent":5,"seed":-1},"kubelet":{"eventRecordQPS":0,"serializeImagePulls":null}}`,
		`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","imagePull":{"bytesPerSecond":"1e15"},"kubelet":{"maxParallelImagePulls":5,` +
			`"configMapAndSecretChangeDetectionStrategy":"Watch"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		config, err := decodeConfig(&runtime.RawExtension{Raw: raw}, "spec.providerConfig")
		if invalid := (*driver.InvalidConfigurationError)(nil); err != nil && !errors.As(err, &invalid) {
			t.Fatalf("%q: the error names no field: %v", raw, err)
		}
		if err != nil {
			return
		}
		written, err := json.Marshal(config)
		if err != nil {
			t.Fatalf("%q is accepted and cannot be written: %v", raw, err)
		}
		fidelity, err := fidelityOf(config, "spec.providerConfig")
		if invalid := (*driver.InvalidConfigurationError)(nil); err != nil && !errors.As(err, &invalid) {
			t.Fatalf("%q: the error names no field: %v", raw, err)
		}
		if fidelity != nil && fidelity.Validate() != nil {
			t.Errorf("%q becomes what a hollow-node refuses: %v", raw, fidelity.Validate())
		}
		for name, quantity := range config.Capacity {
			if quantityProblem(name, quantity) != "" || capacityName(string(name)) != "" {
				t.Errorf("%q: the capacity %s of %s is accepted: %s", raw, quantity.String(), name, written)
			}
		}
	})
}

// The annotations of a pod's Secret can be edited, and the token comes from an API server.
func FuzzTokens(f *testing.F) {
	f.Add("h.eyJqdGkiOiJhIn0.s", "a,b,,c", "2026-01-01T00:00:00Z")
	f.Add("..", "", "soon")
	f.Fuzz(func(t *testing.T, token, ids, expiry string) {
		if id, err := tokenID(token); err == nil && id == "" {
			t.Errorf("%q has an empty ID", token)
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			tokenIDsAnnotation: ids, tokenExpiryAnnotation: expiry,
		}}}
		_ = expiryOf(secret)
		secret.Annotations[tokenIDsAnnotation] = withTokenID(secret, "new")
		if kept := tokenIDs(secret); len(kept) > keptTokenIDs || kept[0] != "new" {
			t.Errorf("%q: kept %q", ids, kept)
		}
	})
}
