package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// An object that the API server has and this code cannot decode, because an older CustomResourceDefinition let it in or a
// backup brought it back, must not make a list or a watch fail: all other objects are in the same answer. So every kind
// decodes itself. Where spec or status cannot be decoded, the object has its metadata and DecodeError and nothing else, and
// cannot be encoded again, so that no write puts an empty spec in the place of the one that was not understood. See
// docs/design/2026-11-24-undecodable-objects.md.

// maxDecodeError bounds DecodeError, because a decoder may repeat what it was given.
const maxDecodeError = 256

// decodeObject decodes data, which is JSON, into an object. If it cannot, it returns why, with the metadata.
func decodeObject(data []byte, into any) (problem string, header metav1.PartialObjectMetadata, err error) {
	cause := utiljson.Unmarshal(data, into)
	if cause == nil {
		return "", header, nil
	}
	if err := utiljson.Unmarshal(data, &header); err != nil {
		return "", header, err
	}
	return fmt.Sprintf("%.*s", maxDecodeError, cause.Error()), header, nil
}

func encodeError(kind string, object metav1.ObjectMeta, problem string) error {
	return fmt.Errorf("%s %s was not decoded (%s), so it cannot be written: repair it with kubectl edit", kind, object.Name, problem)
}

// NotDecoded says why spec and status could not be decoded; it is empty for an object that was decoded.
func (c *Cluster) NotDecoded() string { return c.DecodeError }

// UnmarshalJSON implements json.Unmarshaler. What it cannot decode is no error, but told in DecodeError.
func (c *Cluster) UnmarshalJSON(data []byte) error {
	type plain Cluster
	var decoded plain
	problem, header, err := decodeObject(data, &decoded)
	if *c = Cluster(decoded); problem != "" {
		*c = Cluster{TypeMeta: header.TypeMeta, ObjectMeta: header.ObjectMeta, DecodeError: problem}
	}
	return err
}

// MarshalJSON implements json.Marshaler. An object that was not decoded is an error.
func (c Cluster) MarshalJSON() ([]byte, error) {
	if c.DecodeError != "" {
		return nil, encodeError("Cluster", c.ObjectMeta, c.DecodeError)
	}
	type plain Cluster
	return json.Marshal(plain(c))
}

// NotDecoded says why spec and status could not be decoded; it is empty for an object that was decoded.
func (c *MachineClass) NotDecoded() string { return c.DecodeError }

// UnmarshalJSON implements json.Unmarshaler. What it cannot decode is no error, but told in DecodeError.
func (c *MachineClass) UnmarshalJSON(data []byte) error {
	type plain MachineClass
	var decoded plain
	problem, header, err := decodeObject(data, &decoded)
	if *c = MachineClass(decoded); problem != "" {
		*c = MachineClass{TypeMeta: header.TypeMeta, ObjectMeta: header.ObjectMeta, DecodeError: problem}
	}
	return err
}

// MarshalJSON implements json.Marshaler. An object that was not decoded is an error.
func (c MachineClass) MarshalJSON() ([]byte, error) {
	if c.DecodeError != "" {
		return nil, encodeError("MachineClass", c.ObjectMeta, c.DecodeError)
	}
	type plain MachineClass
	return json.Marshal(plain(c))
}

// NotDecoded says why spec and status could not be decoded; it is empty for an object that was decoded.
func (d *MachineDeployment) NotDecoded() string { return d.DecodeError }

// UnmarshalJSON implements json.Unmarshaler. What it cannot decode is no error, but told in DecodeError.
func (d *MachineDeployment) UnmarshalJSON(data []byte) error {
	type plain MachineDeployment
	var decoded plain
	problem, header, err := decodeObject(data, &decoded)
	if *d = MachineDeployment(decoded); problem != "" {
		*d = MachineDeployment{TypeMeta: header.TypeMeta, ObjectMeta: header.ObjectMeta, DecodeError: problem}
	}
	return err
}

// MarshalJSON implements json.Marshaler. An object that was not decoded is an error.
func (d MachineDeployment) MarshalJSON() ([]byte, error) {
	if d.DecodeError != "" {
		return nil, encodeError("MachineDeployment", d.ObjectMeta, d.DecodeError)
	}
	type plain MachineDeployment
	return json.Marshal(plain(d))
}

// NotDecoded says why spec and status could not be decoded; it is empty for an object that was decoded.
func (f *MachineFleet) NotDecoded() string { return f.DecodeError }

// UnmarshalJSON implements json.Unmarshaler. What it cannot decode is no error, but told in DecodeError.
func (f *MachineFleet) UnmarshalJSON(data []byte) error {
	type plain MachineFleet
	var decoded plain
	problem, header, err := decodeObject(data, &decoded)
	if *f = MachineFleet(decoded); problem != "" {
		*f = MachineFleet{TypeMeta: header.TypeMeta, ObjectMeta: header.ObjectMeta, DecodeError: problem}
	}
	return err
}

// MarshalJSON implements json.Marshaler. An object that was not decoded is an error.
func (f MachineFleet) MarshalJSON() ([]byte, error) {
	if f.DecodeError != "" {
		return nil, encodeError("MachineFleet", f.ObjectMeta, f.DecodeError)
	}
	type plain MachineFleet
	return json.Marshal(plain(f))
}

// NotDecoded says why spec and status could not be decoded; it is empty for an object that was decoded.
func (s *MachineSet) NotDecoded() string { return s.DecodeError }

// UnmarshalJSON implements json.Unmarshaler. What it cannot decode is no error, but told in DecodeError.
func (s *MachineSet) UnmarshalJSON(data []byte) error {
	type plain MachineSet
	var decoded plain
	problem, header, err := decodeObject(data, &decoded)
	if *s = MachineSet(decoded); problem != "" {
		*s = MachineSet{TypeMeta: header.TypeMeta, ObjectMeta: header.ObjectMeta, DecodeError: problem}
	}
	return err
}

// MarshalJSON implements json.Marshaler. An object that was not decoded is an error.
func (s MachineSet) MarshalJSON() ([]byte, error) {
	if s.DecodeError != "" {
		return nil, encodeError("MachineSet", s.ObjectMeta, s.DecodeError)
	}
	type plain MachineSet
	return json.Marshal(plain(s))
}

// NotDecoded says why spec and status could not be decoded; it is empty for an object that was decoded.
func (m *Machine) NotDecoded() string { return m.DecodeError }

// UnmarshalJSON implements json.Unmarshaler. What it cannot decode is no error, but told in DecodeError.
func (m *Machine) UnmarshalJSON(data []byte) error {
	type plain Machine
	var decoded plain
	problem, header, err := decodeObject(data, &decoded)
	if *m = Machine(decoded); problem != "" {
		*m = Machine{TypeMeta: header.TypeMeta, ObjectMeta: header.ObjectMeta, DecodeError: problem}
	}
	return err
}

// MarshalJSON implements json.Marshaler. An object that was not decoded is an error.
func (m Machine) MarshalJSON() ([]byte, error) {
	if m.DecodeError != "" {
		return nil, encodeError("Machine", m.ObjectMeta, m.DecodeError)
	}
	type plain Machine
	return json.Marshal(plain(m))
}

// NotDecoded says why spec and status could not be decoded; it is empty for an object that was decoded.
func (r *NodeDisruptionRun) NotDecoded() string { return r.DecodeError }

// UnmarshalJSON implements json.Unmarshaler. What it cannot decode is no error, but told in DecodeError.
func (r *NodeDisruptionRun) UnmarshalJSON(data []byte) error {
	type plain NodeDisruptionRun
	var decoded plain
	problem, header, err := decodeObject(data, &decoded)
	if *r = NodeDisruptionRun(decoded); problem != "" {
		*r = NodeDisruptionRun{TypeMeta: header.TypeMeta, ObjectMeta: header.ObjectMeta, DecodeError: problem}
	}
	return err
}

// MarshalJSON implements json.Marshaler. An object that was not decoded is an error.
func (r NodeDisruptionRun) MarshalJSON() ([]byte, error) {
	if r.DecodeError != "" {
		return nil, encodeError("NodeDisruptionRun", r.ObjectMeta, r.DecodeError)
	}
	type plain NodeDisruptionRun
	return json.Marshal(plain(r))
}

// NotDecoded says why spec and status could not be decoded; it is empty for an object that was decoded.
func (d *NodeDisruption) NotDecoded() string { return d.DecodeError }

// UnmarshalJSON implements json.Unmarshaler. What it cannot decode is no error, but told in DecodeError.
func (d *NodeDisruption) UnmarshalJSON(data []byte) error {
	type plain NodeDisruption
	var decoded plain
	problem, header, err := decodeObject(data, &decoded)
	if *d = NodeDisruption(decoded); problem != "" {
		*d = NodeDisruption{TypeMeta: header.TypeMeta, ObjectMeta: header.ObjectMeta, DecodeError: problem}
	}
	return err
}

// MarshalJSON implements json.Marshaler. An object that was not decoded is an error.
func (d NodeDisruption) MarshalJSON() ([]byte, error) {
	if d.DecodeError != "" {
		return nil, encodeError("NodeDisruption", d.ObjectMeta, d.DecodeError)
	}
	type plain NodeDisruption
	return json.Marshal(plain(d))
}

// NotDecoded says why spec and status could not be decoded; it is empty for an object that was decoded.
func (r *LoadTestRun) NotDecoded() string { return r.DecodeError }

// UnmarshalJSON implements json.Unmarshaler. What it cannot decode is no error, but told in DecodeError.
func (r *LoadTestRun) UnmarshalJSON(data []byte) error {
	type plain LoadTestRun
	var decoded plain
	problem, header, err := decodeObject(data, &decoded)
	if *r = LoadTestRun(decoded); problem != "" {
		*r = LoadTestRun{TypeMeta: header.TypeMeta, ObjectMeta: header.ObjectMeta, DecodeError: problem}
	}
	return err
}

// MarshalJSON implements json.Marshaler. An object that was not decoded is an error.
func (r LoadTestRun) MarshalJSON() ([]byte, error) {
	if r.DecodeError != "" {
		return nil, encodeError("LoadTestRun", r.ObjectMeta, r.DecodeError)
	}
	type plain LoadTestRun
	return json.Marshal(plain(r))
}

// NotDecoded says why spec and status could not be decoded; it is empty for an object that was decoded.
func (t *LoadTest) NotDecoded() string { return t.DecodeError }

// UnmarshalJSON implements json.Unmarshaler. What it cannot decode is no error, but told in DecodeError.
func (t *LoadTest) UnmarshalJSON(data []byte) error {
	type plain LoadTest
	var decoded plain
	problem, header, err := decodeObject(data, &decoded)
	if *t = LoadTest(decoded); problem != "" {
		*t = LoadTest{TypeMeta: header.TypeMeta, ObjectMeta: header.ObjectMeta, DecodeError: problem}
	}
	return err
}

// MarshalJSON implements json.Marshaler. An object that was not decoded is an error.
func (t LoadTest) MarshalJSON() ([]byte, error) {
	if t.DecodeError != "" {
		return nil, encodeError("LoadTest", t.ObjectMeta, t.DecodeError)
	}
	type plain LoadTest
	return json.Marshal(plain(t))
}
