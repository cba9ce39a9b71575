// Package freeze decides, from the objects that the hub knows, whether it may create, delete or adopt anything for a
// cluster. Whatever is not proven to be allowed is frozen.
//
// From what an agent writes (left) through package cluster to the label hollowfleet.io/frozen of a MachineSet:
//
//	Lease -> heartbeats -> AgentConnected --+
//	TargetReachable ------------------------+-> frozenVerdict -> Cluster's Frozen --+
//	AgentFrozen ----------------------------+                                       +-> OfCluster --+
//	AgentFrozen ---------------------------------------------------> OfAgent -------+               +-> Verdict
//	Lease -> heartbeats -> hasArrived -> Agents.Hear -------------------------> Agents.Verdict -----+      |
//	                                                                                                       v
//	                                                             MachineSet's Frozen (Condition) -> WriteLabel
//
// AgentFrozen goes two ways. The Cluster's Frozen condition names every cause, but comes a moment later; until then,
// OfCluster asks the agent's own condition. What an agent wrote before this hub started, or before it was silent, counts
// only after a renewal of its Lease: Agents.Verdict freezes until then.
//
// The first cause is the reason: too many Machines, the object's annotation, OfCluster, Agents.Verdict, the MachineDeployment.
package freeze
