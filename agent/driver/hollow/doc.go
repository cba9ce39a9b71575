// Package hollow is the built-in provider: a Machine becomes one hollow-node pod and one Secret of the same
// name, in the agent's namespace on the host cluster.
//
// The Secret carries the hollow-node's configuration file and a kubeconfig with a bootstrap token. The token
// is one of ServiceAccount hollow-node-bootstrap of the target cluster, lives for ten minutes and may do
// nothing but ask for a kubelet's client certificate. Its ID is noted on the Secret: the approver of CSRs
// grants the identity of a Node only to the token that was made for exactly that Machine.
//
// Nothing is changed in a running pod. Another configuration means another pod; labels and taints are the
// exception, because the agent keeps those in sync on the Node itself: they are part of the configuration
// only until the Node has joined.
package hollow
