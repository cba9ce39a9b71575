// Package clientcert gets, keeps and renews what the agent shows to the hub: a client certificate, or a token of
// its ServiceAccount where the hub's API server signs no client certificates.
//
// The private key is made here, is kept in the agent's own store, and never leaves it. A Manager works also while
// the agent is frozen, past the freeze gate: a new credential changes no machine, and an agent that let its own
// lapse could never prove the hub healthy again.
package clientcert
