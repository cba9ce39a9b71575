package sbom

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// WriteChart writes what a packaged chart consists of to a file in the CycloneDX format: the images that its values name, and its files with
// their SHA-256. An image without a tag has the chart's appVersion, as in the templates.
func WriteChart(packed, to string) error {
	loaded, err := loader.Load(packed)
	if err != nil {
		return fmt.Errorf("reading chart %s: %w", packed, err)
	}
	own := cyclonedx.Component{
		Type: cyclonedx.ComponentTypeApplication, Name: loaded.Name(), Version: loaded.Metadata.Version, Description: loaded.Metadata.Description,
		PackageURL: packageurl.NewPackageURL(packageurl.TypeHelm, "", loaded.Name(), loaded.Metadata.Version, nil, "").ToString(),
	}
	own.BOMRef = own.PackageURL
	components := listImages(loaded.Values, loaded.Metadata.AppVersion)
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return cmp.Compare(a.PackageURL, b.PackageURL) })
	var references []string
	for _, image := range components {
		references = append(references, image.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &own}
	components = append(components, listFiles(loaded)...)
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: own.BOMRef, Dependencies: &references}}
	return writeBOM(bom, to)
}

// listImages returns the image of each value that has a repository, however deep it is.
func listImages(values map[string]any, version string) (images []cyclonedx.Component) {
	for _, value := range values {
		if inner, ok := value.(map[string]any); ok {
			images = append(images, listImages(inner, version)...)
		}
	}
	repository, ok := values["repository"].(string)
	if !ok {
		return images
	}
	text := func(key string) string { value, _ := values[key].(string); return value }
	name, registry := repository, packageurl.Qualifiers{}
	if host := text("registry"); host != "" {
		name, registry = host+"/"+repository, packageurl.QualifiersFromMap(map[string]string{"repository_url": host})
	}
	image := cyclonedx.Component{Type: cyclonedx.ComponentTypeContainer, Name: name, Version: cmp.Or(text("digest"), text("tag"), version)}
	namespace, base := path.Split(repository)
	image.PackageURL = packageurl.NewPackageURL(packageurl.TypeDocker, strings.TrimSuffix(namespace, "/"), base, image.Version, registry, "").ToString()
	image.BOMRef = image.PackageURL
	return append(images, image)
}

// listFiles returns the files of a chart in the order of their names.
func listFiles(loaded *chart.Chart) []cyclonedx.Component {
	var files []cyclonedx.Component
	for _, file := range loaded.Raw {
		sum := sha256.Sum256(file.Data)
		files = append(files, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeFile, BOMRef: "file:" + file.Name, Name: file.Name,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		})
	}
	slices.SortFunc(files, func(a, b cyclonedx.Component) int { return cmp.Compare(a.Name, b.Name) })
	return files
}
