package freeze

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// ServeHTTP tells the freeze state: text for people, JSON with "Accept: application/json" or "?format=json".
// It answers 200 whether frozen or not: being frozen is no fault of the agent.
func (m *Monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	state := m.State()
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(state); err != nil {
			m.options.Log.V(1).Info("Writing the freeze state failed", "error", err)
		}
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprint(w, state.text())
}

func (s State) text() string {
	var b strings.Builder
	if s.Frozen {
		fmt.Fprintf(&b, "frozen since %s: %s: %s\n", s.Since.UTC().Format(time.RFC3339), s.Reason, s.Message)
	} else {
		b.WriteString("not frozen\n")
	}
	if s.Ordered {
		fmt.Fprintf(&b, "%-7s %s: a person wants the freeze\n", clusterScope, v1alpha1.ReasonManualFreeze)
	}
	for _, bar := range s.Bars {
		fmt.Fprintf(&b, "%-7s %s since %s: %s\n", agentScope, bar.Reason, bar.Since.UTC().Format(time.RFC3339), bar.Message)
	}
	for _, e := range s.Endpoints {
		fmt.Fprintf(&b, "%-7s %-12s last probe %s at %s", e.Scope, e.Reason, e.LastOutcome, e.LastProbe.UTC().Format(time.RFC3339))
		if e.Frozen {
			fmt.Fprintf(&b, ", %d good answers in a row", e.Successes)
		}
		if e.LastMessage != "" {
			fmt.Fprintf(&b, ": %s", e.LastMessage)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
