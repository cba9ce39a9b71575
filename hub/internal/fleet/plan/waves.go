package plan

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
