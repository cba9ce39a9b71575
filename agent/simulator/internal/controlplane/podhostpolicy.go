package controlplane

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
)

// podhostPolicy lets only the agent create the pods that the podhost starts.
//
//go:embed podhostpolicy.yaml
var podhostPolicy string

// startPodhost brings the podhost up once its policy is there: it never starts a pod that anyone else may have created.
func (s *supervisor) startPodhost(ctx context.Context) error {
	if !s.options.hasComponent(Podhost) {
		return nil
	}
	if s.options.PodhostNamespace != "" {
		objects, err := decodeManifest([]byte(strings.ReplaceAll(podhostPolicy, "{{namespace}}", s.options.PodhostNamespace)))
		if err != nil {
			return fmt.Errorf("reading the policy of the podhost: %w", err)
		}
		if err := s.applyObjects(ctx, objects); err != nil {
			return fmt.Errorf("keeping the namespace of the podhost to its agent: %w", err)
		}
	}
	return s.bringUp(ctx, Podhost)
}
