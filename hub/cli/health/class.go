package health

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// builtIn is the provider that every agent has.
const builtIn = "hollow"

// machinesOfClass is what happened to the Machines of a MachineClass.
type machinesOfClass struct {
	// refused failed for their class; reason and message are those of the first of them.
	refused         int
	reason, message string
	running         int
}

// observeMachines notes what happened to the Machines of each class.
func (j *Judge) observeMachines(list *v1alpha1.MachineList) {
	j.classes = map[string]*machinesOfClass{}
	for i := range list.Items {
		machine := &list.Items[i]
		if machine.Spec.ProviderConfig.ValueRef == nil {
			continue
		}
		key := machine.Namespace + "/" + machine.Spec.ProviderConfig.ValueRef.Name
		if j.classes[key] == nil {
			j.classes[key] = &machinesOfClass{}
		}
		switch of, s := j.classes[key], &machine.Status; {
		case slices.Contains([]string{v1alpha1.ErrorUnknownProvider, v1alpha1.ErrorInvalidConfiguration}, s.ErrorReason):
			if of.refused++; of.refused == 1 {
				of.reason, of.message = s.ErrorReason, s.ErrorMessage
			}
		case s.Phase == v1alpha1.MachineRunning:
			of.running++
		}
	}
}

// judgeClass finds a class of which no Machine can be made: its Machines say so, or it can be seen from the class.
func (j *Judge) judgeClass(s *subject) *judgement {
	of := j.classes[s.GetNamespace()+"/"+s.GetName()]
	if of == nil {
		of = &machinesOfClass{}
	}
	provider := s.class.Spec.Provider
	switch wrong := unknownField(s.class); {
	case of.refused > 0:
		return s.newProblem(of.reason, fmt.Sprintf("%s of this class failed with it: %s", plural.Count(of.refused, "Machine"), of.message))
	case wrong != "":
		return s.newProblem(v1alpha1.ErrorInvalidConfiguration, fmt.Sprintf("spec.providerConfig: %s: a Machine of this class fails: correct the field; docs/hollow-nodes.md lists them", wrong))
	case provider != builtIn && of.running == 0:
		return &judgement{Waiting, v1alpha1.ErrorUnknownProvider, fmt.Sprintf("spec.provider: %q is not built in, and no Machine of this class runs: whether the agent of Cluster %s has such a driver is unknown. "+
			"Create a Machine of it, or another class with provider %s", provider, s.GetNamespace(), builtIn), s.GetCreationTimestamp()}
	}
	return nil
}

// unknownField says what of a class's configuration of a hollow Node cannot be decoded; empty for nothing.
func unknownField(class *v1alpha1.MachineClass) string {
	if class.Spec.Provider != builtIn || class.Spec.ProviderConfig == nil || len(class.Spec.ProviderConfig.Raw) == 0 {
		return ""
	}
	if field := findUnknownField(class.Spec.ProviderConfig.Raw, reflect.TypeFor[v1alpha1.HollowNodeConfig]()); field != "" {
		return fmt.Sprintf("%q is not a field of %s", field, v1alpha1.HollowNodeConfigKind)
	}
	if err := json.Unmarshal(class.Spec.ProviderConfig.Raw, &v1alpha1.HollowNodeConfig{}); err != nil {
		return err.Error()
	}
	return ""
}

// findUnknownField finds a field that a struct of the API does not have, in its structs too; empty for none. Names have to be exact: Go's
// decoder takes any case, and the kinds' own decoders bear unknown fields.
func findUnknownField(raw json.RawMessage, kind reflect.Type) string {
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	fields := map[string]json.RawMessage{}
	if kind.Kind() != reflect.Struct || kind.PkgPath() != reflect.TypeFor[v1alpha1.HollowNodeConfig]().PkgPath() || json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	known := fieldsOf(kind)
	for _, field := range sortedKeys(fields) {
		if known[field] == nil {
			return field
		}
		if inner := findUnknownField(fields[field], known[field]); inner != "" {
			return field + "." + inner
		}
	}
	return ""
}

// fieldsOf are the fields of a struct by their names in JSON.
func fieldsOf(kind reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range kind.NumField() {
		field := kind.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name != "":
			fields[name] = field.Type
		case field.Anonymous:
			maps.Copy(fields, fieldsOf(field.Type))
		}
	}
	return fields
}
