// Package environment builds the environment variables of containers by the
// kubelet's rules.
package environment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/downward"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/pathmap"
)

// Objects reads the Secrets and ConfigMaps that pods refer to.
type Objects interface {
	GetSecret(namespace, name string) (*corev1.Secret, error)
	GetConfigMap(namespace, name string) (*corev1.ConfigMap, error)
}

// Input is what an environment is built from.
type Input struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// Allocatable stands in for limits that the container does not have.
	Allocatable corev1.ResourceList
	Objects     Objects
	// Services are the variables that describe services.
	Services map[string]string
	// Runtime are the variables that a container runtime would set. Those of
	// the container win over them.
	Runtime map[string]string
}

// Environment holds the variables of one container.
type Environment struct {
	values  map[string]string
	literal map[string]bool
	runtime map[string]string
	lookup  func(string) string
}

// Build resolves all variables. An error means that an object or a key is
// missing: it may appear later.
func Build(in Input) (*Environment, error) {
	e := &Environment{
		values:  make(map[string]string),
		literal: make(map[string]bool),
		runtime: in.Runtime,
	}
	e.lookup = expansion.MappingFuncFor(e.values, in.Services)
	for _, source := range in.Container.EnvFrom {
		if err := e.addAll(in, source); err != nil {
			return nil, err
		}
	}
	for i := range in.Container.Env {
		if err := e.add(in, &in.Container.Env[i]); err != nil {
			return nil, err
		}
	}
	for name, value := range in.Services {
		if _, set := e.values[name]; !set {
			e.values[name] = value
		}
	}
	return e, nil
}

// Expand replaces the $(NAME) references of a text.
func (e *Environment) Expand(text string) string {
	return expansion.Expand(text, e.lookup)
}

// List returns the variables as NAME=VALUE, sorted by name. Mount paths in
// values that the pod's spec gives literally are replaced.
func (e *Environment) List(paths pathmap.Map) []string {
	merged := maps.Clone(e.runtime)
	if merged == nil {
		merged = make(map[string]string)
	}
	for name, value := range e.values {
		if e.literal[name] {
			value = paths.Apply(value)
		}
		merged[name] = value
	}
	list := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		list = append(list, name+"="+merged[name])
	}
	return list
}

func (e *Environment) addAll(in Input, source corev1.EnvFromSource) error {
	add := func(key, value string) {
		e.values[source.Prefix+key] = value
		delete(e.literal, source.Prefix+key)
	}
	switch {
	case source.ConfigMapRef != nil:
		configMap, err := optionally(source.ConfigMapRef.Optional, in.Pod.Namespace, source.ConfigMapRef.Name, in.Objects.GetConfigMap)
		if err != nil {
			return fmt.Errorf("reading ConfigMap %s: %w", source.ConfigMapRef.Name, err)
		}
		for key, value := range ptr.Deref(configMap, corev1.ConfigMap{}).Data {
			add(key, value)
		}
	case source.SecretRef != nil:
		secret, err := optionally(source.SecretRef.Optional, in.Pod.Namespace, source.SecretRef.Name, in.Objects.GetSecret)
		if err != nil {
			return fmt.Errorf("reading Secret %s: %w", source.SecretRef.Name, err)
		}
		for key, value := range ptr.Deref(secret, corev1.Secret{}).Data {
			add(key, string(value))
		}
	}
	return nil
}

func (e *Environment) add(in Input, variable *corev1.EnvVar) error {
	if variable.ValueFrom == nil || variable.Value != "" {
		e.values[variable.Name] = e.Expand(variable.Value)
		e.literal[variable.Name] = true
		return nil
	}
	value, found, err := resolve(in, variable.ValueFrom)
	if err != nil {
		return fmt.Errorf("setting the variable %s: %w", variable.Name, err)
	}
	if found {
		e.values[variable.Name] = value
		delete(e.literal, variable.Name)
	}
	return nil
}

func resolve(in Input, source *corev1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case source.FieldRef != nil:
		value, err = downward.Field(in.Pod, source.FieldRef)
		return value, err == nil, err
	case source.ResourceFieldRef != nil:
		value, err = downward.Resource(in.Pod, in.Container.Name, source.ResourceFieldRef, in.Allocatable)
		return value, err == nil, err
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		configMap, err := optionally(ref.Optional, in.Pod.Namespace, ref.Name, in.Objects.GetConfigMap)
		if err != nil {
			return "", false, fmt.Errorf("reading ConfigMap %s: %w", ref.Name, err)
		}
		value, found = ptr.Deref(configMap, corev1.ConfigMap{}).Data[ref.Key]
		return value, found, missing(found, ref.Optional, "ConfigMap", ref.Name, ref.Key)
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		secret, err := optionally(ref.Optional, in.Pod.Namespace, ref.Name, in.Objects.GetSecret)
		if err != nil {
			return "", false, fmt.Errorf("reading Secret %s: %w", ref.Name, err)
		}
		data, found := ptr.Deref(secret, corev1.Secret{}).Data[ref.Key]
		return string(data), found, missing(found, ref.Optional, "Secret", ref.Name, ref.Key)
	}
	return "", false, fmt.Errorf("its source is of an unknown kind")
}

func missing(found bool, optional *bool, kind, name, key string) error {
	if found || ptr.Deref(optional, false) {
		return nil
	}
	return fmt.Errorf("%s %s has no key %s", kind, name, key)
}

// optionally reads an object. It returns nil without an error for an optional
// object that does not exist.
func optionally[T any](optional *bool, namespace, name string, get func(namespace, name string) (*T, error)) (*T, error) {
	object, err := get(namespace, name)
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		return nil, nil
	}
	return object, err
}

// Invalid tells why a variable cannot be passed to a process, or returns "".
func Invalid(list []string) string {
	for _, variable := range list {
		if strings.ContainsRune(variable, 0) {
			name, _, _ := strings.Cut(variable, "=")
			return fmt.Sprintf("the value of %s contains a NUL byte", name)
		}
	}
	return ""
}
