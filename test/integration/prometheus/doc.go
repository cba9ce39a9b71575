// Package prometheus lets a real Prometheus, built from its Go module, look at a local fleet that fails on purpose: each alert of the charts
// has to fire and to clear, and each panel of the dashboards to show something.
package prometheus
