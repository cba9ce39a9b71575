// Package version tells which version of its source a program was built from.
package version

import (
	"runtime/debug"
	"strings"
)

// unknown is the version of a program that was built without a repository, such as a test or one from an archive.
const unknown = "dev"

// revisionLength is that of Go's own versions of commits.
const revisionLength = 12

// Here is the version of this program.
func Here() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return versionOf(info)
}

// Label is the version of this program as the value of a label, which cannot have a "+".
func Label() string { return strings.ReplaceAll(Here(), "+", "_") }

// versionOf is the release that was built if the commit has a tag, such as v0.2.0, and else the start of the commit's name.
// "+dirty" says that files were changed since.
func versionOf(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	revision := settings["vcs.revision"]
	release := strings.TrimSuffix(info.Main.Version, "+dirty")
	if len(revision) < revisionLength {
		if release == "" || release == "(devel)" {
			return unknown
		}
		return info.Main.Version // It was built as a module that another module requires, or a user installs.
	}
	revision = revision[:revisionLength]
	version := release
	if !strings.HasPrefix(release, "v") || strings.HasSuffix(release, revision) {
		version = revision
	}
	if settings["vcs.modified"] == "true" {
		version += "+dirty"
	}
	return version
}
