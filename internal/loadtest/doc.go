// Package loadtest has what agent and hub both know of load tests: what is measured, in histograms that can be merged, and
// whether thresholds are met.
package loadtest
