package plan

// MachinesSeen is what the hub sees of a set at one moment.
type MachinesSeen struct {
	// Machines of the set, those being deleted too.
	Machines int
	// Generation of the set, and Above that of its deployment, 0 without one.
	Generation, Above int64
}

// ArrivalTracker remembers how many Machines a set has had, to tell those that came by themselves from those that the set
// made and from those that are left of more. The zero value has seen nothing.
type ArrivalTracker struct {
	last   MachinesSeen
	looked bool
	made   int
}

// Grown tells whether Machines have come since the last look that the set has not made. The first look compares with
// reported, what the status says of the set. If a user has changed what is asked for since the last look, it is not
// known what has come before the change and what after it: then none has.
func (a *ArrivalTracker) Grown(now, reported MachinesSeen) bool {
	last := a.last
	if !a.looked {
		last = reported
	}
	return now.Generation == last.Generation && now.Above == last.Above && now.Machines > last.Machines
}

// Record keeps a look for the next one, with what the set has made since.
func (a *ArrivalTracker) Record(now, reported MachinesSeen) {
	last := a.last
	if !a.looked {
		last = reported
	}
	if now.Generation != last.Generation || now.Above != last.Above {
		// The look may be behind what was made before the change.
		now.Machines = max(now.Machines, last.Machines)
	}
	now.Machines += a.made
	a.last, a.looked, a.made = now, true, 0
}

// AddCreated notes Machines that the set has made or adopted since the look that is noted next.
func (a *ArrivalTracker) AddCreated(count int) { a.made += count }
