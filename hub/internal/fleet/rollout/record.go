package rollout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// Record is what FleetRecordAnnotation says of one cluster. On a SimulatedCluster it says how far that is with a version of its set, which
// takes the place of the fleet, as the SimulatedCluster takes that of the MachineDeployment.
type Record struct {
	// Fleet and UID are of the MachineFleet to which the MachineDeployment belongs. A fleet that is recreated is another one.
	Fleet string    `json:"fleet"`
	UID   types.UID `json:"uid"`
	// Namespace and Deployment, a UID, are those of the MachineDeployment that the record is of. A copy elsewhere takes the record
	// along, and not the UID. It is not known before the object is there, so the record that one is created with has the namespace
	// only, and the next write adds the UID. Records of older hubs have neither: see legacy.
	Namespace  string    `json:"namespace,omitempty"`
	Deployment types.UID `json:"deployment,omitempty"`
	// Revision, Phase, Since and Held are a plan.Record.
	Revision string     `json:"revision"`
	Phase    plan.Phase `json:"phase"`
	// Since is text with all digits of a second: a soak is not to start over, nor to end early, for a rounded time.
	Since string `json:"since"`
	Held  bool   `json:"held,omitempty"`
	// Group is the decision group in which the revision was started. The cluster keeps it, whatever its labels say later.
	Group string `json:"group,omitempty"`
	// Previous is the revision that a rollback brings back; FleetPreviousAnnotation has what was applied of it. Retried is a
	// spec.retriedAt. Both are of a plan.Record.
	Previous string `json:"previous,omitempty"`
	Retried  string `json:"retried,omitempty"`
	// Started is when the revision was started, and Empty says that the cluster had no Machine in its soak. Both are of a plan.Record.
	Begun string `json:"begun,omitempty"`
	Empty bool   `json:"empty,omitempty"`
	// SoakDue is of a plan.Record: when the first soak was to end.
	SoakDue string `json:"soakDue,omitempty"`
	// Cause is why the cluster failed with the revision. After a rollback nothing else says so.
	Cause string `json:"cause,omitempty"`
	// Started and Soaked are when the revision was started in the cluster, and when it soaked there first, for the record of the
	// rollout.
	Began  string `json:"began,omitempty"`
	Soaked string `json:"soaked,omitempty"`
}

// ReadRecord returns the record on a MachineDeployment; nil if there is none that can be read.
func ReadRecord(deployment metav1.Object) *Record {
	text, found := deployment.GetAnnotations()[v1alpha1.FleetRecordAnnotation]
	if !found {
		return nil
	}
	r := &Record{}
	if err := json.Unmarshal([]byte(text), r); err != nil || r.UID == "" {
		return nil
	}
	if _, err := time.Parse(time.RFC3339Nano, r.Since); err != nil {
		return nil
	}
	for _, optional := range []*string{&r.Retried, &r.Begun, &r.SoakDue} {
		if _, err := time.Parse(time.RFC3339Nano, *optional); err != nil {
			*optional = ""
		}
	}
	return r
}

// OwnRecord returns the record on a MachineDeployment, which may be nil, if it is the fleet's and of this very object.
func OwnRecord(fleet *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) *Record {
	if deployment == nil {
		return nil
	}
	return RecordOn(fleet, deployment)
}

// RecordOn returns the record on an object if it is of the owner, a MachineFleet or a SimulatedClusterSet, and of this very object.
func RecordOn(owner, object metav1.Object) *Record {
	if r := ReadRecord(object); r != nil && r.UID == owner.GetUID() && r.isOf(object) {
		return r
	}
	return nil
}

// isOf reports whether the record was written on this object, as far as the record can tell.
func (r *Record) isOf(deployment metav1.Object) bool {
	if r.isLegacy() {
		last := readApplied(deployment) // It has the namespace.
		return last != nil
	}
	return r.Namespace == deployment.GetNamespace() && (r.Deployment == "" || r.Deployment == deployment.GetUID())
}

// isLegacy reports whether the record was written by a hub that did not note of which object it is. It is the object's only if that hub
// wrote it there, which the API server knows: see wroteRecord.
func (r *Record) isLegacy() bool { return r.Namespace == "" && r.Deployment == "" }

// BindTo notes of which object the record is.
func (r *Record) BindTo(deployment metav1.Object) *Record {
	bound := *r
	bound.Namespace, bound.Deployment = deployment.GetNamespace(), deployment.GetUID()
	return &bound
}

// PlannedRecord is the record as the planner has it.
func (r *Record) PlannedRecord() plan.Record {
	if r == nil {
		return plan.Record{}
	}
	since, _ := time.Parse(time.RFC3339Nano, r.Since)     // readRecord has parsed it.
	retried, _ := time.Parse(time.RFC3339Nano, r.Retried) // The zero time if there was none.
	begun, _ := time.Parse(time.RFC3339Nano, r.Begun)
	due, _ := time.Parse(time.RFC3339Nano, r.SoakDue)
	return plan.Record{
		Revision: r.Revision, Phase: r.Phase, Since: since, Held: r.Held, Previous: r.Previous, Retried: retried, Begun: begun, Empty: r.Empty, SoakDue: due,
	}
}

// NewRecord is the record that a change leads to.
func NewRecord(owner metav1.Object, p plan.Record, group string) *Record {
	r := &Record{
		Fleet: owner.GetName(), UID: owner.GetUID(), Revision: p.Revision, Phase: p.Phase,
		Since: p.Since.UTC().Format(time.RFC3339Nano), Held: p.Held, Group: group, Previous: p.Previous, Empty: p.Empty,
	}
	if !p.Begun.IsZero() {
		r.Begun = p.Begun.UTC().Format(time.RFC3339Nano)
	}
	if !p.SoakDue.IsZero() {
		r.SoakDue = p.SoakDue.UTC().Format(time.RFC3339Nano)
	}
	if !p.Retried.IsZero() {
		r.Retried = p.Retried.UTC().Format(time.RFC3339Nano)
	}
	return r
}

// TemplateRevision is the revision whose template the MachineDeployment has.
func (r *Record) TemplateRevision() string {
	switch r.Phase {
	case plan.RollingBack, plan.RolledBack, plan.RollbackFailed:
		return r.Previous
	case plan.ToApply, plan.Progressing, plan.Soaking, plan.Succeeded, plan.Failed, plan.TimedOut:
	}
	return r.Revision
}

// AnnotationValue is the value of the annotation.
func (r *Record) AnnotationValue() string {
	text, _ := json.Marshal(r) // It has texts and a bool only.
	return string(text)
}

// revisionLength is how many digits of a hash a revision has.
const revisionLength = 10

// TextRevision is the revision of a fleet's templates: a hash, so that the templates of an earlier revision are that revision
// again, and clusters that still have it are not started a second time. Without templates in overrides it is that of
// spec.template alone.
func TextRevision(fleet *v1alpha1.MachineFleet) (string, error) {
	return hashOf(keptOf(fleet))
}

// hashOf is the hash of what a template is written as.
func hashOf(template any) (string, error) {
	text, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("writing the template as text: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:revisionLength], nil
}

// keepTimes takes over from the last record when the revision was started and soaked.
func (r *Record) keepTimes(last *Record, starts bool) {
	switch {
	case starts:
		r.Began = r.Since
	case last != nil && last.Revision == r.Revision:
		r.Began, r.Soaked = last.Began, last.Soaked
	}
	if r.Phase == plan.Soaking && r.Soaked == "" {
		r.Soaked = r.Since
	}
}

// provenRecord returns the record on a MachineDeployment, which may be nil, if it is the fleet's and of this very object. For a record
// of an older hub, which does not name its object, the API server is asked once who wrote it.
func (r *Observer) provenRecord(ctx context.Context, fleet *v1alpha1.MachineFleet, deployment *v1alpha1.MachineDeployment) (*Record, error) {
	found := OwnRecord(fleet, deployment)
	if found == nil || !found.isLegacy() {
		return found, nil
	}
	proven, known := r.proven.ValueOf(deployment.UID)
	if !known {
		live := &v1alpha1.MachineDeployment{}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(deployment), live)
		switch {
		case apierrors.IsNotFound(err) || err == nil && live.UID != deployment.UID:
			return found, nil // Its event is on the way, and no write can succeed.
		case err != nil:
			return nil, fmt.Errorf("asking who wrote the record of machine deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
		}
		proven = wroteRecord(live)
		r.proven.SetValue(deployment.UID, proven)
	}
	if !proven {
		return nil, nil
	}
	return found, nil
}

// wroteRecord reports whether a hub wrote the record on this object. Whoever applies a copy is the manager of all fields in it.
func wroteRecord(deployment metav1.Object) bool {
	for _, entry := range deployment.GetManagedFields() {
		if entry.Manager == string(FieldOwner) && entry.FieldsV1 != nil &&
			bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:`+v1alpha1.FleetRecordAnnotation+`"`)) {
			return true
		}
	}
	return false
}

// A record names the revision of the fleet and, where an override has its part in the template, that template's hash after a
// dot: a cluster for which another override holds from now on does not have the revision. The planner knows one revision for all
// clusters, so what a member is to have is that one for it.

const hashMark = "."

// wantedRecord is what the record of a member says when it has the current revision.
func (m *Member) wantedRecord(s *Scope) string {
	if m.template.hash == "" {
		return s.Revision
	}
	return s.Revision + hashMark + m.template.hash
}

// toPlan is a revision of a member's record as the planner has it.
func (m *Member) toPlan(s *Scope, revision string) string {
	switch revision {
	case m.wantedRecord(s):
		return s.Revision
	case s.Revision:
		return s.Revision + hashMark // The fleet's, but not with the template that the member is to have.
	}
	return revision
}

// fromPlan is the opposite of toPlan.
func (m *Member) fromPlan(s *Scope, revision string) string {
	switch revision {
	case s.Revision:
		return m.wantedRecord(s)
	case s.Revision + hashMark:
		return s.Revision
	}
	return revision
}

// dropUnchanged reads a record of an older hub, which noted the hash of the template also where an override changes nothing of it.
func (r *Record) dropUnchanged(revision, unchanged string) {
	for _, stored := range []*string{&r.Revision, &r.Previous} {
		if *stored == revision+hashMark+unchanged {
			*stored = revision
		}
	}
}

// storedRecord is a record of the planner as it is stored.
func (m *Member) storedRecord(s *Scope, r plan.Record) plan.Record {
	r.Revision, r.Previous = m.fromPlan(s, r.Revision), m.fromPlan(s, r.Previous)
	return r
}

// FleetRevision is the revision of the fleet in a stored one.
func FleetRevision(stored string) string {
	revision, _, _ := strings.Cut(stored, hashMark)
	return revision
}
