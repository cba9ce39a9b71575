// Package relist lists the agent's world after every freeze, before the first act.
//
// What the agent decides on comes from caches, and those may be behind: watches break in a freeze, and come back one
// after the other. So between the last cause of a freeze and the thaw stands a list of everything that the caches
// hold, read from the API servers and not from their caches. The agent stays frozen until each listed object is in
// its cache, as listed or newer, and nothing else is.
//
// Only the first list makes demands. Later ones can only take some of them back, so that a world that changes all the
// time is caught up with too. Lists come in pages, and of each only names and versions are kept, until the thaw. At
// rest nothing is listed.
//
// Then the hub is told how every Machine is by those caches. Only after that does it hear that the agent acts again, so
// that it decides nothing on what was known before the freeze.
package relist
