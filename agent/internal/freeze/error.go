package freeze

import (
	"fmt"
	"time"
)

// Error refuses a change because the agent is frozen. It is no failure: the caller waits for the thaw.
type Error struct {
	// Reason and Message say why the agent is frozen; Since is from when on.
	Reason, Message string
	Since           time.Time
}

func (e *Error) Error() string {
	return fmt.Sprintf("frozen since %s: %s: %s", e.Since.UTC().Format(time.RFC3339), e.Reason, e.Message)
}
