package hollownode

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/kubeletversion"
)

// checkConfiguration refuses what the API server or the kubelet would refuse later, when it would be an
// endless series of failed registrations and not an error at start.
func checkConfiguration(c contract.Configuration) error {
	problems := []error{checkVersions(c), checkLabels(c.Labels), checkTaints(c.Taints), checkStaticPods(c)}
	if faults := validation.IsDNS1123Subdomain(c.NodeName); len(faults) > 0 {
		problems = append(problems, fmt.Errorf("nodeName: %s", strings.Join(faults, "; ")))
	}
	if _, ok := c.Capacity[corev1.ResourcePods]; ok {
		problems = append(problems, errors.New("capacity.pods: pods are counted by maxPods"))
	}
	for name, quantity := range c.Capacity {
		if quantity.Sign() < 0 {
			problems = append(problems, fmt.Errorf("capacity.%s: want 0 or more, got %s", name, quantity.String()))
		}
	}
	return errors.Join(problems...)
}

func checkVersions(c contract.Configuration) error {
	var problems []error
	if c.KubeletVersion != "" {
		if err := contract.CheckKubeletVersion(c.KubeletVersion); err != nil {
			problems = append(problems, fmt.Errorf("kubeletVersion: %w", err))
		}
	}
	if c.ContainerRuntimeVersion != "" {
		if err := contract.CheckContainerRuntimeVersion(c.ContainerRuntimeVersion); err != nil {
			problems = append(problems, fmt.Errorf("containerRuntimeVersion: %w", err))
		}
	}
	return errors.Join(append(problems, checkCode(c, kubeletversion.BuiltIn()))...)
}

func checkLabels(labels map[string]string) error {
	var problems []error
	for key, value := range labels {
		faults := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		if len(faults) > 0 {
			problems = append(problems, fmt.Errorf("labels: %s=%s: %s", key, value, strings.Join(faults, "; ")))
		}
	}
	return errors.Join(problems...)
}

func checkTaints(taints []corev1.Taint) error {
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	var problems []error
	for i, taint := range taints {
		faults := append(validation.IsQualifiedName(taint.Key), validation.IsValidLabelValue(taint.Value)...)
		if !slices.Contains(effects, taint.Effect) {
			faults = append(faults, fmt.Sprintf("unknown effect %q", taint.Effect))
		}
		if len(faults) > 0 {
			problems = append(problems, fmt.Errorf("taints[%d]: %s", i, strings.Join(faults, "; ")))
		}
	}
	return errors.Join(problems...)
}
