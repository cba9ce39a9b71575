package plan

import (
	"slices"
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
