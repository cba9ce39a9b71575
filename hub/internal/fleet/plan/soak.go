package plan

import "time"

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
	case r.Phase == Progressing && rules.deadline > 0 && !in.Now.Before(r.deadline(rules, o)):
		r.Phase, r.Since, r.Retried = TimedOut, in.Now, in.RetriedAt
	}
	return r
}

// deadline is until when a cluster may be in progress. A condition of the cluster that keeps failing in its soaks gives it no more time
// than until progressDeadline after the first soak was to end.
func (r Record) deadline(rules rules, o Observed) time.Time {
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
