package disrupt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Annotation, on the pod of a hollow node, has its plan. It is written by the agent; no annotation means no fault.
	Annotation = "hollowfleet.io/disruptions"
	// VolumeName is the volume of a hollow-node's pod through which it reads its annotation. A pod without such a volume
	// was made by an agent that knew nothing of disruptions, and cannot be disrupted.
	VolumeName = "disruptions"
	// FileName is the file of that volume.
	FileName = "plan.json"

	// Version is the version of the format.
	Version = "v1"

	// MaxBytes bounds an encoded plan. All annotations of an object together may have 256 KiB.
	MaxBytes = 64 << 10
	// MaxEntries bounds the entries of a plan.
	MaxEntries = 32
	// MaxLength bounds the time from the start of an entry to its end.
	MaxLength = 30 * 24 * time.Hour
	// MaxRepeat bounds the windows of an entry.
	MaxRepeat = 100_000
	// MinUnhealthyFor is the shortest window.
	MinUnhealthyFor = time.Second
)

// Plan is all that goes wrong on one node.
type Plan struct {
	// version is Version. Encode sets it.
	Version string `json:"version"`
	// entries are the faults, in any order. They do not know of each other: two that overlap are both carried out.
	Entries []Entry `json:"entries"`
}

// Entry is one fault of one run, with its times.
type Entry struct {
	// run is the name of the NodeDisruptionRun, for logs and messages.
	Run string `json:"run"`
	// uid is that of the run, and index the number of the fault in it. Together they tell entries apart.
	UID   string `json:"uid"`
	Index int32  `json:"index,omitempty"`
	// fault is what goes wrong.
	Fault Fault `json:"fault"`
	// seed decides the jitter, and which requests and pods a fault hits.
	Seed int64 `json:"seed,omitempty"`
	// timing is when.
	Timing `json:",inline"`
}

// Timing is a series of windows in which a fault is there. The node is well for healthyFor, then disrupted for
// unhealthyFor, and so on from start to end; what is under way at the end is cut off.
type Timing struct {
	// start is when healthyFor starts for the first time, in whole seconds.
	Start metav1.Time `json:"start"`
	// end is when all is over, in whole seconds. Required, and at most MaxLength after start.
	End metav1.Time `json:"end"`
	// healthyFor is how long the node is well before each window. Default 0s.
	HealthyFor metav1.Duration `json:"healthyFor,omitzero"`
	// unhealthyFor is how long a window is. Default 0s, which means one window that lasts until the end.
	UnhealthyFor metav1.Duration `json:"unhealthyFor,omitzero"`
	// jitter is up to how much later a window starts and ends, different for each window and node. With more than one window
	// it is at most healthyFor, so that the windows stay apart. Default 0s.
	Jitter metav1.Duration `json:"jitter,omitzero"`
	// repeat is how many windows there are. Default 0, which means as many as start before the end.
	Repeat int32 `json:"repeat,omitempty"`
}

// Encode renders a valid plan as the annotation's value. A plan without entries is the empty text: the annotation is to be
// removed.
func Encode(p Plan) (string, error) {
	if len(p.Entries) == 0 {
		return "", nil
	}
	p.Version = Version
	if err := p.Validate(); err != nil {
		return "", err
	}
	data, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encoding the plan: %w", err)
	}
	return string(data), checkSize(len(data))
}

// Decode reads an annotation's value. The empty text is a plan without entries. Unknown fields, another version and
// whatever Validate reports are errors, which name the field and what to do.
func Decode(data []byte) (Plan, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return Plan{Version: Version}, nil
	}
	if err := checkSize(len(data)); err != nil {
		return Plan{}, err
	}
	var raw struct {
		Version string            `json:"version"`
		Entries []json.RawMessage `json:"entries"`
	}
	// The version comes first: a plan of another one may have any fields.
	var versioned struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(data, &versioned); err != nil {
		return Plan{}, fmt.Errorf("plan: not a JSON object of a plan: remove the annotation %s, and the agent rewrites it: %w", Annotation, err)
	}
	if err := checkVersion(versioned.Version); err != nil {
		return Plan{}, err
	}
	if err := decodeStrictly(data, &raw); err != nil {
		return Plan{}, fmt.Errorf("plan: want version and entries: %w", err)
	}
	if err := checkCount(len(raw.Entries)); err != nil {
		return Plan{}, err
	}
	p := Plan{Version: raw.Version}
	for i, entry := range raw.Entries {
		var e Entry
		if err := decodeStrictly(entry, &e); err != nil {
			return Plan{}, fmt.Errorf("entries[%d]: a field that version %s does not have, or a value of another type: update hollow node and agent to the same release: %w", i, Version, err)
		}
		e.Start.Time, e.End.Time = e.Start.UTC(), e.End.UTC()
		p.Entries = append(p.Entries, e)
	}
	return p, p.Validate()
}

// decodeStrictly decodes one JSON value and refuses unknown fields.
func decodeStrictly(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the end of the object")
	}
	return nil
}

func checkVersion(version string) error {
	if version != Version {
		return fmt.Errorf("version: want %q, got %q: update hollow node and agent to the same release", Version, version)
	}
	return nil
}

func checkSize(size int) error {
	if size > MaxBytes {
		return fmt.Errorf("plan: %d bytes are more than %d: disrupt the node by fewer runs at a time", size, MaxBytes)
	}
	return nil
}

func checkCount(count int) error {
	if count > MaxEntries {
		return fmt.Errorf("entries: %d are more than %d: disrupt the node by fewer runs at a time", count, MaxEntries)
	}
	return nil
}
