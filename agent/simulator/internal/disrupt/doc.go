// Package disrupt carries out a hollow node's plan of faults, which package apis/disrupt describes. A Follower reads the
// plan's file and works out, whenever something changes, the State in which the node has to be. That is all there is to
// restoring: what is not in the State any more is undone by those who carry it out.
package disrupt
