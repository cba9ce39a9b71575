package plan

// Wave is a set of clusters that all have to be over before a cluster of the next wave is begun.
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
	rules, err := newRules(in.Strategy, in.Groups, len(in.members()))
	if err != nil {
		return nil, err
	}
	clusters := sorted(in.Clusters)
	for i := range clusters {
		in.place(&clusters[i])
	}
	var waves []Wave
	for _, w := range rules.waves {
		wave := Wave{Mandatory: w.mandatory}
		if !w.except {
			wave.Groups = w.groups
		}
		for _, c := range clusters {
			if w.has(c) {
				wave.Clusters = append(wave.Clusters, c.Name)
			}
		}
		waves = append(waves, wave)
	}
	return waves, nil
}
