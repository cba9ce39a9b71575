package hollow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	strictjson "sigs.k8s.io/json"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	sharedconfig "github.com/hollowfleet/hollowfleet/internal/kubeletconfig"
	"github.com/hollowfleet/hollowfleet/internal/strictyaml"
)

// honouredFields are the fields of a KubeletConfiguration by which a hollow kubelet goes. All others but those that are refused are told
// in the Machine's status.configSource.ignored.
var honouredFields = []string{
	"apiVersion", "kind", "maxPods", "podsPerCore", "eventRecordQPS", "eventBurst", "registryPullQPS", "registryBurst",
	"serializeImagePulls", "maxParallelImagePulls", "configMapAndSecretChangeDetectionStrategy",
	"nodeLeaseDurationSeconds", "nodeStatusUpdateFrequency", "nodeStatusReportFrequency", "kubeAPIQPS", "kubeAPIBurst",
	"registerWithTaints", "kubeReserved", "systemReserved",
	"evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim", "evictionPressureTransitionPeriod", "evictionMaxPodGracePeriod",
	"shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "shutdownGracePeriodByPodPriority",
	"imageMinimumGCAge", "imageMaximumGCAge", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent",
}

const (
	maxReportFrequency = time.Hour
	maxImageAge        = 10 * 365 * 24 * time.Hour
	maxRegisterTaints  = 64
)

// kubeletConfiguration is the KubeletConfiguration of a Machine.
type kubeletConfiguration struct {
	kubeletconfig.KubeletConfiguration
	// hash of the text; empty without one.
	hash string
	// path names it in messages.
	path string
	// ignored are its fields that change nothing.
	ignored []string
}

// decodeKubeletConfiguration reads the KubeletConfiguration of a Machine as strictly as a kubelet reads its own. Its errors are
// *driver.InvalidConfigurationError. Without one it returns nil.
func decodeKubeletConfiguration(machine *v1alpha1.Machine) (*kubeletConfiguration, error) {
	source := machine.Spec.ConfigSource
	if source == nil {
		return nil, nil
	}
	c := &kubeletConfiguration{path: fmt.Sprintf("spec.configSource (key %s of ConfigMap %s)", source.Key, v1alpha1.KubeletConfigMap)}
	if !source.IsResolved() {
		return nil, driver.Invalid(c.path, "the hub has not taken its content yet")
	}
	text := source.Resolved.Content
	c.hash = v1alpha1.ContentHash(text)
	content, err := strictyaml.ToJSON([]byte(text))
	if err != nil {
		return nil, driver.Invalid(c.path, "not a KubeletConfiguration: %v", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(content, &fields); err != nil || fields == nil {
		return nil, driver.Invalid(c.path, "not a KubeletConfiguration: write an object")
	}
	unknown, err := strictjson.UnmarshalStrict(content, &c.KubeletConfiguration)
	if err != nil {
		return nil, driver.Invalid(c.path, "not a KubeletConfiguration: %v", err)
	}
	if want := kubeletconfig.SchemeGroupVersion.String(); c.APIVersion != want || c.Kind != "KubeletConfiguration" {
		return nil, driver.Invalid(c.path, "want apiVersion %s and kind KubeletConfiguration, got %q and %q", want, c.APIVersion, c.Kind)
	}
	if len(unknown) > 0 {
		return nil, driver.Invalid(c.path, "not a field of a KubeletConfiguration, or written twice: %v: correct its name, or remove it", unknown[0])
	}
	if err := c.checkRefused(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(honouredFields, name) && !isUnset(fields[name]) {
			c.ignored = append(c.ignored, name)
		}
	}
	return c, c.checkValues()
}

// isUnset reports whether a value is what a kubelet takes for none.
func isUnset(value json.RawMessage) bool {
	return slices.Contains([]string{"null", `""`, `"0s"`, "0", "{}", "[]"}, string(value))
}

// refuseField is the error of one field.
func (c *kubeletConfiguration) refuseField(field, format string, args ...any) error {
	return driver.Invalid(c.path+"."+field, format, args...)
}

// checkRefused refuses what would make another node than the Machine's, or would change the nodes that share its process.
func (c *kubeletConfiguration) checkRefused() error {
	switch {
	case len(c.FeatureGates) > 0:
		return c.refuseField("featureGates", "hollow nodes share processes and their feature gates: remove %s", strings.Join(slices.Sorted(maps.Keys(c.FeatureGates)), ", "))
	case c.RegisterNode != nil && !*c.RegisterNode:
		return c.refuseField("registerNode", "the Node of a Machine registers itself: remove the field")
	case c.ProviderID != "":
		return c.refuseField("providerID", "the agent sets it: remove the field")
	case c.RunOnce:
		return c.refuseField("runOnce", "kubelets have removed it: leave the field out")
	}
	return nil
}

// number is a field and its bounds; nil is not set.
type number struct {
	field     string
	value     *int32
	low, high int32
}

// unlessZero is a field whose 0 means the kubelet's default.
func unlessZero(value int32) *int32 {
	if value == 0 {
		return nil
	}
	return &value
}

// checkValues refuses the values that the kubelet refuses, or that no node can have.
func (c *kubeletConfiguration) checkValues() error {
	for _, n := range []number{
		{"maxPods", unlessZero(c.MaxPods), minPods, maxPods},
		{"podsPerCore", unlessZero(c.PodsPerCore), 1, maxPods},
		{"eventRecordQPS", c.EventRecordQPS, 0, hollownode.MaxRate},
		{"eventBurst", unlessZero(c.EventBurst), 1, hollownode.MaxRate},
		{"registryPullQPS", c.RegistryPullQPS, 0, hollownode.MaxRate},
		{"registryBurst", unlessZero(c.RegistryBurst), 1, hollownode.MaxRate},
		{"maxParallelImagePulls", c.MaxParallelImagePulls, 1, hollownode.MaxRate},
		{"nodeLeaseDurationSeconds", unlessZero(c.NodeLeaseDurationSeconds), hollownode.MinLeaseSeconds, hollownode.MaxLeaseSeconds},
		{"kubeAPIQPS", c.KubeAPIQPS, 0, hollownode.MaxRate},
		{"kubeAPIBurst", unlessZero(c.KubeAPIBurst), 1, hollownode.MaxRate},
		{"imageGCHighThresholdPercent", c.ImageGCHighThresholdPercent, 0, maxPercent},
		{"imageGCLowThresholdPercent", c.ImageGCLowThresholdPercent, 0, maxPercent},
	} {
		if n.value != nil && (*n.value < n.low || *n.value > n.high) {
			return c.refuseField(n.field, "want a whole number from %d to %d, got %d", n.low, n.high, *n.value)
		}
	}
	if err := c.checkDurations(); err != nil {
		return err
	}
	if err := c.checkShutdown(); err != nil {
		return err
	}
	strategies := []v1alpha1.ChangeDetectionStrategy{v1alpha1.ChangeDetectionWatch, v1alpha1.ChangeDetectionCache, v1alpha1.ChangeDetectionGet}
	if s := v1alpha1.ChangeDetectionStrategy(c.ConfigMapAndSecretChangeDetectionStrategy); s != "" && !slices.Contains(strategies, s) {
		return c.refuseField("configMapAndSecretChangeDetectionStrategy", "want Watch, Cache or Get, got %q", s)
	}
	return c.checkTaints()
}

func (c *kubeletConfiguration) checkDurations() error {
	for _, d := range []struct {
		field     string
		value     metav1.Duration
		low, high time.Duration
	}{
		{"nodeStatusUpdateFrequency", c.NodeStatusUpdateFrequency, hollownode.MinStatusFrequency, hollownode.MaxStatusFrequency},
		{"nodeStatusReportFrequency", c.NodeStatusReportFrequency, hollownode.MinStatusFrequency, maxReportFrequency},
		{"imageMinimumGCAge", c.ImageMinimumGCAge, time.Second, maxImageAge},
		{"imageMaximumGCAge", c.ImageMaximumGCAge, time.Second, maxImageAge},
	} {
		if value := d.value.Duration; value != 0 && (value < d.low || value > d.high) {
			return c.refuseField(d.field, "want a duration from %s to %s, got %s", wholeDuration(d.low), wholeDuration(d.high), value)
		}
	}
	least := c.ImageMinimumGCAge.Duration
	if least == 0 {
		least = hollownode.DefaultImageMinimumGCAge
	}
	if most := c.ImageMaximumGCAge.Duration; most != 0 && most <= least {
		return c.refuseField("imageMaximumGCAge", "%s is not more than the imageMinimumGCAge of %s: raise it", most, least)
	}
	high, low := int32(hollownode.DefaultImageGCHighPercent), int32(hollownode.DefaultImageGCLowPercent)
	replaceIfSet(&high, c.ImageGCHighThresholdPercent)
	replaceIfSet(&low, c.ImageGCLowThresholdPercent)
	if low >= high {
		return c.refuseField("imageGCLowThresholdPercent", "%d is not less than the imageGCHighThresholdPercent of %d: lower it", low, high)
	}
	return nil
}

func (c *kubeletConfiguration) checkTaints() error {
	if len(c.RegisterWithTaints) > maxRegisterTaints {
		return c.refuseField("registerWithTaints", "want at most %d taints, got %d", maxRegisterTaints, len(c.RegisterWithTaints))
	}
	for i, taint := range c.RegisterWithTaints {
		if err := node.ValidateTaint(fmt.Sprintf("%s.registerWithTaints[%d]", c.path, i), taint); err != nil {
			return err
		}
		if taint.TimeAdded != nil {
			return c.refuseField(fmt.Sprintf("registerWithTaints[%d].timeAdded", i), "a kubelet does not take it: remove the field")
		}
	}
	return nil
}

// putInto lets what c sets go before what config sets.
func (c *kubeletConfiguration) putInto(config *v1alpha1.HollowNodeConfig) {
	if c.MaxPods != 0 {
		config.MaxPods = &c.MaxPods
	}
	kubelet := &v1alpha1.HollowKubelet{}
	if config.Kubelet != nil {
		kubelet = config.Kubelet
	}
	config.Kubelet = kubelet
	takeIfSet(&kubelet.EventRecordQPS, c.EventRecordQPS)
	takeIfSet(&kubelet.EventBurst, unlessZero(c.EventBurst))
	takeIfSet(&kubelet.RegistryPullQPS, c.RegistryPullQPS)
	takeIfSet(&kubelet.RegistryBurst, unlessZero(c.RegistryBurst))
	takeIfSet(&kubelet.SerializeImagePulls, c.SerializeImagePulls)
	takeIfSet(&kubelet.MaxParallelImagePulls, c.MaxParallelImagePulls)
	takeIfSet(&kubelet.NodeLeaseDurationSeconds, unlessZero(c.NodeLeaseDurationSeconds))
	if c.NodeStatusUpdateFrequency.Duration != 0 {
		kubelet.NodeStatusUpdateFrequency = &c.NodeStatusUpdateFrequency
	}
	if strategy := c.ConfigMapAndSecretChangeDetectionStrategy; strategy != "" {
		kubelet.ConfigMapAndSecretChangeDetectionStrategy = v1alpha1.ChangeDetectionStrategy(strategy)
	}
}

func takeIfSet[T any](target **T, with *T) {
	if with != nil {
		*target = with
	}
}

// forNode is what a hollow-node of this capacity is told of c, beside what putInto has put into the rest of its configuration.
func (c *kubeletConfiguration) forNode(capacity corev1.ResourceList) (*hollownode.KubeletConfiguration, error) {
	reserved, err := sharedconfig.SumReservations(c.KubeletConfiguration, capacity)
	if err != nil {
		return nil, c.refuseError(err)
	}
	told := &hollownode.KubeletConfiguration{
		SHA256: c.hash, Reserved: reserved,
		PodsPerCore: c.PodsPerCore, KubeAPIQPS: c.KubeAPIQPS, KubeAPIBurst: c.KubeAPIBurst,
		NodeStatusReportFrequency: c.NodeStatusReportFrequency,
		ImageMinimumGCAge:         c.ImageMinimumGCAge, ImageMaximumGCAge: c.ImageMaximumGCAge,
		ImageGCHighThresholdPercent: c.ImageGCHighThresholdPercent, ImageGCLowThresholdPercent: c.ImageGCLowThresholdPercent,
	}
	c.tellShutdown(told)
	if told.Evictions, err = c.resolveEvictions(capacity); err != nil {
		return nil, err
	}
	if told.NodeStatusReportFrequency.Duration == 0 {
		// The kubelet's own default for one that sets how often it computes the status.
		told.NodeStatusReportFrequency = c.NodeStatusUpdateFrequency
	}
	return told, nil
}

// registrationTaints are the taints that the Node registers with: those of the Machine, and of c what they leave.
func (c *kubeletConfiguration) registrationTaints(taints []corev1.Taint) []corev1.Taint {
	all := slices.Clone(taints)
	for _, taint := range c.RegisterWithTaints {
		if !slices.ContainsFunc(all, func(own corev1.Taint) bool { return own.MatchTaint(&taint) }) {
			all = append(all, taint)
		}
	}
	return all
}
