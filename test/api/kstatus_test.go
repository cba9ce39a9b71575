package api_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// No controller has seen these objects: what they say is a default of their schema.
func TestKStatusOfWhatIsJustCreated(t *testing.T) {
	tests := map[string]struct {
		spec string
		want status.Status
	}{
		"Cluster":           {`{}`, status.InProgressStatus},
		"MachineClass":      {`{provider: hollow}`, status.CurrentStatus},
		"FleetApproval":     {`{fleet: workers, fleetUID: a, revision: b, rollout: 1, group: production, approver: alice}`, status.CurrentStatus},
		"Machine":           {`{clusterName: c, providerConfig: {valueRef: {name: x}}}`, status.InProgressStatus},
		"MachineSet":        {minimalBody + "}", status.InProgressStatus},
		"MachineDeployment": {minimalBody + "}", status.InProgressStatus},
		"MachineFleet":      {minimalFleet + "}", status.InProgressStatus},
		"NodeDisruption":    {minimalDisruption, status.InProgressStatus},
		"NodeDisruptionRun": {minimalRun, status.InProgressStatus},
		"LoadTest":          {minimalLoadTest, status.InProgressStatus},
		"LoadTestRun":       {minimalLoad, status.InProgressStatus},
		"MachineLogRequest": {`{machineName: a}`, status.CurrentStatus},

		"SimulatedCluster":    {`{}`, status.InProgressStatus},
		"SimulatedClusterSet": {`{hostSelector: {}}`, status.InProgressStatus},
	}
	for kind, test := range tests {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			written := "apiVersion: " + v1alpha1.GroupVersion.String() + "\nkind: " + kind + "\nmetadata: {name: kstatus"
			if kind != "Cluster" && kind != "MachineFleet" && kind != "FleetApproval" && kind != "NodeDisruption" && kind != "LoadTest" && kind != "SimulatedClusterSet" {
				written += ", namespace: default"
			}
			written += "}\nspec: " + test.spec
			g.Expect(testenv.KStatus(t, store(t, parse(t, []byte(written))))).To(Equal(test.want))
		})
	}
	NewWithT(t).Expect(tests).To(HaveLen(len(kinds)), "each kind is here")
}
