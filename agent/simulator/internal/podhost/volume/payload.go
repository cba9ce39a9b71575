package volume

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	configmapvolume "k8s.io/kubernetes/pkg/volume/configmap"
	secretvolume "k8s.io/kubernetes/pkg/volume/secret"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/downward"
)

type files map[string]volumeutil.FileProjection

// payload computes the files of a volume.
func (m *Manager) payload(pod *corev1.Pod, volume *corev1.Volume) (files, error) {
	switch {
	case volume.Secret != nil:
		source := volume.Secret
		return m.secret(pod.Namespace, source.SecretName, source.Items, defaultMode(source.DefaultMode), source.Optional)
	case volume.ConfigMap != nil:
		source := volume.ConfigMap
		return m.configMap(pod.Namespace, source.Name, source.Items, defaultMode(source.DefaultMode), source.Optional)
	case volume.DownwardAPI != nil:
		return m.downwardAPI(pod, volume.DownwardAPI.Items, defaultMode(volume.DownwardAPI.DefaultMode))
	case volume.Projected != nil:
		return m.projected(pod, volume.Projected)
	}
	return nil, errors.New("the volume's kind is not supported")
}

func (m *Manager) secret(namespace, name string, items []corev1.KeyToPath, mode *int32, optional *bool) (files, error) {
	secret, err := m.Objects.GetSecret(namespace, name)
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		secret, err = &corev1.Secret{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	payload, err := secretvolume.MakePayload(items, secret, mode, nil, ptr.Deref(optional, false))
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return payload, nil
}

func (m *Manager) configMap(namespace, name string, items []corev1.KeyToPath, mode *int32, optional *bool) (files, error) {
	configMap, err := m.Objects.GetConfigMap(namespace, name)
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		configMap, err = &corev1.ConfigMap{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	payload, err := configmapvolume.MakePayload(items, configMap, mode, nil, ptr.Deref(optional, false))
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	return payload, nil
}

func (m *Manager) downwardAPI(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32) (files, error) {
	payload := make(files, len(items))
	for _, item := range items {
		var value string
		var err error
		if item.FieldRef != nil {
			value, err = downward.Field(pod, item.FieldRef)
		} else {
			value, err = downward.Resource(pod, "", item.ResourceFieldRef, m.Allocatable)
		}
		if err != nil {
			return nil, fmt.Errorf("filling %s: %w", item.Path, err)
		}
		payload[filepath.Clean(item.Path)] = volumeutil.FileProjection{Data: []byte(value), Mode: ptr.Deref(item.Mode, *mode)}
	}
	return payload, nil
}

func (m *Manager) projected(pod *corev1.Pod, source *corev1.ProjectedVolumeSource) (files, error) {
	payload := make(files)
	mode := defaultMode(source.DefaultMode)
	for _, projection := range source.Sources {
		var part files
		var err error
		switch {
		case projection.Secret != nil:
			part, err = m.secret(pod.Namespace, projection.Secret.Name, projection.Secret.Items, mode, projection.Secret.Optional)
		case projection.ConfigMap != nil:
			part, err = m.configMap(pod.Namespace, projection.ConfigMap.Name, projection.ConfigMap.Items, mode, projection.ConfigMap.Optional)
		case projection.DownwardAPI != nil:
			part, err = m.downwardAPI(pod, projection.DownwardAPI.Items, mode)
		case projection.ServiceAccountToken != nil:
			part, err = m.token(pod, projection.ServiceAccountToken)
		default:
			err = errors.New("the projection's kind is not supported")
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(payload, part)
	}
	return payload, nil
}

// token requests a token that is bound to the pod. Like the kubelet's, it is
// readable by its owner only.
func (m *Manager) token(pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) (files, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	response, err := m.Tokens.GetServiceAccountToken(pod.Namespace, pod.Spec.ServiceAccountName, request)
	if err != nil {
		return nil, fmt.Errorf("requesting a token of service account %s: %w", pod.Spec.ServiceAccountName, err)
	}
	return files{filepath.Clean(source.Path): {Data: []byte(response.Status.Token), Mode: 0o600}}, nil
}

// defaultMode is the API's default if the object did not pass through an API
// server.
func defaultMode(mode *int32) *int32 {
	return ptr.To(ptr.Deref(mode, corev1.SecretVolumeSourceDefaultMode))
}
