package plan

import (
	"time"
)

// reportClusters fills in what the plan says about the clusters.
func (p *Plan) reportClusters(in Input, clusters []Cluster, rules rules) {
	p.Counts = map[Phase]int{}
	for _, c := range clusters {
		phase := in.phaseOf(c)
		p.Counts[phase]++
		if c.late && !c.Left && in.isUnfinished(c) {
			p.Late = append(p.Late, c.Name)
		}
		if phase == Failed || phase == TimedOut || phase == RollbackFailed {
			p.Failures = append(p.Failures, c.Name)
		}
		switch {
		case c.Held && phase != Succeeded:
			if !c.Left {
				p.Held = append(p.Held, c.Name)
			}
		case !c.Silent:
			p.recheckPhase(in, c, rules)
		}
	}
}

// recheckPhase sees to it that the time is kept at which the phase of a cluster ends, if nothing else ends it.
func (p *Plan) recheckPhase(in Input, c Cluster, rules rules) {
	now := in.Now
	r, o := c.Record, c.Observed
	switch r.Phase {
	case Soaking:
		end := r.Since.Add(rules.soak)
		if r.Revision == in.Revision && end.After(p.SoakEnds) {
			p.SoakEnds = end
		}
		if p.recheckAfter(end.Sub(now)); !now.Before(end) && r.Revision == in.Revision {
			p.AwaitingNews = append(p.AwaitingNews, c.Name)
		}
	case Progressing, RollingBack:
		if rules.deadline > 0 {
			p.recheckAfter(r.progressDeadline(rules, o).Sub(now))
		}
		if o.isCurrent() && o.Failing {
			p.recheckAfter(r.Since.Add(o.Deadline).Sub(now))
		}
	case ToApply, Succeeded, Failed, TimedOut, RolledBack, RollbackFailed:
	}
}

func (p *Plan) recheckAfter(after time.Duration) {
	if after <= 0 {
		return
	}
	if p.RecheckAfter == 0 || after < p.RecheckAfter {
		p.RecheckAfter = after
	}
}

// Wave is a set of clusters that all have to be over before a cluster of the next wave is started.
type Wave struct {
	// Groups are the decision groups of the wave; empty for the clusters that no other wave has.
	Groups []string
	// Mandatory: no cluster of the wave may fail.
	Mandatory bool
	// Clusters are sorted by name.
	Clusters []string
}

// Waves returns the waves of a rollout in their order, those without clusters included. An error names the field of the
// strategy that is wrong.
func Waves(in Input) ([]Wave, error) {
	clusters := sortByName(in.Clusters)
	all, err := in.readGates(clusters)
	if err != nil {
		return nil, err
	}
	var waves []Wave
	for i, w := range all[0].waves {
		wave := Wave{Mandatory: w.mandatory}
		if !w.except {
			wave.Groups = w.groups
		}
		for _, c := range clusters {
			if all[0].waveOf(c) == i {
				wave.Clusters = append(wave.Clusters, c.Name)
			}
		}
		waves = append(waves, wave)
	}
	return waves, nil
}
