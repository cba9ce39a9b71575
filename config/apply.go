package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldManager owns what Apply writes.
const FieldManager = "hollowfleet-install"

// Apply applies every object of the YAML files in dir of files, in the order of the file names. An object
// that is as wanted already is left as it is.
func Apply(ctx context.Context, c client.Client, files fs.FS, dir string) error {
	objects, err := Read(files, dir)
	if err != nil {
		return err
	}
	for _, object := range objects {
		apply := client.ApplyConfigurationFromUnstructured(object)
		if err := c.Apply(ctx, apply, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Read reads every object of the YAML files in dir of files, in the order of the file names.
func Read(files fs.FS, dir string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, dir+"/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading manifests in %s: %w", dir, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("reading manifests: no *.yaml in %s", dir)
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("reading manifest %s: %w", name, err)
			}
			if len(object.Object) > 0 {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}
