package plan

import (
	"slices"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// previousRevision is the revision to which a cluster goes back that has record now and gets the current revision: the one with
// which it succeeded last.
func (in Input) previousRevision(record Record) string {
	previous := record.Previous
	if record.Phase == Succeeded {
		previous = record.Revision
	}
	if previous == in.Revision {
		return "" // What has just failed is nothing to go back to.
	}
	return previous
}

// undoneRecord is the record of a cluster whose fleet has gone back to what the cluster was rolled back to: it has that revision.
func (r Record) undoneRecord(revision string) Record {
	if r.Revision == revision || r.Previous != revision {
		return r
	}
	switch r.Phase {
	case RolledBack:
		r.Revision, r.Phase, r.Previous = revision, Succeeded, ""
	case RollingBack:
		r.Revision, r.Phase, r.Previous = revision, Progressing, ""
	case RollbackFailed:
		r.Revision, r.Phase, r.Previous = revision, Failed, ""
	case ToApply, Progressing, Soaking, Succeeded, Failed, TimedOut:
	}
	return r
}

// endRollback ends the rollback of a cluster that is over.
func (r Record) endRollback(o Observed, rules rules, now time.Time) Record {
	late := rules.deadline > 0 && !now.Before(r.Since.Add(rules.deadline))
	switch {
	case o.isHealthy():
		r.Phase, r.Since = RolledBack, now
	case r.Phase == RollingBack && (o.hasFailed(r.Since, now) || late):
		r.Phase, r.Since = RollbackFailed, now
	}
	return r
}

// retryAsked reports whether a user has asked for the current revision to be started again in a cluster since it failed there.
func (in Input) retryAsked(c Cluster) bool {
	if c.Record.Revision != in.Revision || in.Aborted || in.RetriedAt.IsZero() || in.RetriedAt.Equal(c.Record.Retried) {
		return false
	}
	switch c.Record.Phase {
	case Failed, TimedOut, RollingBack, RolledBack, RollbackFailed:
		return true
	case ToApply, Progressing, Soaking, Succeeded:
	}
	return false
}

// hasFailed reports whether a cluster has failed by what it reported, and not for being unreachable alone.
func (in Input) hasFailed(c Cluster) bool {
	if c.Record.Revision != in.Revision || in.retryAsked(c) {
		return false
	}
	switch c.Record.Phase {
	case Failed, TimedOut, RollingBack, RolledBack, RollbackFailed:
		return true
	case ToApply, Progressing, Soaking, Succeeded:
	}
	return false
}

// Retries reports whether the current revision is to be started again in a cluster.
func (in Input) Retries(c Cluster) bool { return in.retryAsked(c) && !c.Left }

// rolledBack reports whether a cluster was, or is being, rolled back from the current revision.
func (in Input) rolledBack(c Cluster) bool {
	if c.Record.Revision != in.Revision || c.Left || in.Retries(c) {
		return false
	}
	switch c.Record.Phase {
	case RollingBack, RolledBack, RollbackFailed:
		return true
	case ToApply, Progressing, Soaking, Succeeded, Failed, TimedOut:
	}
	return false
}

// mayChange reports whether anything may be done in a cluster now.
func (in Input) mayChange(c Cluster) bool {
	return !in.Paused && !c.Held && !c.Silent && !c.Blocked && !c.Left
}

// toRollBack reports whether a cluster is to get back what it had before, according to its record: one that only counts as
// failed, because it is unreachable, is not.
func (in Input) toRollBack(c Cluster) bool {
	if c.Record.Revision != in.Revision || in.Retries(c) || c.Left {
		return false
	}
	switch c.Record.Phase {
	case Failed, TimedOut:
		return in.RollbackPolicy == v1alpha1.RollbackFailed || in.RollbackPolicy == v1alpha1.RollbackAll
	case Progressing, Soaking, Succeeded:
		return in.RollbackPolicy == v1alpha1.RollbackAll
	case ToApply, RollingBack, RolledBack, RollbackFailed:
	}
	return false
}

// rollBack gives clusters back what they had before, as far as there is room: first those that are in progress, which have
// their place already, then those that have failed, then the others. A cluster that soaks has its place only while no more are in
// progress than allowed: failed clusters that recover together soak together, and their Machines are not to be replaced together.
// A maintenance window is waited for only where the cluster is well.
func (p *Plan) rollBack(in Input, limit int, clusters []Cluster) {
	room := in.freeSlots(limit, clusters)
	for _, turn := range []func(Cluster) bool{
		in.isInProgress,
		func(c Cluster) bool { return !in.isInProgress(c) && c.Record.Phase != Succeeded },
		func(c Cluster) bool { return !in.isInProgress(c) && c.Record.Phase == Succeeded },
	} {
		for i := range clusters {
			c := &clusters[i]
			if !in.toRollBack(*c) || !turn(*c) {
				continue
			}
			busy := in.isInProgress(*c)
			inPlace := busy && (c.Record.Phase == Progressing || room >= 0)
			if p.rollBackOne(in, c, inPlace || room > 0) && !busy {
				room--
			}
		}
	}
	slices.Sort(p.ToRollBack)
	slices.Sort(p.NotRolledBack)
	slices.Sort(p.Closed)
}

// rollBackOne rolls a cluster back, if that can be done now. What the same plan says of it besides goes into the same write.
func (p *Plan) rollBackOne(in Input, c *Cluster, room bool) bool {
	waits := c.Closed && c.Record.Phase == Succeeded
	switch {
	case c.Record.Previous == "" || c.PreviousLost:
		p.NotRolledBack = append(p.NotRolledBack, c.Name)
		return false
	case !in.mayChange(*c) || waits || !room:
		p.ToRollBack = append(p.ToRollBack, c.Name)
		if waits {
			p.Closed = append(p.Closed, c.Name)
		}
		return false
	}
	from := c.Record.Phase
	c.Record.Phase, c.Record.Since, c.Record.Retried, c.Record.SoakDue = RollingBack, in.Now, in.RetriedAt, time.Time{}
	p.Changes = slices.DeleteFunc(p.Changes, func(change Change) bool { return change.Cluster == c.Name })
	p.Changes = append(p.Changes, Change{Cluster: c.Name, Record: c.Record, RollBack: true, From: from})
	return true
}
