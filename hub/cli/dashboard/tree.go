package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/machinefleet"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	// mostMachines is how many Machines of a MachineSet a page shows, and mostCauses how many causes.
	mostMachines, mostCauses = 50, 8
)

// clusterPage is a cluster with all that is below it.
type clusterPage struct {
	Tile   clusterTile
	Facts  []cmdutil.Fact
	Causes []cause
	Tree   []treeRow
	// Missing says which kinds are not known.
	Missing []string
}

// cause is why objects of a cluster are not healthy.
type cause struct {
	problemRow
	// Same is how many more objects say the same.
	Same string
}

// treeRow is an object of a tree.
type treeRow struct {
	Kind, Name, State, Class, Kubelet, Message, Since string
	Children                                          []treeRow
	Pages                                             pager
}

// causal is the order of kinds in which one is the cause of what the next ones say.
var causal = []string{
	health.Cluster, health.MachineClass, health.NodeDisruptionRun, health.LoadTestRun, health.Machine, health.MachineSet, health.MachineDeployment,
}

func (s *server) showCluster(r *http.Request) (*view, error) {
	f, err := s.state()
	if err != nil {
		return nil, err
	}
	name, from := r.PathValue("cluster"), s.store.newReader()
	quiet := *s.hub
	quiet.Out, quiet.ErrOut = discardText{}, discardText{}
	roots, err := s.readTrees(r.Context(), &quiet, from, name)
	if err != nil {
		return nil, err
	}
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !s.hidesCluster(name) {
		if err := from.Get(r.Context(), client.ObjectKey{Name: name}, cluster); err != nil {
			return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
		}
	}
	page := clusterPage{Tile: f.newTile(cluster), Causes: f.findCauses(name), Facts: []cmdutil.Fact{
		{Name: "Kubernetes", Value: cmp.Or(cluster.Status.KubernetesVersion, "–")}, {Name: "Agent", Value: cmp.Or(cluster.Status.AgentVersion, "–")},
	}}
	for _, root := range roots {
		page.Tree = append(page.Tree, f.newRow(r, root))
	}
	for _, kind := range slices.Sorted(maps.Keys(from.missing)) {
		page.Missing = append(page.Missing, fmt.Sprintf("%s: not shown, because they are not known: %s", plural.Of(kind), cmdutil.Printable(from.missing[kind].Error())))
	}
	return &view{Title: "Cluster " + name, Section: "clusters", Template: "cluster.tmpl", Data: page}, nil
}

// readTrees reads the tree of a cluster, or those of its MachineDeployments if the user may not read the Cluster.
func (s *server) readTrees(ctx context.Context, hub *cmdutil.Hub, from *reader, name string) (roots []*machinefleet.Node, err error) {
	if !s.hidesCluster(name) {
		return machinefleet.ReadTree(ctx, hub, from, cmdutil.ClusterKind, name)
	}
	for _, deployment := range objectsOf[*v1alpha1.MachineDeployment](s.store, health.MachineDeployment, nil) {
		found, err := machinefleet.ReadTree(ctx, hub, from, cmdutil.DeploymentKind, deployment.Name)
		if err != nil {
			return nil, err
		}
		roots = append(roots, found...)
	}
	return roots, nil
}

// discardText is for notes that a page shows otherwise.
type discardText struct{}

func (discardText) Write(text []byte) (int, error) { return len(text), nil }

// newRow makes a row of an object and all below it.
func (f *fleetState) newRow(r *http.Request, node *machinefleet.Node) treeRow {
	kind, name, _ := strings.Cut(node.Name, "/")
	row := treeRow{Kind: kind, Name: name, Kubelet: node.Kubelet, Message: node.Message}
	if node.Object != nil {
		state, finding := f.stateOf(kind, node.Object.GetNamespace(), name)
		if row.State, row.Class = state, classOf(state); finding != nil {
			row.Message, row.Since = finding.Reason+": "+finding.Message, sinceText(f.Now, finding.Since)
		}
	}
	children := node.Children
	if kind == health.MachineSet {
		children = f.sortWorst(children)
		if r.URL.Query().Get("set") != name {
			r = &http.Request{URL: &url.URL{}}
		}
		row.Pages = newPager(r, len(children), mostMachines)
		if row.Pages.Later != "" && r.URL.Query().Get("set") == "" {
			row.Pages.Later = encodeQuery(url.Values{"set": {name}, "page": {"1"}})
		}
		children = children[row.Pages.From:row.Pages.To]
	}
	for _, child := range children {
		row.Children = append(row.Children, f.newRow(r, child))
	}
	if machine, is := node.Object.(*v1alpha1.Machine); is {
		row.Children = append(row.Children, newPodRow(machine)...)
	}
	return row
}

// newPodRow is what the agent says of the pod of a Machine: pods are objects of the workload cluster.
func newPodRow(machine *v1alpha1.Machine) []treeRow {
	running := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachinePodRunningCondition)
	if running == nil {
		return nil
	}
	row := treeRow{Kind: "Pod", Name: machine.Name, State: "Running", Class: classOf(string(health.Healthy)), Message: running.Message}
	if running.Status != metav1.ConditionTrue {
		row.State, row.Class = running.Reason, classOf(string(health.Problem))
	}
	return []treeRow{row}
}

// sortWorst has those first that are not healthy.
func (f *fleetState) sortWorst(nodes []*machinefleet.Node) []*machinefleet.Node {
	sorted := slices.Clone(nodes)
	slices.SortStableFunc(sorted, func(a, b *machinefleet.Node) int {
		return cmp.Or(cmp.Compare(f.rankOf(a), f.rankOf(b)), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}

func (f *fleetState) rankOf(node *machinefleet.Node) int {
	if node.Object == nil {
		return len(stateRanks)
	}
	finding := f.findings[objectName{health.Machine, node.Object.GetNamespace(), node.Object.GetName()}]
	if finding == nil {
		return len(stateRanks)
	}
	return slices.Index(stateRanks, finding.State)
}

var stateRanks = []health.State{health.Problem, health.Paused, health.Waiting, health.InProgress}

// findCauses puts those findings first of which the others are consequences, one for each reason.
func (f *fleetState) findCauses(cluster string) (causes []cause) {
	findings := slices.DeleteFunc(slices.Clone(f.byCluster[cluster]), func(finding *health.Finding) bool {
		return finding.State != health.Problem && finding.Kind != health.NodeDisruptionRun
	})
	slices.SortStableFunc(findings, func(a, b *health.Finding) int { return cmp.Compare(causalRank(a.Kind), causalRank(b.Kind)) })
	count := map[string]int{}
	for _, finding := range findings {
		key := finding.Kind + "/" + finding.Reason
		if count[key]++; count[key] > 1 || len(causes) == mostCauses {
			continue
		}
		causes = append(causes, cause{problemRow: f.problemRows([]health.Finding{*finding})[0]})
	}
	for i := range causes {
		if more := count[causes[i].Kind+"/"+causes[i].Reason] - 1; more > 0 {
			causes[i].Same = plural.Count(more, "more "+causes[i].Kind)
		}
	}
	return causes
}

func causalRank(kind string) int {
	if rank := slices.Index(causal, kind); rank >= 0 {
		return rank
	}
	return len(causal)
}
