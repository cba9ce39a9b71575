package telemetry

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Claim: Logs are structured. Broken: the verbosity ignored; text written for JSON.
func TestVerbosityAndFormat(t *testing.T) {
	var out bytes.Buffer
	logger, err := NewLogger(&out, LogJSON, 2)
	if err != nil {
		t.Fatal(err)
	}
	logger.V(2).Info("told", "Machine", "m")
	logger.V(3).Info("kept back")
	line := map[string]any{}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["msg"] != "told" || line["Machine"] != "m" {
		t.Errorf("%v: %s", err, out.String())
	}
	out.Reset()
	if logger, err = NewLogger(&out, LogText, 0); err != nil {
		t.Fatal(err)
	}
	logger.Info("told")
	logger.V(1).Info("kept back")
	if text := out.String(); !strings.Contains(text, "msg=told") || strings.Contains(text, "kept back") {
		t.Error(text)
	}
	if _, err := NewLogger(&out, "xml", 0); err == nil || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("%v", err)
	}
}
