package telemetry

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
)

// The formats of NewLogger.
const (
	LogText = "text"
	LogJSON = "json"
)

// NewLogger returns a logger that writes lines of format to w. Verbosity is the highest V level that is written: 0
// tells what an operator has to know, 1 what each decision was, 4 and more is for developers.
func NewLogger(w io.Writer, format string, verbosity int) (logr.Logger, error) {
	// logr's level n is slog's level -n.
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity)}
	switch format {
	case LogText:
		return logr.FromSlogHandler(slog.NewTextHandler(w, options)), nil
	case LogJSON:
		return logr.FromSlogHandler(slog.NewJSONHandler(w, options)), nil
	}
	return logr.Discard(), fmt.Errorf("--log-format: want %s or %s, got %q", LogText, LogJSON, format)
}
