package fakecri

import (
	"fmt"
	"strconv"
	"time"
)

// ExitAfterAnnotation and ExitCodeAnnotation, on a pod, end its main containers: the one after how long
// ("30s"), the other with which exit code (0 to 255, default 0). Without them containers run forever.
const (
	ExitAfterAnnotation = "hollowfleet.io/exit-after"
	ExitCodeAnnotation  = "hollowfleet.io/exit-code"
)

// Role is what a container is for.
type Role int

const (
	// MainContainer runs forever unless the pod's annotations say otherwise.
	MainContainer Role = iota
	// InitContainer ends at once with exit code 0, or the pod would never start.
	InitContainer
	// Sidecar runs until it is stopped, whatever the annotations say.
	Sidecar
)

// lifetime is when and how a container ends by itself.
type lifetime struct {
	ends     bool
	after    time.Duration
	exitCode int32
}

// lifetimeOf reads a pod's annotations.
func lifetimeOf(annotations map[string]string) (lifetime, error) {
	text, ends := annotations[ExitAfterAnnotation]
	if !ends {
		return lifetime{}, nil
	}
	after, err := parseAfter(ExitAfterAnnotation, text)
	if err != nil {
		return lifetime{}, err
	}
	life := lifetime{ends: true, after: after}
	if text, ok := annotations[ExitCodeAnnotation]; ok {
		code, err := strconv.ParseUint(text, 10, 8)
		if err != nil {
			return lifetime{}, fmt.Errorf("annotation %s: want a number from 0 to 255, got %q", ExitCodeAnnotation, text)
		}
		life.exitCode = int32(code)
	}
	return life, nil
}

// lifetimeFor narrows a pod's lifetime to one of its containers.
func (l lifetime) lifetimeFor(role Role) lifetime {
	switch role {
	case InitContainer:
		return lifetime{ends: true}
	case Sidecar:
		return lifetime{}
	default:
		return l
	}
}
