// Package denial knows whether the hub has shut the agent out: its cluster was denied or removed.
//
// An API server asks only at the begin of a watch whether it is allowed, so that one which was open when the agent
// lost its rights goes on telling. The agent ends its own, and keeps nothing on the hub but its probe, until the hub
// lets it in again.
package denial
