// Package confine keeps what the templates of a load test ask for within the namespaces of the run. Who may create LoadTests on the
// hub has no rights in a workload cluster: what a template can reach there is up to the cluster's own administrator, who sets Limits.
package confine
