package controlplane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/util/compatibility"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

// upgradeOrder is that of the version skew policy: no component is ever newer than the API server that it uses.
// https://kubernetes.io/releases/version-skew-policy/
var upgradeOrder = []string{APIServer, ControllerManager, Scheduler}

// minors are the Kubernetes minors that the components emulate, by component.
type minors struct {
	mutex sync.Mutex
	// of is the minor with which a component starts next; empty for that of the code.
	of map[string]string
	// upgrading is held by one upgrade at a time.
	upgrading sync.Mutex
}

func (m *minors) get(component string) string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.of[component]
}

func (m *minors) set(component, minor string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.of[component] = minor
}

// codeMinor is the Kubernetes minor of the components' code, such as 1.37.
func codeMinor() string {
	binary := compatibility.DefaultBuildEffectiveVersion().BinaryVersion()
	return fmt.Sprintf("%d.%d", binary.Major(), binary.Minor())
}

// writtenMinor is a minor written out.
func writtenMinor(minor string) string { return cmp.Or(minor, codeMinor()) }

// emulatedMinor is what a component emulates, written out; empty for one that has no such version.
func (s *supervisor) emulatedMinor(component string) string {
	if !slices.Contains(upgradeOrder, component) {
		return ""
	}
	return writtenMinor(s.minors.get(component))
}

// oldestComponent is one with the earliest minor.
func (s *supervisor) oldestComponent() string {
	oldest := APIServer
	for _, component := range upgradeOrder {
		if s.options.hasComponent(component) && minorNumber(s.minors.get(component)) < minorNumber(s.minors.get(oldest)) {
			oldest = component
		}
	}
	return oldest
}

// minorNumber is 36 for 1.36; an empty minor is that of the code.
func minorNumber(minor string) int {
	_, digits, _ := strings.Cut(writtenMinor(minor), ".")
	number, _ := strconv.Atoi(digits) // ValidateMinor has seen it.
	return number
}

// upgradeRequest is the body of a request for an upgrade.
type upgradeRequest struct {
	EmulatedVersion string `json:"emulatedVersion"`
}

func (s *supervisor) handleUpgrade(writer http.ResponseWriter, request *http.Request) {
	var wanted upgradeRequest
	if err := json.NewDecoder(http.MaxBytesReader(writer, request.Body, 1<<10)).Decode(&wanted); err != nil {
		writeResponse(writer, http.StatusConflict, failure{Error: "reading the request: " + err.Error()})
		return
	}
	if err := s.upgrade(request.Context(), wanted.EmulatedVersion); err != nil {
		writeResponse(writer, http.StatusConflict, failure{Error: err.Error()})
		return
	}
	writeResponse(writer, http.StatusOK, s.clusterStatus(request.Context()))
}

// upgrade brings the components to a later minor, one after the other. Each is ended and started by itself, once all are healthy; the data
// store and the podhost are not touched. One that does not get healthy is the last: it is started again with the new minor, and the later
// ones keep the old one, which a later API server supports.
func (s *supervisor) upgrade(ctx context.Context, minor string) error {
	if err := s.checkUpgrade(minor); err != nil {
		return err
	}
	if !s.minors.upgrading.TryLock() {
		return errors.New("an upgrade is under way: ask again when it has ended")
	}
	defer s.minors.upgrading.Unlock()
	timeout := upgradeStartTimeout
	for _, component := range upgradeOrder {
		unit, ok := s.units[component]
		if !ok || minorNumber(s.minors.get(component)) == minorNumber(minor) {
			continue
		}
		if err := s.awaitHealthy(ctx, timeout); err != nil {
			return fmt.Errorf("%s stays at %s, because the control plane is not healthy: %w", component, s.emulatedMinor(component), err)
		}
		timeout = actionTimeout // What has just started may be slow to answer, and half an upgrade helps no user.
		if err := s.restartWith(ctx, unit, minor); err != nil {
			return fmt.Errorf("upgrading %s to %s: %w", component, writtenMinor(minor), err)
		}
		s.printStep("%s upgraded to %s", component, s.emulatedMinor(component))
	}
	s.writeReady()
	return nil
}

// restartWith ends a component and starts it with another minor, which is recorded before.
func (s *supervisor) restartWith(ctx context.Context, unit *process.Unit, minor string) error {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	if err := s.recordMinor(unit.Name(), minor); err != nil {
		return err
	}
	if err := unit.Stop(ctx); err != nil {
		return err
	}
	s.minors.set(unit.Name(), minor)
	return s.bringUp(ctx, unit.Name())
}

// checkUpgrade refuses what upstream's policy does not allow.
func (s *supervisor) checkUpgrade(minor string) error {
	if s.options.Shared != nil {
		return errors.New("its components share a process with those of other clusters, and the process emulates one minor: start the cluster in another group")
	}
	if err := ValidateMinor(minor); err != nil {
		return err
	}
	wanted, runs := minorNumber(minor), minorNumber(s.minors.get(APIServer))
	last := s.oldestComponent()
	oldest := minorNumber(s.minors.get(last))
	switch {
	case wanted > minorNumber(""):
		return fmt.Errorf("%w: the components are of Kubernetes %s and cannot emulate the later %s", ErrInvalid, codeMinor(), minor)
	case wanted < runs:
		return fmt.Errorf("%w: the API server runs %s, and a control plane cannot go back to %s", ErrInvalid, s.emulatedMinor(APIServer), minor)
	case wanted > oldest+1:
		return fmt.Errorf("%w: %s runs %s, and an upgrade may not skip a minor: upgrade to 1.%d first", ErrInvalid, last, s.emulatedMinor(last), oldest+1)
	}
	return nil
}

const (
	// upgradeStartTimeout bounds how long an upgrade waits, before it changes anything, for a control plane that is slow to answer.
	upgradeStartTimeout = 5 * time.Second
	healthPoll          = 200 * time.Millisecond
)

// awaitHealthy waits until all components are healthy, and returns what the last look found otherwise.
func (s *supervisor) awaitHealthy(ctx context.Context, timeout time.Duration) (found error) {
	_ = wait.PollUntilContextTimeout(ctx, healthPoll, timeout, true, func(ctx context.Context) (bool, error) {
		if err := s.checkHealthy(ctx); err == nil || ctx.Err() == nil || found == nil {
			found = err // A look that the end of the wait has cut short says nothing.
		}
		return found == nil, nil
	})
	return found
}

// checkHealthy asks the components whose versions matter, and the data store.
func (s *supervisor) checkHealthy(ctx context.Context) error {
	var failures []error
	for _, component := range append([]string{Etcd}, upgradeOrder...) {
		if check, ok := s.checks[component]; ok && s.options.hasComponent(component) {
			if err := check(ctx); err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", component, err))
			}
		}
	}
	return errors.Join(failures...)
}

// Upgrade brings the cluster that runs on the data directory to a later minor, empty for that of the code, and returns when it is healthy.
func Upgrade(ctx context.Context, dataDir, minor string) error {
	if err := ValidateMinor(minor); err != nil {
		return err
	}
	var status Status
	return callControl(ctx, dataDir, http.MethodPost, "/upgrade", upgradeRequest{EmulatedVersion: minor}, &status)
}
