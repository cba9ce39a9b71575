package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
)

// update writes the documents of testdata again. A change that is not an addition needs another cmdutil.DocumentVersion.
var update = flag.Bool("update", false, "write testdata/*.json again")

// fullFleet has every field of a status.
func fullFleet() *overview.Fleet {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	return &overview.Fleet{
		Now: at, Scope: overview.Scope{Namespace: "c1"}, Hub: cmdutil.HubState{Version: "v1.0.0", Holder: "hub-1"}, Removed: []string{"machines"},
		Lost: "the hub's API server has not answered since 11:59:00 UTC (1m0s ago): no answer within 5s", LostSince: at.Add(-time.Minute),
		Stale: []overview.StaleKind{{Kind: "Machine", Since: metav1.NewTime(at.Add(-time.Hour)), Problem: "you may not watch them"}},
		Rollouts: []overview.Rollout{{
			Kind: "SimulatedClusterSet", Name: "sims", Revision: "v1.37", CurrentWave: 1, Waves: 2, Reason: "RollingOut",
			Clusters: v1alpha1.MachineFleetClusters{Selected: 36, Updated: 1, Progressing: 2, Soaking: 3, Waiting: 4, Failed: 5, Held: 6, RollingBack: 7, RolledBack: 8, Blocked: 9},
		}},
		Report: health.Report{
			Counts: []health.Count{
				{Kind: "Cluster", Total: 15, Healthy: 1, InProgress: 2, Waiting: 3, Paused: 4, Problems: 5},
				{Kind: "LoadTest", NotLookedAt: "you may not list them", Forbidden: true},
			},
			Findings: []health.Finding{{
				Kind: "Machine", Namespace: "c1", Name: "workers-a", State: health.Problem, Reason: "NodeNotReady", Message: "the kubelet is silent",
				Since: new(metav1.NewTime(at.Add(-time.Minute))), Next: "kubectl describe machine workers-a -n c1",
			}},
		},
	}
}

// Scripts rely on the documents: names and types of fields stay.
// Claim: The JSON of `status` and `version` keeps its fields. Broken: a field has another name.
func TestDocumentsKeepTheirShape(t *testing.T) {
	version := VersionDocument{
		APIVersion: cmdutil.DocumentVersion, Kind: "Version", Client: "v1.0.0", APIServer: "v1.37.1",
		Hub: &HubDocument{Healthy: true, Version: "v1.0.0", Holder: "hub-1", Problem: "none"},
	}
	for name, document := range map[string]any{"status": newStatusDocument(fullFleet()), "version": version} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var printed, line bytes.Buffer
			g.Expect((&cmdutil.DocumentOutput{Format: "json"}).Print(&printed, document)).To(Succeed())
			path := filepath.Join("testdata", name+".json")
			if *update {
				g.Expect(os.WriteFile(path, printed.Bytes(), 0o600)).To(Succeed())
			}
			golden, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(printed.String()).To(Equal(string(golden)))
			g.Expect((&cmdutil.DocumentOutput{Format: "json"}).PrintNext(&line, document)).To(Succeed())
			g.Expect(bytes.Count(line.Bytes(), []byte("\n"))).To(Equal(1), "one document per line")
			g.Expect(line.String()).To(MatchJSON(golden))
		})
	}
}
