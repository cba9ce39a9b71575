package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	// leastFree is what a file system needs to have free for etcd to start, in MiB: a log segment, and a step by which the database grows.
	leastFree = 32
	// spacePeriod is the time between two looks at whether etcd has space.
	spacePeriod = 30 * time.Second
)

// errOutOfSpace is wrapped when etcd has reached its quota. Reading and deleting work still.
var errOutOfSpace = errors.New("etcd out of space")

// checkRoom refuses to start etcd on a full file system: it would end at its first write, and a process that it shares would keep what
// it leaves. The start is tried again after a while.
func (s *supervisor) checkRoom(component string) error {
	if component != Etcd {
		return nil
	}
	return s.layout.checkSpace()
}

func (l Layout) checkSpace() error {
	var found unix.Statfs_t
	if err := unix.Statfs(l.root, &found); err != nil {
		return nil //nolint:nilerr // etcd itself reports a directory that cannot be read.
	}
	if free := found.Bavail * uint64(found.Bsize) >> 20; free < leastFree {
		return fmt.Errorf("%w: the file system of --data-dir=%s is full, %d MiB are free and %d are needed: free some space, and etcd starts again by itself",
			errOutOfSpace, l.root, free, leastFree)
	}
	return nil
}

// checkEtcd asks etcd for its health. The error wraps errOutOfSpace if it refuses writes.
func checkEtcd(runDir string) healthCheck {
	client := socketClient(filepath.Join(runDir, etcdSocket))
	return func(ctx context.Context) error {
		status, content, err := fetchHealth(ctx, client, "http://localhost/health")
		if err != nil {
			return err
		}
		var answer struct{ Health, Reason string }
		if err := json.Unmarshal(content, &answer); err != nil {
			return fmt.Errorf("asking etcd for health: %w", err)
		}
		switch {
		case status == http.StatusOK && answer.Health == "true":
			return nil
		case answer.Reason == "ALARM NOSPACE":
			return fmt.Errorf("%w: its database has reached the quota, and only deletions are allowed: delete objects, or stop the cluster and start it with a larger quota (simcluster start --etcd-arg quota-backend-bytes=BYTES)", errOutOfSpace)
		}
		return fmt.Errorf("etcd is not healthy: %s", answer.Reason)
	}
}

// isServing is the check of an etcd that starts: one that refuses writes serves, and objects can be deleted.
func isServing(check healthCheck) healthCheck {
	return func(ctx context.Context) error {
		if err := check(ctx); !errors.Is(err, errOutOfSpace) {
			return err
		}
		return nil
	}
}

// watchSpace says when etcd refuses writes, and when it no longer does, until the context ends.
func (s *supervisor) watchSpace(ctx context.Context) {
	if !s.options.hasComponent(Etcd) {
		return
	}
	ticker := time.NewTicker(spacePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		problem := ""
		if err := s.checks[Etcd](ctx); errors.Is(err, errOutOfSpace) {
			problem = err.Error()
		}
		if before := s.space.Swap(&problem); before != nil && *before != problem || before == nil && problem != "" {
			if problem == "" {
				s.printStep("etcd has space again")
			} else {
				s.printStep("%s", problem)
			}
			s.writeReady()
		}
	}
}

// describeProblem says why a component that runs cannot do all of its job, as last looked at; empty if it can.
func (s *supervisor) describeProblem(component string) string {
	if problem := s.space.Load(); component == Etcd && problem != nil {
		return *problem
	}
	return ""
}

// describeWaiting says how a component ended that waits for its restart.
func describeWaiting(status process.Status) string {
	if status.State != process.StateWaiting {
		return ""
	}
	return "it has ended and starts again soon: " + status.LastExit
}
