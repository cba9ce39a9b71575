package group

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
)

// Edge case: A group that is full, ends or emulates another version, and flags of a whole process.
func TestAGroupTakesOnlyWhatFits(t *testing.T) {
	var full []member
	for i := range MaxClusters {
		full = append(full, member{fmt.Sprintf("/data%d", i), fmt.Sprintf("c%d", i)})
	}
	for name, test := range map[string]struct {
		group   *group
		options controlplane.Options
		want    string
	}{
		"full":            {&group{clusters: full}, controlplane.Options{}, "no more have room: start another one with"},
		"a name twice":    {&group{clusters: []member{{"/other", "c1"}}}, controlplane.Options{Name: "c1"}, "has a cluster c1 already, in /other"},
		"ending":          {&group{ending: true}, controlplane.Options{}, "is ending"},
		"another version": {&group{}, controlplane.Options{EmulatedVersion: "1.36"}, "not 1.36: start another one with \"simcluster group --emulated-version 1.36"},
		"an older group":  {&group{options: Options{EmulatedVersion: "1.36"}}, controlplane.Options{}, "emulates Kubernetes 1.36, not "},
		"no version":      {&group{}, controlplane.Options{EmulatedVersion: "latest"}, "write it as 1.36"},
		"feature gates": {&group{}, controlplane.Options{ExtraArgs: map[string][]string{controlplane.APIServer: {"feature-gates=A=true"}}},
			"start the cluster without --group"},
		"verbosity": {&group{}, controlplane.Options{ExtraArgs: map[string][]string{controlplane.Scheduler: {"--v=4"}}}, "start the cluster without --group"},
	} {
		if test.group.options.EmulatedVersion == "" {
			test.group.options.EmulatedVersion = plane.Minor()
		}
		test.group.dir, test.group.options.Progress, test.options.DataDir = "/group", io.Discard, "/data"
		before := len(test.group.clusters)
		err := test.group.admitCluster(test.options)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if len(test.group.clusters) != before {
			t.Errorf("%s: a place was taken", name)
		}
	}
}

func TestErrorsKeepTheirExitCodesOnTheWire(t *testing.T) {
	for _, kind := range kinds[1:] {
		err := fmt.Errorf("starting: %w", kind)
		again := startAnswer{Error: err.Error(), Kind: kindOf(err)}.failure()
		if !errors.Is(again, kind) || again.Error() != err.Error() {
			t.Errorf("%v became %v", err, again)
		}
	}
	if err := (startAnswer{Error: "x", Kind: 99}).failure(); err.Error() != "x" {
		t.Errorf("an unknown kind: %v", err)
	}
}

// Edge case: A component that ends its shared process again and again.
func TestAComponentThatEndsItsProcessIsNotStartedForEver(t *testing.T) {
	p := &sharedProcess{ends: map[string]int{}}
	for range maxEnds {
		if err := p.checkEnds("c1/etcd"); err != nil {
			t.Fatal(err)
		}
		p.countEnd("c1/etcd")
	}
	if err := p.checkEnds("c1/etcd"); err == nil || !strings.Contains(err.Error(), "without --group") {
		t.Errorf("after %d ends: %v", maxEnds, err)
	}
	for _, other := range []string{"c1/kube-scheduler", "c11/etcd"} {
		if err := p.checkEnds(other); err != nil {
			t.Error(err)
		}
	}
	p.forgetEnds("c1")
	if err := p.checkEnds("c1/etcd"); err != nil {
		t.Errorf("when the cluster is started again: %v", err)
	}
}
