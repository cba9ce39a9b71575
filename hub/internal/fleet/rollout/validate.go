package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// validations remembers, by the hashes of merged templates, what the API server said of them. The zero value is ready for use.
type validations struct {
	mu  sync.Mutex
	all map[types.UID]map[string]error
}

func (v *validations) validationOf(fleet types.UID, hash string) (known bool, said error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	said, known = v.all[fleet][hash]
	return known, said
}

func (v *validations) setValidation(fleet types.UID, hash string, said error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all == nil {
		v.all = map[types.UID]map[string]error{}
	}
	if known := v.all[fleet]; known == nil || len(known) > 2*mostOverrides {
		v.all[fleet] = map[string]error{}
	}
	v.all[fleet][hash] = said
}

// mostOverrides is how many a fleet may have.
const mostOverrides = 64

// validateTemplates has the API server look at the merged templates, which it has never seen as a whole, before any of them is applied.
// It is asked once for each, and with a dry run.
func (r *Observer) validateTemplates(ctx context.Context, s *Scope) (*Problem, error) {
	known := map[string]bool{}
	for _, m := range s.Members {
		t := m.template
		if t.hash == "" || !m.Selected || known[t.hash] {
			continue
		}
		asked, said := r.validated.validationOf(s.Fleet.UID, t.hash)
		if !asked {
			var err error
			if asked, said, err = r.askForValidation(ctx, s.Fleet, m); err != nil {
				return nil, fmt.Errorf("having the API server validate %s of machine fleet %s: %w", t.field, s.Fleet.Name, err)
			}
		}
		if !asked {
			continue // Another cluster may say.
		}
		known[t.hash] = true
		r.validated.setValidation(s.Fleet.UID, t.hash, said)
		if said != nil {
			return &Problem{v1alpha1.ReasonInvalidFleet, t.describeRefusal(said)}, nil
		}
	}
	return nil, nil
}

// askForValidation returns what the API server says of a member's template. It says nothing of it where nothing may be created.
func (r *Observer) askForValidation(ctx context.Context, fleet *v1alpha1.MachineFleet, m *Member) (asked bool, said, err error) {
	wanted, err := NewApplied(fleet, m.template.MachineDeploymentTemplate, m.Cluster.Name, m.replicas).NewDeployment(fleet.Name, &Record{})
	if err != nil {
		return false, nil, err
	}
	err = r.Client.Create(ctx, wanted, client.DryRunAll, FieldOwner)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err): // It is validated first.
		return true, nil, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return true, err, nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return false, nil, nil
	}
	return false, nil, err
}

// describeRefusal says what the API server does not take, by its field in the spec of the fleet.
func (t *template) describeRefusal(said error) string {
	var status apierrors.APIStatus
	if errors.As(said, &status) {
		if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
			return fmt.Sprintf("%s.%s: with spec.template it is not a valid MachineDeployment: %s: correct or remove it", t.field, details.Causes[0].Field, details.Causes[0].Message)
		}
	}
	return fmt.Sprintf("%s: with spec.template it is not a valid MachineDeployment: %v: correct or remove it", t.field, said)
}
