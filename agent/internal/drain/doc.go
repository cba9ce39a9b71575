// Package drain empties Nodes. It evicts through the eviction API, which keeps PodDisruptionBudgets, and leaves
// the pods of DaemonSets and the mirrors of static pods where they are; what counts as such is decided by
// kubectl's drain library.
//
// A drain takes no worker: each Round evicts what can be evicted now and says what is left. The caller looks
// again a while later, until nothing is left or until its time is over; package policy judges both. Nothing is
// remembered between two rounds.
package drain
