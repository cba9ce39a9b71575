package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// source is what is built.
type source struct {
	commit string
	// time is that of the commit, or SOURCE_DATE_EPOCH; each file of a release has it.
	time time.Time
	// changed are files that are not as in the commit.
	changed []string
	// tags are those of the commit.
	tags []string
	// changelog is the text of CHANGELOG.md.
	changelog string
}

func readSource(ctx context.Context, root string) (source, error) {
	git := func(args ...string) (string, error) {
		output, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(failed.Stderr)))
		}
		return strings.TrimRight(string(output), "\n"), err
	}
	var s source
	var err error
	if s.commit, err = git("rev-parse", "HEAD"); err != nil {
		return s, fmt.Errorf("a release is made of a commit: %w", err)
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		if seconds, err = git("log", "-1", "--format=%ct"); err != nil {
			return s, err
		}
	}
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH: want seconds since 1970, got %q", seconds)
	}
	s.time = time.Unix(epoch, 0).UTC()
	status, err := git("status", "--porcelain")
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(status) {
		s.changed = append(s.changed, strings.TrimSpace(line[min(3, len(line)):]))
	}
	tags, err := git("tag", "--points-at", "HEAD")
	if err != nil {
		return s, err
	}
	s.tags = strings.Fields(tags)
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	s.changelog = string(changelog)
	return s, err
}

// releaseVersion is what a version of a release looks like.
var releaseVersion = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// checkSource refuses what would not be what its version says. A snapshot may be anything.
func (o options) checkSource() error {
	if o.snapshot {
		return nil
	}
	const remedy = "; SNAPSHOT=1 makes a snapshot"
	if !releaseVersion.MatchString(o.version) {
		return fmt.Errorf("VERSION: %q is not the version of a release: write it as v0.1.0, or build a commit that has such a tag"+remedy, o.version)
	}
	if changed := o.source.changed; len(changed) > 0 {
		named := strings.Join(changed[:min(len(changed), 5)], ", ")
		return fmt.Errorf("%d files are not as in the commit (%s): commit or remove them"+remedy, len(changed), named)
	}
	if !slices.Contains(o.source.tags, o.version) {
		return fmt.Errorf("commit %.12s has no tag %s, and programs tell the version that git tells: git tag %s"+remedy, o.source.commit, o.version, o.version)
	}
	if !hasSection(o.source.changelog, o.version) {
		return fmt.Errorf("CHANGELOG.md has no section \"## %s\": give it what is below \"## Unreleased\", as docs/contributing/releases.md says"+remedy, o.version)
	}
	return nil
}

// hasSection reports whether a changelog has a section of a version with anything in it.
func hasSection(changelog, version string) bool {
	inside := false
	for line := range strings.Lines(changelog) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "## "):
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "## "), " ")
			inside = name == version
		case inside && line != "":
			return true
		}
	}
	return false
}
