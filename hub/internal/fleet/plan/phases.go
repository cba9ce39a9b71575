package plan

import (
	"slices"
	"time"
)

// startCurrentWave finds the current wave, and starts with its clusters as far as there is room, or rolls back.
func (p *Plan) startCurrentWave(in Input, limit int, all []*gates, clusters []Cluster) {
	failed := p.findWaves(in, all, clusters)
	defer func() { p.Room = in.freeSlots(limit, clusters) }()
	rolledBack := slices.ContainsFunc(clusters, in.rolledBack)
	if p.Stopped = p.Breached || in.Aborted || rolledBack; p.Stopped {
		if failed || in.Aborted || rolledBack {
			p.rollBack(in, limit, clusters)
		}
		return
	}
	turn := func(c Cluster) bool {
		return !slices.ContainsFunc(all, func(g *gates) bool { return !g.hasTurn(c) })
	}
	p.awaitApproval(in, clusters, turn)
	p.awaitWindow(in, clusters, turn)
	p.awaitBoth(in, all, clusters, turn)
	p.applyRevision(in, limit, clusters, turn)
	p.Done = !slices.ContainsFunc(all, func(g *gates) bool { return g.open || g.skipped }) &&
		!slices.ContainsFunc(clusters, func(c Cluster) bool { return c.late && !c.Left && in.isUnfinished(c) })
}

// isUnfinished reports whether a cluster is not through with the revision.
func (in Input) isUnfinished(c Cluster) bool {
	switch in.phaseOf(c) {
	case ToApply, Progressing, Soaking:
		return true
	case Succeeded, Failed, TimedOut, RollingBack, RolledBack, RollbackFailed:
	}
	return false
}

// awaitApproval names the groups whose approval the clusters wait for whose turn it is.
func (p *Plan) awaitApproval(in Input, clusters []Cluster, turn func(Cluster) bool) {
	var awaited []string
	for _, c := range clusters {
		if group := in.AwaitedGroup(c); group != "" && turn(c) && in.phaseOf(c) == ToApply && !slices.Contains(awaited, group) {
			awaited = append(awaited, group)
		}
	}
	for _, group := range in.Groups {
		if slices.Contains(awaited, group) {
			p.AwaitingApproval = append(p.AwaitingApproval, group)
		}
	}
	for _, group := range awaited {
		if !slices.Contains(in.Groups, group) {
			p.AwaitingApproval = append(p.AwaitingApproval, group)
		}
	}
}

// awaitBoth names the clusters whose turn it is by one reading of the gates only.
func (p *Plan) awaitBoth(in Input, all []*gates, clusters []Cluster, turn func(Cluster) bool) {
	for _, c := range clusters {
		if !turn(c) && in.mayBegin(c) && slices.ContainsFunc(all, func(g *gates) bool { return g.hasTurn(c) }) {
			p.Changed = append(p.Changed, c.Name)
		}
	}
}

// awaitWindow names the clusters whose turn it is and that could be started if they were not closed.
func (p *Plan) awaitWindow(in Input, clusters []Cluster, turn func(Cluster) bool) {
	for _, c := range clusters {
		if c.Closed && turn(c) {
			if c.Closed = false; in.mayBegin(c) {
				p.Closed = append(p.Closed, c.Name)
			}
		}
	}
}

// mayBegin reports whether the revision may be started in a cluster of the current wave, as far as there is room.
func (in Input) mayBegin(c Cluster) bool {
	return in.mayChange(c) && !c.Closed && in.AwaitedGroup(c) == "" && in.phaseOf(c) == ToApply
}

// applyRevision adds the clusters whose turn it is and in which the revision is applied now, and sets their records. A cluster that is in
// progress with an earlier revision comes first and needs no room, because it has its place already.
func (p *Plan) applyRevision(in Input, limit int, clusters []Cluster, turn func(Cluster) bool) {
	room := in.freeSlots(limit, clusters)
	for _, busy := range []bool{true, false} {
		for i := range clusters {
			c := &clusters[i]
			if !turn(*c) || !in.mayBegin(*c) || in.isInProgress(*c) != busy {
				continue
			}
			if !busy {
				if room <= 0 {
					return
				}
				room--
			}
			c.Record = Record{Revision: in.Revision, Phase: Progressing, Since: in.Now, Begun: in.Now, Previous: in.previousRevision(c.Record), Retried: in.RetriedAt}
			p.Changes = append(p.Changes, Change{Cluster: c.Name, Record: c.Record, Apply: true})
		}
	}
}

// phaseOf is how far a cluster is with the revision that is rolled out. One that counts as failed because it is unreachable has
// no record of that: it continues where it was when it is back.
func (in Input) phaseOf(c Cluster) Phase {
	phase := c.Record.Phase
	if c.Record.Revision != in.Revision || in.Retries(c) {
		phase = ToApply
	}
	if c.failsUnreachable && phase != Succeeded {
		return Failed
	}
	return phase
}

// isInProgress reports whether a cluster counts against maxConcurrency. The soak of an earlier revision does not matter any more, and a
// cluster for which no wave waits takes up no room.
func (in Input) isInProgress(c Cluster) bool {
	if c.makesRoom || c.Left && c.Held {
		return false
	}
	// Not in.phase: a cluster that counts as failed by one of two policies keeps its room by the other.
	soaks := c.Record.Phase == Soaking && c.Record.Revision == in.Revision
	return soaks || c.Record.Phase == Progressing || c.Record.Phase == RollingBack
}

// freeSlots is how many more clusters may be in progress.
func (in Input) freeSlots(limit int, clusters []Cluster) int {
	limit -= in.Deleting
	for _, c := range clusters {
		if in.isInProgress(c) {
			limit--
		}
	}
	return limit
}

// advanceRecord returns the record of a cluster after what it reports now. reopened: it succeeded without a Machine, and its mandatory
// group still needs a cluster that proves the revision.
func (in Input) advanceRecord(c Cluster, rules rules, reopened bool) Record {
	r := c.Record
	if c.Silent {
		return r
	}
	r = r.undoneRecord(in.Revision)
	if reopened && !c.Held {
		r.Phase, r.Since, r.Empty, r.SoakDue = Progressing, in.Now, false, time.Time{}
	}
	if r.Phase == ToApply || r.Phase == Succeeded || r.Phase == RolledBack {
		return r
	}
	if c.Held {
		r.Held = true
		return r
	}
	// The time in which the cluster was held says nothing about it: its deadline and its soak start over.
	if r.Held {
		r.Held, r.Since, r.SoakDue = false, in.Now, time.Time{}
	}
	if r.Phase == RollingBack || r.Phase == RollbackFailed {
		return r.endRollback(c.Observed, rules, in.Now)
	}
	return in.endPhase(in.soakRecord(r, c.Observed, rules), c, rules)
}

// soakRecord starts a soak where a MachineDeployment is healthy, again where it got its first Machines, and ends one where it is not.
func (in Input) soakRecord(r Record, o Observed, rules rules) Record {
	healthy, empty := o.isHealthy(), o.Desired == 0
	switch {
	case healthy && (r.Phase != Soaking || r.Empty && !empty):
		r.Phase, r.Since, r.Empty = Soaking, in.Now, empty
		if r.SoakDue.IsZero() {
			r.SoakDue = in.Now.Add(rules.soak)
		}
	case !healthy && r.Phase == Soaking:
		r.Phase, r.Since, r.Empty = Progressing, in.Now, false
	case r.Phase == Soaking:
		r.Empty = empty
	}
	return r
}

// endPhase ends a phase that is over. That nothing was heard since a soak started is no success.
func (in Input) endPhase(r Record, c Cluster, rules rules) Record {
	o, soaked := c.Observed, r.Since.Add(rules.soak)
	switch {
	case r.Phase == Soaking && !in.Now.Before(soaked) && (rules.soak == 0 || c.HeardAt == nil || !c.HeardAt.Before(soaked)):
		r.Phase, r.Since = Succeeded, in.Now
	case r.Phase == Progressing && o.hasFailed(r.Since, in.Now):
		r.Phase, r.Since, r.Retried = Failed, in.Now, in.RetriedAt
	case r.Phase == Progressing && rules.deadline > 0 && !in.Now.Before(r.progressDeadline(rules, o)):
		r.Phase, r.Since, r.Retried = TimedOut, in.Now, in.RetriedAt
	}
	return r
}

// progressDeadline is until when a cluster may be in progress. A condition of the cluster that keeps failing in its soaks gives it no more time
// than until progressDeadline after the first soak was to end.
func (r Record) progressDeadline(rules rules, o Observed) time.Time {
	end := r.Since.Add(rules.deadline)
	if last := r.SoakDue.Add(rules.deadline); o.Unhealthy && !r.SoakDue.IsZero() && last.Before(end) {
		return last
	}
	return end
}

// hasFailed reports whether a MachineDeployment reports that it cannot continue with what was started at a time. That it said so before
// then is about an earlier attempt, which it may get over: it counts only after as long as the MachineDeployment may make no
// progress.
func (o Observed) hasFailed(begun, now time.Time) bool {
	if !o.isCurrent() || !o.Failing {
		return false
	}
	// The conditions have whole seconds.
	return !o.FailingSince.Before(begun.Truncate(time.Second)) || !now.Before(begun.Add(o.Deadline))
}
