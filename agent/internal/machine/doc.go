// Package machine is the agent's controller of Machines: it makes each of its cluster's Machines real through a
// driver, keeps the Node in line with it, and reports to the hub.
//
// # Parts
//
// A Controller is made of parts, one for each thing that a Machine goes through, each with what it needs and no more: classes
// (what the Machine is to be), creation, nodes (the Node is kept in line), lifetimes (its timeouts, judged in health.go), updates,
// removal, and reports (what the hub is told). orders is what the hub wants now; each part that takes something away asks it first.
//
// # What is written to the hub
//
// From creation to Ready a Machine costs the hub three writes: its creation, spec.providerID when the Node has
// joined, and one status when it is Ready. (A Machine that comes without the agent's finalizer costs a fourth.)
// The steps in between are held back. They are written when a Machine makes no step for StallAfter, so that
// what hangs is seen; and at once when the news is bad: a terminal error, a pod that fails, a machine that was
// Ready and is not any more. At rest nothing is written: heartbeats of Nodes do not even reach the reconcile.
//
// # Deletion
//
// Something is removed only for a Machine that the hub's API server, asked at that moment, shows with a
// deletionTimestamp. First its hooks are waited for and its Node is drained (package drain). Then the instance goes
// and everything that belongs to it, then, when the instance is really gone, the Node and the certificate requests,
// and the finalizer last. Each step finds out again what
// there is, so that a crash between any two of them leaves nothing behind. A Machine that is missing on the hub
// orders nothing: what runs without a Machine is counted and reported, and stays.
//
// # Updates in place
//
// An instance that was made from another configuration is updated where it is: the Node is cordoned and drained, the
// driver updates the instance, and when the Node is Ready again with the version that the Machine wants, it is
// uncordoned. How far this is stands in the condition Updated and in an annotation of the Node, so that any agent can
// continue with it. What was not ordered for the Machine itself, such as the edit of its class, is done for one Machine
// of a MachineSet at a time.
//
// # Time
//
// Timeouts count from times that are on the hub, less what was frozen since and when no agent ran (freeze.Downtime). What
// the conditions tell of an earlier drain does not count for a later one (DrainingSince).
//
// While the agent is frozen the controller keeps observing and reporting and changes nothing; the thaw
// wakes it.
package machine
