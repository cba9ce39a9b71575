// Package config carries the manifests that a hub and an agent need in their clusters, as generated from
// the code by make manifests.
package config

import "embed"

// CRDs holds the CustomResourceDefinitions of the hub, in crd/.
//
//go:embed crd/*.yaml
var CRDs embed.FS

// RBAC holds what hub and agent may do: rbac/hub and rbac/agent-hub belong on the hub, rbac/agent-workload on
// every workload cluster. rbac/autoscaler is for those hubs that a cluster-autoscaler is to use.
//
//go:embed rbac
var RBAC embed.FS

// Admission holds, in admission/, the policy that keeps agents on the hub to what is theirs where RBAC cannot.
//
//go:embed admission/*.yaml
var Admission embed.FS
