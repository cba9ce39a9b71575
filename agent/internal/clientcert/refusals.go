package clientcert

import (
	"net/http"
	"time"
)

const (
	// refusalsInARow and refusalTime: one 401 may come from an API server that is just starting.
	refusalsInARow = 3
	refusalTime    = 5 * time.Second
)

// refusals tells from the hub's answers whether it still knows a credential.
type refusals struct {
	inARow int
	since  time.Time
}

// answered takes in the status of an answer and reports whether the credential counts as refused from now on.
func (r *refusals) answered(status int, now time.Time) (refused bool) {
	switch {
	case status == http.StatusUnauthorized:
		if r.inARow == 0 {
			r.since = now
		}
		r.inARow++
	case status < http.StatusInternalServerError:
		// Even a refusal for lack of rights comes only after the credential was accepted.
		*r = refusals{}
	}
	return r.inARow >= refusalsInARow && now.Sub(r.since) >= refusalTime
}
