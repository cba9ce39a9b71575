package plan

import "slices"

// The waves of a rollout, and the percentages of its strategy, rest on the snapshot: the clusters that the fleet had when the
// revision was begun, each in the group that it had then. A cluster that is not in it is late. It takes up room, and its turn is
// when its wave has come; no wave waits for it, and its failure stops nothing. The rollout is complete only with it.

// members is the snapshot, or what it would be if the revision were begun now.
func (in Input) members() map[string]string {
	if in.Snapshot != nil {
		return in.Snapshot
	}
	members := map[string]string{}
	for _, c := range in.Clusters {
		members[c.Name] = c.Group
	}
	return members
}

// place gives a cluster the group that it has in the snapshot, or says that it is late.
func (in Input) place(c *Cluster) {
	if in.Snapshot == nil {
		return
	}
	group, known := in.Snapshot[c.Name]
	if c.late = !known; known {
		c.Group = group
	}
}

// hasTurn tells whether it is a cluster's turn while the current wave is open, or when all waves are through.
func (p *Plan) hasTurn(c Cluster, waves []wave, open bool) bool {
	at := slices.IndexFunc(waves, func(w wave) bool { return w.has(c) })
	switch {
	case at < 0:
		return false
	case !c.late:
		return open && at == p.Wave
	case !open || at < p.Wave:
		return true
	}
	// One that is late waits until its mandatory group has proven the revision.
	return at == p.Wave && !waves[at].mandatory
}
