package serving

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

const (
	// rereadPeriod is how often the files are read beside the events of their file system, which some file systems do not send.
	rereadPeriod = 2 * time.Second
	// neverReread leaves that to a renewal: a watcher logs a file that it cannot read each time.
	neverReread = 100 * 365 * 24 * time.Hour
)

// renewal follows the files of a certificate.
type renewal struct {
	files   Options
	watcher *certwatcher.CertWatcher
	// report is called with each new problem. The previous certificate is served meanwhile.
	report func(error)
	// found is the problem of the last reading, reported the one that report was called with last; empty without one.
	found, reported string
}

func newRenewal(files Options, report func(error)) (*renewal, error) {
	watcher, err := certwatcher.New(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate: %w", err)
	}
	return &renewal{files: files, watcher: watcher.WithWatchInterval(neverReread), report: report}, nil
}

// followFiles follows the files until ctx is done.
func (r *renewal) followFiles(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- r.watcher.Start(ctx) }()
	ticker := time.NewTicker(rereadPeriod)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
			r.noteReading(r.watcher.ReadCertificate())
		}
	}
}

// noteReading reports a problem that the last two readings had, once: files that are being written do not fit each other for a moment.
func (r *renewal) noteReading(err error) {
	if err == nil {
		r.found, r.reported = "", ""
		return
	}
	if problem := err.Error(); problem != r.found || problem == r.reported {
		r.found = problem
		return
	}
	r.reported = r.found
	r.report(fmt.Errorf("reading the renewed certificate in %s and its key in %s: %w; the previous one is served%s", r.files.CertFile, r.files.KeyFile, err, r.formatValidity()))
}

// formatValidity says until when the served certificate is valid.
func (r *renewal) formatValidity() string {
	served, err := r.watcher.GetCertificate(nil)
	if err != nil || served == nil || served.Leaf == nil {
		return ""
	}
	return " and ends at " + served.Leaf.NotAfter.UTC().Format(time.RFC3339)
}
