package api_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// column is one of a table, and what it shows of the full object. Wide ones are shown with -o wide only.
type column struct {
	name string
	cell any
	wide bool
}

const age = "Age"

// Columns answer whether it is fine, and if not why.
// Claim: Print columns show what they promise. Broken: column Node renamed; a column of the wrong path.
// Edge case: `kubectl wait` found no Ready. Also: hub/internal/machinedeployment "rolled out"; hub/internal/machineset "its machines are available".
func TestColumns(t *testing.T) {
	objects := full(t)
	for resource, test := range map[string]struct {
		file string
		want []column
	}{
		"clusters": {"cluster", []column{
			{"Name", "full", false}, {"Acceptance", "Accepted", false}, {"Ready", "False", false}, {"Reason", "TargetUnreachable", false},
			{"Frozen", "True", false}, {"Frozen Reason", "AgentSilent", false}, {"Machines", 9, false}, {"Ready Machines", 7, false},
			{"Kubernetes", "v1.37.1", false}, {"Agent", "v0.9.0", true}, {"Clock Skew", "3s", true}, {age, nil, false},
		}},
		"machineclasses": {"machineclass", []column{
			{"Name", "full", false}, {"Provider", "hollow", false}, {"CPU", "8", true}, {"Memory", "32Gi", true}, {age, nil, false},
		}},
		"machines": {"machine", []column{
			{"Name", "full", false}, {"Phase", "Failed", false}, {"Ready", "False", false}, {"Reason", "NodeNotReady", false},
			{"Stale", "AgentSilent", false}, {"Schedulable", "False", false}, {"Node", "its-node", false}, {"Kubelet", "v1.35.4", false},
			{"Code", "v1.37.1", true}, {"Provider ID", "hollow://c/full", true}, {"Message", "the kubelet is away", true}, {age, nil, false},
		}},
		"machinesets": {"machineset", []column{
			{"Name", "full", false}, {"Ready", "False", false}, {"Reason", "ManualFreeze", false}, {"Desired", 9, false}, {"Current", 8, false},
			{"Ready Machines", 6, false}, {"Available", 5, false}, {"Frozen", "True", false}, {"Kubelet", "v1.36.2", false},
			{"Message", "by x", true}, {age, nil, false},
		}},
		"machinedeployments": {"machinedeployment", []column{
			{"Name", "full", false}, {"Ready", "False", false}, {"Reason", "ManualFreeze", false}, {"Desired", 9, false}, {"Current", 8, false},
			{"Updated", 7, false}, {"Ready Machines", 6, false}, {"Available", 5, false}, {"Frozen", "True", false},
			{"Kubelet", "v1.36.2", false}, {"Message", "by x", true}, {age, nil, false},
		}},
		"machinefleets": {"machinefleet", []column{
			{"Name", "full", false}, {"Ready", "False", false}, {"Reason", "TooManyFailures", false}, {"Wave", 1, false}, {"Waves", 2, false},
			{"Clusters", 9, false}, {"Updated", 1, false}, {"Failed", 1, false}, {"Held", 2, false}, {"Kubelet", "v1.36.2", false},
			{"Message", "one has failed", true}, {age, nil, false},
		}},
		"fleetapprovals": {"fleetapproval", []column{
			{"Name", "full", false}, {"Fleet", "workers", false}, {"Group", "production", false}, {"Revision", "a123456789", false}, {"Rollout", 7, false},
			{"Approver", "alice", false}, {age, nil, false},
		}},
		"machinelogrequests": {"machinelogrequest", []column{
			{"Name", "full", false}, {"Machine", "workers-a", false}, {"Phase", "Failed", false}, {"Reason", "Unavailable", false},
			{"Message", "no answer", true}, {age, nil, false},
		}},
		"nodedisruptions": {"nodedisruption", []column{
			{"Name", "full", false}, {"Phase", "Running", false}, {"Verdict", "Failed", false}, {"Clusters", 5, false}, {"Selected", 9, false}, {"Injected", 8, false},
			{"Observed", 7, false}, {"Recovered", 6, false}, {"Message", "it runs", true}, {age, nil, false},
		}},
		"nodedisruptionruns": {"nodedisruptionrun", []column{
			{"Name", "full", false}, {"Phase", "Running", false}, {"Verdict", "Failed", false}, {"Selected", 9, false}, {"Injected", 8, false},
			{"Observed", 7, false}, {"Recovered", 6, false}, {"Message", "it runs", true}, {age, nil, false},
		}},
		"loadtests": {"loadtest", []column{
			{"Name", "full", false}, {"Phase", "Running", false}, {"Verdict", "Failed", false}, {"Clusters", 5, false}, {"Completed", 3, false}, {"Failed", 2, false},
			{"Invalid", 1, false}, {"Missed", 1, true}, {"Message", "it runs", true}, {age, nil, false},
		}},
		"loadtestruns": {"loadtestrun", []column{
			{"Name", "full", false}, {"Phase", "Running", false}, {"Verdict", "Failed", false}, {"Step", "create (1/2)", false}, {"Requests", 100, false},
			{"Failed", 3, false}, {"Message", "it runs", true}, {age, nil, false},
		}},
		"simulatedclusters": {"simulatedcluster", []column{
			{"Name", "full", false}, {"Ready", "False", false}, {"Reason", "ManualFreeze", false}, {"Control Plane", "v1.36.0", false},
			{"Frozen", "True", false}, {"Message", "by x", true}, {age, nil, false},
		}},
		"simulatedclustersets": {"simulatedclusterset", []column{
			{"Name", "full", false}, {"Ready", "False", false}, {"Reason", "NameTaken", false}, {"Desired", 9, false}, {"Current", 8, false},
			{"Ready Clusters", 6, false}, {"Control Plane", "v1.36", false}, {"Updated", 1, true}, {"Failed", 1, true},
			{"Message", "full-3 is another's", true}, {age, nil, false},
		}},
	} {
		t.Run(resource, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(objects).To(HaveKey(test.file))
			object := store(t, objects[test.file])
			path := "/apis/" + v1alpha1.GroupVersion.String()
			if object.GetNamespace() != "" {
				path += "/namespaces/" + object.GetNamespace()
			}
			table := &metav1.Table{}
			get(g, path+"/"+resource+"/"+object.GetName(), "application/json;as=Table;v=v1;g=meta.k8s.io", table)
			g.Expect(table.Rows).To(HaveLen(1))
			g.Expect(table.ColumnDefinitions).To(HaveLen(len(test.want)))
			for i, want := range test.want {
				definition, cell := table.ColumnDefinitions[i], table.Rows[0].Cells[i]
				g.Expect(definition.Name).To(Equal(want.name))
				g.Expect(definition.Priority).To(BeEquivalentTo(map[bool]int{true: 1}[want.wide]), want.name)
				if want.name == age {
					g.Expect(cell).To(MatchRegexp(`^\d+[smh]`), "how long ago")
				} else {
					g.Expect(cell).To(BeEquivalentTo(want.cell), want.name)
				}
			}
		})
	}
	g := NewWithT(t)
	g.Expect(kinds).To(HaveLen(14), "each kind has its columns here")
}
