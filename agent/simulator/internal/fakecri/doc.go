// Package fakecri is a container runtime and image service without containers, for kubelets that run no
// workload. It implements the kubelet's internal CRI interfaces directly, without a socket. Sandboxes get
// their own addresses from the node's pod CIDR; containers start, run and end as far as the kubelet can
// see. Everything is kept in memory and forgotten when it is removed.
package fakecri
