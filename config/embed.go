// Package config carries the manifests that a hub and an agent need in their clusters, as generated from
// the code by make manifests, and applies them by server-side apply.
package config

import "embed"

// CRDs holds the CustomResourceDefinitions of the hub, in crd/.
//
//go:embed crd/*.yaml
var CRDs embed.FS

// RBAC holds what hub and agent may do: rbac/hub and rbac/agent-hub belong on the hub, rbac/agent-workload on
// every workload cluster, rbac/agent-load-tests on those in which load tests are to run, rbac/agent-simulated-clusters on those that
// host simulated clusters as pods, rbac/agent-csi on those whose agent provisions volumes, and rbac/agent-kwok on those whose Machines may be
// of provider kwok. rbac/users has roles of people, on the hub, and rbac/autoscaler is for those hubs that a cluster-autoscaler is to use.
//
//go:embed rbac
var RBAC embed.FS

// Admission holds, in admission/, the policies of the hub: what agents may write where RBAC cannot say it, what
// cluster-autoscaler can read, and which namespaces may be deleted.
//
//go:embed admission/*.yaml
var Admission embed.FS
