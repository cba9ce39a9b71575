// Package hubidentity keeps the agent from working for a hub that is not the one that it knows.
//
// # What is compared
//
// The agent remembers the UID of its Cluster and the last renewal of its Lease that the hub has confirmed. A hub that
// shows another UID, that shows an older renewal or none, or that has no Machine at all although the cluster has
// instances, is strange: it may be new, empty, or restored from a backup. What it says is then no ground to act on,
// and the agent is frozen until a person acknowledges the hub. Where there are no instances there is nothing to lose,
// and no person is asked. Package policy decides this and is pure.
//
// # When
//
// A renewal that follows on one which the hub has confirmed is itself a proof: it would meet a conflict on a hub that
// has lost that one. Every other one, such as the first of a process, makes the agent look at what the hub shows
// before it is overwritten (Meet). The agent is frozen from then on until that is judged, and says so on the Cluster
// before it renews. So does everything that a hub's order makes the agent do (Verify): between a restore of the hub
// and the next renewal nothing is done for it.
//
// # What survives
//
// The memory is a ConfigMap in the namespace of the hollow-node pods. It is written also while the agent is frozen,
// and nothing else is. Until the judgement is stored there, the Lease itself keeps what it showed, in an annotation:
// an agent that dies in between finds it again.
//
// # When the hub denies the agent
//
// An API server checks rights only when a watch begins: one that was open when the agent lost its rights goes on. So
// Denial ends the agent's own watches, and the agent does nothing on the hub but probe it, until the hub lets it in
// again.
package hubidentity
