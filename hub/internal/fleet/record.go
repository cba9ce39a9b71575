package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// record is what FleetRecordAnnotation says of one cluster.
type record struct {
	// Fleet and UID are of the MachineFleet to which the MachineDeployment belongs. A fleet that is made anew is another one.
	Fleet string    `json:"fleet"`
	UID   types.UID `json:"uid"`
	// Revision, Phase, Since and Held are a plan.Record.
	Revision string     `json:"revision"`
	Phase    plan.Phase `json:"phase"`
	// Since is text with all digits of a second: a soak is not to begin anew, nor to end early, for a rounded time.
	Since string `json:"since"`
	Held  bool   `json:"held,omitempty"`
	// Group is the decision group in which the revision was begun. The cluster keeps it, whatever its labels say later.
	Group string `json:"group,omitempty"`
}

// readRecord returns the record on a MachineDeployment; nil if there is none that can be read.
func readRecord(deployment metav1.Object) *record {
	text, found := deployment.GetAnnotations()[v1alpha1.FleetRecordAnnotation]
	if !found {
		return nil
	}
	r := &record{}
	if err := json.Unmarshal([]byte(text), r); err != nil || r.UID == "" {
		return nil
	}
	if _, err := time.Parse(time.RFC3339Nano, r.Since); err != nil {
		return nil
	}
	return r
}

// ownRecord returns the record on a MachineDeployment, which may be nil, if it is the fleet's.
func ownRecord(fleet *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) *record {
	if deployment == nil {
		return nil
	}
	if r := readRecord(deployment); r != nil && r.UID == fleet.UID {
		return r
	}
	return nil
}

// planned is the record as the planner has it.
func (r *record) planned() plan.Record {
	if r == nil {
		return plan.Record{}
	}
	since, _ := time.Parse(time.RFC3339Nano, r.Since) // readRecord has parsed it.
	return plan.Record{Revision: r.Revision, Phase: r.Phase, Since: since, Held: r.Held}
}

// newRecord is the record that a change leads to.
func newRecord(fleet *v1alpha1.MachineFleet, p plan.Record, group string) *record {
	return &record{
		Fleet: fleet.Name, UID: fleet.UID, Revision: p.Revision, Phase: p.Phase,
		Since: p.Since.UTC().Format(time.RFC3339Nano), Held: p.Held, Group: group,
	}
}

// text is the value of the annotation.
func (r *record) text() string {
	text, _ := json.Marshal(r) // It has texts and a bool only.
	return string(text)
}

// revisionLength is how many digits of a hash a revision has.
const revisionLength = 10

// revisionOf is the revision of a template: a hash, so that the template of an earlier revision is that revision again, and
// clusters that still have it are not begun a second time.
func revisionOf(template *v1alpha1.MachineDeploymentTemplate) (string, error) {
	text, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("writing the template as text: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:revisionLength], nil
}
