package main

import (
	"os"
	"regexp"

	"sigs.k8s.io/yaml"
)

// krewPlugin is a plugin manifest, as https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest has it. Without a list of files, krew
// installs all of the archive.
type krewPlugin struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   krewName `json:"metadata"`
	Spec       krewSpec `json:"spec"`
}

type krewName struct {
	Name string `json:"name"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// krewFile is named like the plugin, as krew wants it.
const krewFile = "hollow.yaml"

var notInVersion = regexp.MustCompile(`[^0-9A-Za-z]+`)

// krewVersion is a semantic version, as krew wants it, also of a snapshot.
func (o options) krewVersion() string {
	if releaseVersion.MatchString(o.version) {
		return o.version
	}
	return "v0.0.0-snapshot." + notInVersion.ReplaceAllString(o.version, "-")
}

// krewPlatformOf is the entry of an archive.
func (o options) krewPlatformOf(p platform, plugin, sum string) krewPlatform {
	return krewPlatform{
		Selector: krewSelector{MatchLabels: map[string]string{"os": p.os, "arch": p.arch}},
		URI:      o.download + "/" + o.archiveName(p), SHA256: sum, Bin: plugin,
	}
}

func (o options) writeKrew(platforms []krewPlatform, to string) error {
	text, err := yaml.Marshal(krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewName{Name: "hollow"},
		Spec: krewSpec{
			Version: o.krewVersion(), Homepage: repository, ShortDescription: "Roll out, break and load-test fleets of clusters",
			Description: "Works with a Hollowfleet hub: shows what freezes clusters, rolls machines and control planes out in waves,\n" +
				"approves, pauses and undoes rollouts, breaks nodes on purpose and runs load tests over many clusters.\n" +
				"On Linux it also starts a whole fleet of simulated clusters on one machine.\n",
			Platforms: platforms,
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
