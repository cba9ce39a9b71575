// Package freeze keeps the agent from acting on a world that it cannot see.
//
// A Monitor probes the API servers that the agent works with. It is frozen from its start until each of them
// has answered a number of times in a row, and again when one has not answered for a while. A Gate stands in
// front of everything that changes something: while the Monitor is frozen it refuses with *Error.
//
// What makes the state is in state.go and pure. Whether the agent is frozen is computed from the time of the
// last good answer at the moment of asking: a process that was stopped for a minute is frozen when it goes
// on, before its first act.
package freeze
