package hollownode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"
)

// checkStaticPods refuses manifests that the kubelet would leave out with a line in its log.
func checkStaticPods(c contract.Configuration) error {
	var problems []error
	for i, manifest := range c.StaticPods {
		object, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), manifest)
		if err != nil {
			problems = append(problems, fmt.Errorf("staticPods[%d]: %w", i, err))
			continue
		}
		pod, ok := object.(*core.Pod)
		if !ok {
			problems = append(problems, fmt.Errorf("staticPods[%d]: want a Pod, got a %T", i, object))
			continue
		}
		pod.Namespace, pod.Spec.NodeName = cmp.Or(pod.Namespace, metav1.NamespaceDefault), c.NodeName
		options := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
		if err := validation.ValidatePodCreate(pod, options).ToAggregate(); err != nil {
			problems = append(problems, fmt.Errorf("staticPods[%d]: %w", i, err))
		}
	}
	return errors.Join(problems...)
}

// watchStaticPods gives the kubelet its source of static pods, with the manifests of the configuration in a directory, if there are any.
func (n *node) watchStaticPods(ctx context.Context, pods *config.PodConfig) error {
	directory := filepath.Join(n.options.StateDir, "static-pods")
	if err := os.RemoveAll(directory); err != nil {
		return fmt.Errorf("static pods: removing those of an earlier configuration: %w", err)
	}
	if len(n.configuration.StaticPods) == 0 {
		return nil
	}
	problems := []error{os.MkdirAll(directory, 0o700)}
	for i, manifest := range n.configuration.StaticPods {
		problems = append(problems, os.WriteFile(filepath.Join(directory, fmt.Sprintf("%d.json", i)), manifest, 0o600))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("static pods: writing the manifests: %w", err)
	}
	readStaticPods := n.makeStaticPodReader(ctx, pods, directory)
	go wait.UntilWithContext(ctx, readStaticPods, n.settings.FileCheckFrequency.Duration)
	return nil
}

// makeStaticPodReader returns what reads the manifests in a directory once, with the kubelet's source of static pods. The source's own loop
// would also watch the directory, with one of the few inotify instances that a user may have, and would not end with the node.
func (n *node) makeStaticPodReader(ctx context.Context, pods *config.PodConfig, directory string) func(context.Context) {
	updates := pods.Channel(ctx, kubetypes.FileSource)
	source := newFileSource(directory, types.NodeName(n.configuration.NodeName), n.settings.FileCheckFrequency.Duration, pointerOf(&updates))
	return func(ctx context.Context) {
		logger := klog.FromContext(ctx)
		if err := readFileSource(source, logger); err != nil {
			logger.Error(err, "Reading the manifests of static pods failed", "directory", directory)
		}
	}
}
