// Package loadtest carries the LoadTestRuns of a cluster out, one after the other: it tries their templates, makes namespaces, puts
// the load on the API server, measures what comes of it, and removes what it made.
//
// A run continues while the hub is away, and ends at once when the agent freezes. Whatever happens to the agent, the namespaces are
// found again by the label that has the run's UID, and nothing else is ever removed.
package loadtest
