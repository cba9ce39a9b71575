// Package content reads the KubeletConfigurations that configSource names.
package content

import (
	"context"
	"fmt"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=hollowfleet-kubelet,verbs=get;list;watch

// Find returns the ConfigMap of a namespace, nil if there is none.
func Find(ctx context.Context, reader client.Reader, namespace string) (*corev1.ConfigMap, error) {
	found := &corev1.ConfigMap{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.KubeletConfigMap}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting ConfigMap %s/%s: %w", namespace, v1alpha1.KubeletConfigMap, err)
	}
	return found, nil
}

// Read returns the value of the ConfigMap that source names, or what is wrong and what to do. found is nil if there is no ConfigMap.
func Read(namespace string, found *corev1.ConfigMap, source *v1alpha1.ConfigSource) (content, problem string) {
	place := fmt.Sprintf("ConfigMap %s/%s", namespace, v1alpha1.KubeletConfigMap)
	if found == nil {
		return "", fmt.Sprintf("%s does not exist: create it with the key %s", place, source.Key)
	}
	content, has := found.Data[source.Key]
	_, binary := found.BinaryData[source.Key]
	switch hash := v1alpha1.ContentHash(content); {
	case binary:
		return "", fmt.Sprintf("key %s of %s is not text: write it into data, not binaryData", source.Key, place)
	case !has:
		return "", fmt.Sprintf("%s has no key %s: add it, or name another key", place, source.Key)
	case content == "":
		return "", fmt.Sprintf("key %s of %s is empty: write a KubeletConfiguration into it", source.Key, place)
	case len(content) > v1alpha1.MaxConfigContent || !utf8.ValidString(content):
		return "", fmt.Sprintf("key %s of %s has %d bytes, or is not UTF-8: shorten it to %d bytes", source.Key, place, len(content), v1alpha1.MaxConfigContent)
	case source.SHA256 != "" && source.SHA256 != hash:
		return "", fmt.Sprintf("key %s of %s has the SHA-256 %s, and sha256 asks for %s: write that content, or change sha256", source.Key, place, hash, source.SHA256)
	}
	return content, ""
}
