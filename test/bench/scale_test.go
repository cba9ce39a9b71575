package main

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
)

// Claim: `make bench-scale` leaves out a mode that the machine does not hold, and says why. Broken: new.
func TestATableOfModesSaysWhatWasNotMeasured(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	g.Expect(printScale(scaleOptions{options: options{clusters: 50, machines: 20, out: out}, scaleTo: 200}, []scaleFigures{
		{Mode: "processes", NotMeasured: []string{"the fleet: memory: the fleet needs 30.0 GiB"}},
		{Mode: "packs", Plane: cost{AnonymousMiB: 265.34, PrivateMiB: 266, CPUSecondsPerMinute: 1.3714}, UpSeconds: 27.4},
	})).To(Succeed())
	g.Expect(out.String()).To(And(
		MatchRegexp(`50 clusters, 20 Machines each +processes +packs\n`),
		MatchRegexp(`control plane without nodes: memory \(private\) +- +265\.3 \(266\) MiB\n`),
		MatchRegexp(`control plane without nodes: CPU +- +1\.371 s/min\n`),
		MatchRegexp(`from local up to all Ready +- +27 s\n`),
		MatchRegexp(`one cluster: from 1 to 200 Ready +- +-\n`),
		ContainSubstring("Not measured with processes: the fleet: memory: the fleet needs 30.0 GiB\n"),
		MatchRegexp(`kubemark .* 17\.7 MiB private, 0\.25 CPU s/min`),
	))
}

func TestScaleRefusesWhatItCannotMeasure(t *testing.T) {
	for says, opts := range map[string]scaleOptions{
		"--clusters":                       {options: options{machines: 1}},
		"--scale-to":                       {options: options{clusters: 1, machines: 1}, scaleTo: -1},
		`--mode: want one of ["processes"`: {options: options{clusters: 1, machines: 1}, modes: []string{"fast"}},
	} {
		NewWithT(t).Expect(runScale(t.Context(), opts)).To(MatchError(ContainSubstring(says)))
	}
}
