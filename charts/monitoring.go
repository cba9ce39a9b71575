// Package charts carries files of the charts that are of use without them.
package charts

import "embed"

// Monitoring holds the alerts and the dashboards of hub and agent: hub/files/rules.yaml, hub/files/dashboard.json, and those of agent.
//
//go:embed hub/files/rules.yaml hub/files/dashboard.json agent/files/rules.yaml agent/files/dashboard.json
var Monitoring embed.FS
