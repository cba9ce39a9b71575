package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
)

// podhostRunner returns what runs the podhost.
func podhostRunner(images map[string]string, capacity corev1.ResourceList) func(context.Context, controlplane.PodhostConfig) error {
	return func(ctx context.Context, config controlplane.PodhostConfig) error {
		return podhost.Run(ctx, podhost.Options{
			Name:       config.NodeName,
			Kubeconfig: config.Kubeconfig,
			DataDir:    config.DataDir,
			Images:     images,
			Capacity:   capacity,
			Ready:      config.Ready,
		})
	}
}

// parseImages reads NAME=DIR pairs.
func parseImages(pairs []string) (map[string]string, error) {
	images := map[string]string{}
	for _, pair := range pairs {
		name, dir, ok := strings.Cut(pair, "=")
		if !ok || name == "" || dir == "" {
			return nil, usageError(fmt.Errorf("--image=%q is not NAME=DIR", pair))
		}
		if _, twice := images[name]; twice {
			return nil, usageError(fmt.Errorf("--image=%q: the image is there twice", pair))
		}
		absolute, err := existingDir(dir)
		if err != nil {
			return nil, usageError(fmt.Errorf("--image=%q: %w", pair, err))
		}
		images[name] = absolute
	}
	return images, nil
}

func existingDir(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", errors.New("it is not a directory")
	}
	return absolute, nil
}

// parseCapacity reads a list such as cpu=4,memory=8Gi,pods=110. An empty text
// is an empty list.
func parseCapacity(text string) (corev1.ResourceList, error) {
	if text == "" {
		return nil, nil
	}
	capacity := corev1.ResourceList{}
	for pair := range strings.SplitSeq(text, ",") {
		name, amount, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usageError(fmt.Errorf("--podhost-capacity: %q is not resource=amount", pair))
		}
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, usageError(fmt.Errorf("--podhost-capacity: %q: %w", pair, err))
		}
		if quantity.Sign() < 0 {
			return nil, usageError(fmt.Errorf("--podhost-capacity: %q is negative", pair))
		}
		capacity[corev1.ResourceName(name)] = quantity
	}
	return capacity, nil
}
