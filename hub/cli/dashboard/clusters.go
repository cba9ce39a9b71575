package dashboard

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	// mostTiles is how many clusters a page shows, and mostProblems how many problems of the whole fleet.
	mostTiles, mostProblems = 240, 10
)

// clusterTile is a cluster on the map.
type clusterTile struct {
	Name, State, Class string
	// Frozen says what freezes it, and Reason and Message why it is not healthy.
	Frozen, Reason, Message, Since string
	Machines, Version              string
	// Inside counts the problems in its namespace.
	Inside int
}

// clusterMap is what the first page shows.
type clusterMap struct {
	Unread string
	// States are the states that clusters are in, and how many.
	States []stateCount
	// Chosen and Search choose clusters by state and by a part of their names.
	Chosen, Search string
	Tiles          []clusterTile
	Pages          pager
	Hub            string
	Counts         []health.Count
	Problems       []problemRow
	More           string
}

type stateCount struct {
	Name, Class string
	Query       template.URL
	Count       int
	Current     bool
}

// problemRow is an object that is not healthy.
type problemRow struct {
	State, Class, Kind, Namespace, Name, Reason, Since, Next, Message string
	// Link is the page about it; empty if there is none.
	Link string
}

// frozenState and unknownState are states beside those of a judgement.
const frozenState, unknownState = "Frozen", "Unknown"

func (s *server) showClusters(r *http.Request) (*view, error) {
	f, err := s.state()
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	m := clusterMap{Chosen: query.Get("state"), Search: strings.TrimSpace(query.Get("q")), Hub: f.HubLine(), Counts: f.Report.Counts}
	clusters := objectsOf[*v1alpha1.Cluster](s.store, health.Cluster, nil)
	if hidden := s.store.scope.Namespace; s.hidesCluster(hidden) {
		clusters = []*v1alpha1.Cluster{{ObjectMeta: metav1.ObjectMeta{Name: hidden}}}
	} else if err := s.store.errorOf(health.Cluster); err != nil {
		m.Unread = err.Error()
	}
	count, tiles := map[string]int{}, []clusterTile(nil)
	for _, cluster := range clusters {
		tile := f.newTile(cluster)
		count[tile.State]++
		if (m.Chosen == "" || m.Chosen == tile.State) && strings.Contains(tile.Name, m.Search) {
			tiles = append(tiles, tile)
		}
	}
	for _, state := range []string{unknownState, frozenState, string(health.Problem), string(health.InProgress), string(health.Waiting), string(health.Healthy)} {
		if count[state] > 0 || state == m.Chosen {
			m.States = append(m.States, stateCount{
				Name: state, Class: classOf(state), Count: count[state], Current: state == m.Chosen,
				Query: encodeQuery(url.Values{"state": {state}, "q": {m.Search}}),
			})
		}
	}
	m.Pages = newPager(r, len(tiles), mostTiles)
	m.Tiles = tiles[m.Pages.From:m.Pages.To]
	rows, more := f.Report.Rows(mostProblems)
	m.Problems, m.More = f.problemRows(rows), strings.Join(more, ", ")
	return &view{Title: "Clusters", Section: "clusters", Template: "clusters.tmpl", Data: m}, nil
}

// hidesCluster reports whether the user may not read the Cluster of the namespace that is shown.
func (s *server) hidesCluster(name string) bool {
	return name != "" && name == s.store.scope.Namespace && apierrors.IsForbidden(s.store.errorOf(health.Cluster))
}

// hiddenCluster is said of a Cluster of which the user may read the namespace alone.
const hiddenCluster = "you may not read this Cluster: whether it is frozen, and its agent works, is not known"

// newTile says how a cluster is.
func (f *fleetState) newTile(cluster *v1alpha1.Cluster) clusterTile {
	state, finding := f.stateOf(health.Cluster, "", cluster.Name)
	tile := clusterTile{Name: cluster.Name, State: state, Version: cluster.Status.KubernetesVersion, Machines: "–"}
	if counts := cluster.Status.Machines; counts != nil {
		tile.Machines = fmt.Sprintf("%d/%d", counts.Ready, counts.Total)
	}
	if f.ClusterForbidden {
		tile.Message = hiddenCluster
	}
	if finding != nil {
		tile.Reason, tile.Message = finding.Reason, finding.Message
		tile.Since = sinceText(f.Now, finding.Since)
	}
	if frozen := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.FrozenCondition); frozen != nil && frozen.Status == metav1.ConditionTrue {
		tile.State, tile.Frozen, tile.Message = frozenState, frozen.Reason, frozen.Message
		tile.Since = sinceText(f.Now, &frozen.LastTransitionTime)
	}
	for _, finding := range f.byCluster[cluster.Name] {
		if finding.State == health.Problem && finding.Kind != health.Cluster {
			tile.Inside++
		}
	}
	tile.Class = classOf(tile.State)
	return tile
}

// classOf is the colour of a state.
func classOf(state string) string {
	switch state {
	case string(health.Healthy):
		return "good"
	case string(health.Problem):
		return "bad"
	case frozenState:
		return "cold"
	case string(health.InProgress):
		return "busy"
	}
	return "warn"
}

func (f *fleetState) problemRows(findings []health.Finding) (rows []problemRow) {
	for i := range findings {
		finding := &findings[i]
		row := problemRow{
			State: string(finding.State), Class: classOf(string(finding.State)), Kind: finding.Kind, Namespace: finding.Namespace, Name: finding.Name,
			Reason: finding.Reason, Since: sinceText(f.Now, finding.Since), Next: finding.Next, Message: finding.Message,
		}
		switch {
		case finding.Kind == health.Cluster:
			row.Link = "clusters/" + url.PathEscape(finding.Name)
		case finding.Namespace != "":
			row.Link = "clusters/" + url.PathEscape(finding.Namespace)
		case finding.Kind == health.MachineFleet:
			row.Link = "fleets/" + url.PathEscape(finding.Name)
		case finding.Kind == health.SimulatedClusterSet:
			row.Link = "sets/" + url.PathEscape(finding.Name)
		case finding.Kind == health.LoadTest:
			row.Link = "loadtests/" + url.PathEscape(finding.Name)
		case finding.Kind == health.NodeDisruption:
			row.Link = "timeline"
		}
		rows = append(rows, row)
	}
	return rows
}

// pager shows a part of a long list.
type pager struct {
	From, To, Total int
	// Earlier and Later are the queries of the pages before and after; empty for none.
	Earlier, Later template.URL
}

// encodeQuery is a query for a template, which would escape a plain text once more.
func encodeQuery(query url.Values) template.URL {
	return template.URL(query.Encode()) //nolint:gosec // It is escaped.
}

// newPager reads which page of a list is asked for.
func newPager(r *http.Request, total, size int) pager {
	query := r.URL.Query()
	number, err := strconv.Atoi(query.Get("page"))
	last := max((total-1)/size, 0)
	if err != nil {
		number = 0
	}
	number = min(max(number, 0), last)
	p := pager{From: number * size, To: min((number+1)*size, total), Total: total}
	to := func(page int) template.URL {
		query.Set("page", strconv.Itoa(page))
		return encodeQuery(query)
	}
	if number > 0 {
		p.Earlier = to(number - 1)
	}
	if number < last {
		p.Later = to(number + 1)
	}
	return p
}

// Text says what is shown of a list that is longer; empty if all is.
func (p pager) Text() string {
	if p.To-p.From == p.Total {
		return ""
	}
	return fmt.Sprintf("%d to %d of %s", p.From+1, p.To, plural.Count(p.Total, "entry"))
}
