// Package node keeps a Machine's Node in line with the Machine: labels, annotations, role labels and taints.
//
// The agent owns only what it put there. For labels and annotations the API server remembers that itself
// (server-side apply, field manager "hollowfleet-agent"); for taints, which are one list to the API server,
// the annotation hollowfleet.io/applied-taints does. What others put on the Node stays.
package node
