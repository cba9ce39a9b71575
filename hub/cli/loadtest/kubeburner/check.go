package kubeburner

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/config"
)

// ofNoNamespace are Kubernetes' own kinds that are in no namespace, and those of OpenShift that its tests use.
var ofNoNamespace = []string{
	"APIService", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "ClusterTrustBundle", "CSIDriver", "CSINode", "CustomResourceDefinition", "DeviceClass",
	"FlowSchema", "IngressClass", "IPAddress", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace", "Node",
	"PersistentVolume", "PriorityClass", "PriorityLevelConfiguration", "Project", "ResourceSlice", "RuntimeClass", "ServiceCIDR", "StorageClass", "StorageVersion",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttachment", "VolumeAttributesClass",
}

var strictly = sync.OnceValue(func() runtime.Decoder {
	return serializer.NewCodecFactory(clientgoscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
})

// checkFields refuses what a run would refuse: the agent makes nothing outside of its namespaces, and nothing with fields that do not exist.
func (d *document) checkFields() {
	if slices.Contains(ofNoNamespace, d.kind) {
		d.refuseDocument("%s makes a %s, which is in no namespace: a load test makes only what is in its own namespaces", d.file, d.kind)
		return
	}
	_, _, err := strictly().Decode([]byte(d.fillForIndex(d.text, 0)), nil, nil)
	switch strict, isStrict := runtime.AsStrictDecodingError(err); {
	case err == nil, runtime.IsNotRegisteredError(err):
	case isStrict:
		d.refuseDocument("%s: Kubernetes' %s of %s has no such field: %s: remove it", d.file, d.kind, d.apiVersion, strings.TrimPrefix(errors.Join(strict.Errors()...).Error(), "strict decoding error: "))
	default:
		d.refuseDocument("%s: %v", d.file, err)
	}
}

// groupResource is what RBAC calls the objects.
func (d *document) groupResource() schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(d.apiVersion, d.kind))
	return plural.GroupResource()
}

// rights are the resources that agents may make by config/rbac/agent-load-tests.
var rights = sync.OnceValue(func() map[schema.GroupResource]bool {
	may := map[schema.GroupResource]bool{}
	text, err := fs.ReadFile(config.RBAC, "rbac/agent-load-tests/role.yaml")
	if err != nil {
		return may
	}
	first, _, _ := strings.Cut(string(text), "\n---\n")
	role := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal([]byte(first), role); err != nil {
		return may
	}
	for _, rule := range role.Rules {
		if !slices.Contains(rule.Verbs, "create") || !slices.Contains(rule.Verbs, "watch") {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				may[schema.GroupResource{Group: group, Resource: resource}] = true
			}
		}
	}
	return may
})
