// Package clusterstatus tells the hub about the agent and its cluster: a Lease, renewed every heartbeat, and the
// agent's part of the Cluster's status, written only when it changes.
//
// It works with a client of its own that the freeze gate does not stop: a frozen agent that falls silent could
// not be told from a dead one.
package clusterstatus
