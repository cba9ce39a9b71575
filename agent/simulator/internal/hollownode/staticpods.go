package hollownode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
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
	logger := logr.New(endingSink{klog.FromContext(ctx).GetSink(), n.life})
	shared.startWithoutLoop(func() {
		config.NewSourceFile(logger, directory, types.NodeName(n.configuration.NodeName), n.settings.FileCheckFrequency.Duration,
			pods.Channel(ctx, kubetypes.FileSource))
	})
	return nil
}

// startWithoutLoop calls start, which starts one loop that asks for wait.NeverStop, and lets that loop end before its first round. The source of
// static pods lists its directory, and also watches it with one of the few inotify instances that a user may have.
func (p *process) startWithoutLoop(start func()) {
	p.building.Lock()
	defer p.building.Unlock()
	never := wait.NeverStop
	defer func() { wait.NeverStop = never }()
	stop := make(chan struct{}, 1)
	wait.NeverStop = stop
	stop <- struct{}{}
	start()
	stop <- struct{}{} // There is room once the loop has taken the first.
}

// endingSink ends the goroutine that logs to it with its node: the source of static pods asks whether to log each time it reads a file, and
// nothing else that leads out of the kubelet's code.
type endingSink struct {
	logr.LogSink
	life *life
}

// Init does nothing: the sink is initialized.
func (endingSink) Init(logr.RuntimeInfo) {}

// Enabled is asked before each message.
func (s endingSink) Enabled(level int) bool {
	_ = s.life.endGoroutine()
	return s.LogSink.Enabled(level)
}

// Error logs an error, for which Enabled is not asked.
func (s endingSink) Error(err error, message string, keysAndValues ...any) {
	_ = s.life.endGoroutine()
	s.LogSink.Error(err, message, keysAndValues...)
}
