// Package csrapprover decides on the certificate requests of kubelets in the target cluster.
//
// It approves only what it knows to be right: the first request of a hollow-node, made with the bootstrap token
// that was minted for exactly that Machine, for exactly the identity of that Machine's Node; and renewals that a
// node makes for itself. A Node of that name that is not the Machine's stops both: the certificate would be good for its
// identity. Everything else it leaves alone: it may be meant for another approver.
package csrapprover
