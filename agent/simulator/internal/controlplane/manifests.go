package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// manifestManager owns the fields of the manifests' objects.
const manifestManager = "simcluster"

// readManifests reads the objects of YAML and JSON files. Of a directory, those are its
// files with such endings, in the order of their names.
func readManifests(paths []string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			files = nil
			for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
				matches, err := filepath.Glob(filepath.Join(path, pattern))
				if err != nil {
					return nil, err
				}
				files = append(files, matches...)
			}
			slices.Sort(files)
		}
		for _, file := range files {
			read, err := readManifest(file)
			if err != nil {
				return nil, fmt.Errorf("%w: --manifest: reading %s: %w", ErrInvalid, file, err)
			}
			objects = append(objects, read...)
		}
	}
	return objects, nil
}

func readManifest(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return decodeManifest(content)
}

func decodeManifest(content []byte) ([]*unstructured.Unstructured, error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var objects []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		fields := map[string]any{}
		if err := yaml.Unmarshal(document, &fields); err != nil {
			return nil, err
		}
		if len(fields) == 0 {
			continue // It has nothing but comments.
		}
		object := &unstructured.Unstructured{Object: fields}
		if object.GetAPIVersion() == "" || object.GetKind() == "" || object.GetName() == "" {
			return nil, errors.New("an object has no apiVersion, kind or name")
		}
		objects = append(objects, object)
	}
}

// applyManifests applies the manifests, as a server-side apply by the administrator. What
// an earlier start has applied and is in no manifest any more stays.
func (s *supervisor) applyManifests(ctx context.Context) error {
	if len(s.manifests) == 0 {
		return nil
	}
	begun := time.Now()
	if err := s.applyObjects(ctx, s.manifests); err != nil {
		return err
	}
	s.printStep("%d object(s) of manifests applied in %s", len(s.manifests), formatSeconds(begun))
	return nil
}

// applyObjects waits until the API server has taken all objects.
func (s *supervisor) applyObjects(ctx context.Context, objects []*unstructured.Unstructured) error {
	config, err := s.adminConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.client.Discovery()))
	for _, object := range objects {
		var last error
		// An API server that has just started may not serve all kinds, or not have all namespaces yet.
		err := wait.PollUntilContextCancel(ctx, objectPoll, true, func(ctx context.Context) (bool, error) {
			err := applyObject(ctx, client, mapper, object)
			if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) { // It would be refused forever.
				return false, err
			}
			if meta.IsNoMatchError(err) {
				mapper.Reset()
			}
			last = err
			return err == nil, nil
		})
		if err != nil {
			return fmt.Errorf("applying %s %s of a manifest: %w", object.GetKind(), object.GetName(), errors.Join(err, last))
		}
	}
	return nil
}

func applyObject(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		resource = client.Resource(mapping.Resource).Namespace(namespace)
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: manifestManager, Force: true})
	return err
}
