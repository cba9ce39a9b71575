package controlplane

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// versionPoll is how often the file with the version is read. A kubelet takes up to a minute to change one.
const versionPoll = time.Second

// readVersionFile reads the minor that the components are to emulate; empty for that of the code.
func readVersionFile(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%w: --emulated-version-file: %w", ErrInvalid, err)
	}
	minor := strings.TrimSpace(string(content))
	if !minorVersion.MatchString(minor) {
		return "", fmt.Errorf("%w: --emulated-version-file=%s has %.20q, which is not a Kubernetes minor: write it as 1.36", ErrInvalid, path, minor)
	}
	return shortMinor(minor), nil
}

// shortMinor is a minor as flags have it: that of the code is left out.
func shortMinor(minor string) string {
	if minor == codeMinor() {
		return ""
	}
	return minor
}

// chooseMinors are the minors with which the components start. With a file they are those that an earlier start has recorded: the file may
// say a later one, which is reached in order once the cluster runs.
func (o *Options) chooseMinors(recorded map[string]string) (map[string]string, error) {
	chosen := map[string]string{}
	if o.EmulatedVersionFile == "" || len(recorded) == 0 {
		minor := o.EmulatedVersion
		if o.EmulatedVersionFile != "" {
			var err error
			if minor, err = readVersionFile(o.EmulatedVersionFile); err != nil {
				return nil, err
			}
		}
		for _, component := range upgradeOrder {
			chosen[component] = minor
		}
		return chosen, nil
	}
	for _, component := range upgradeOrder {
		minor := recorded[component]
		if !minorVersion.MatchString(minor) {
			return nil, fmt.Errorf("%w: the record in --data-dir has version %q for %s, which is not a Kubernetes minor: write it as 1.36", ErrInvalid, minor, component)
		}
		if minorNumber(minor) > minorNumber("") {
			return nil, fmt.Errorf("%w: %s has run Kubernetes %s, and these components are of %s: a control plane cannot go back, so start it with the later program", ErrInvalid, component, minor, codeMinor())
		}
		chosen[component] = shortMinor(minor)
	}
	return chosen, nil
}

// recordMinor keeps what a component is about to run. What it writes then may not be read by an earlier one.
func (s *supervisor) recordMinor(component, minor string) error {
	recorded := s.cluster
	recorded.EmulatedVersions = map[string]string{}
	for _, each := range upgradeOrder {
		recorded.EmulatedVersions[each] = s.emulatedMinor(each)
	}
	recorded.EmulatedVersions[component] = writtenMinor(minor)
	return writeJSON(s.layout.stateFile(), recorded)
}

// followVersion upgrades the components to what the file says, for as long as the context lasts. What fails is tried again.
func (s *supervisor) followVersion(ctx context.Context) {
	ticker := time.NewTicker(versionPoll)
	defer ticker.Stop()
	for last := ""; ; {
		problem := ""
		if err := s.reachVersion(ctx); err != nil && ctx.Err() == nil {
			problem = err.Error()
		}
		if problem != last && problem != "" {
			s.printStep("%s", problem)
		}
		last = problem
		s.versionProblem.Store(&problem)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// reachVersion does what is missing. An upgrade that was interrupted is completed first.
func (s *supervisor) reachVersion(ctx context.Context) error {
	wanted, err := readVersionFile(s.options.EmulatedVersionFile)
	if err != nil {
		return err
	}
	oldest := minorNumber(s.minors.get(s.oldestComponent()))
	if server := s.minors.get(APIServer); oldest < minorNumber(server) && minorNumber(wanted) > minorNumber(server) {
		wanted = server
	}
	if oldest == minorNumber(wanted) && minorNumber(s.minors.get(APIServer)) == oldest {
		return nil
	}
	return s.upgrade(ctx, wanted)
}
