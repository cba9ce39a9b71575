// Package image resolves container images. An image is a directory of this
// machine that plays the image's root file system; nothing is ever pulled.
package image

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Set maps image names to absolute directories.
type Set map[string]string

// Find returns the directory of an image. A name with a tag or digest matches
// itself first and then the name without them.
func (s Set) Find(name string) (string, error) {
	if directory, found := s[name]; found {
		return directory, nil
	}
	if directory, found := s[withoutTag(name)]; found {
		return directory, nil
	}
	known := slices.Sorted(maps.Keys(s))
	if len(known) == 0 {
		return "", fmt.Errorf("image %q is unknown and images are never pulled; no image is known: start the podhost with --image %s=DIRECTORY", name, withoutTag(name))
	}
	return "", fmt.Errorf("image %q is unknown and images are never pulled; known are %s: start the podhost with --image %s=DIRECTORY",
		name, strings.Join(known, ", "), withoutTag(name))
}

// withoutTag cuts off the digest and the tag. A colon before the last slash
// belongs to a registry's port.
func withoutTag(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		return name[:colon]
	}
	return name
}

// Inside returns where an absolute or relative path of the image lies on this
// machine. A path cannot lead out of the image's directory.
func Inside(directory, path string) string {
	return filepath.Join(directory, filepath.Clean("/"+path))
}
