package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/machinefleet"
	rolloutcommand "github.com/hollowfleet/hollowfleet/hub/cli/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// fleetCard is a fleet in the list of all.
type fleetCard struct {
	Name, State, Class, Wave, Kubelet, Message string
	Counts                                     v1alpha1.MachineFleetClusters
}

// fleetList is what the page of all fleets shows, or that of all sets.
type fleetList struct {
	// Path is where the pages of each are, and Version what the version of one is of.
	Title, Path, Kind, Version string

	Unread string
	Fleets []fleetCard
	Pages  pager
}

// mostFleets is how many fleets a page shows, and mostMembers how many clusters of one.
const mostFleets, mostMembers = 100, 100

func (s *server) showFleets(r *http.Request) (*view, error) {
	f, err := s.state()
	if err != nil {
		return nil, err
	}
	list := fleetList{Title: "Fleets", Path: fleetRollouts.path, Kind: health.MachineFleet, Version: "Kubelet"}
	if err := s.store.errorOf(health.MachineFleet); err != nil {
		list.Unread = err.Error()
	}
	all := objectsOf[*v1alpha1.MachineFleet](s.store, health.MachineFleet, nil)
	list.Pages = newPager(r, len(all), mostFleets)
	for _, fleet := range all[list.Pages.From:list.Pages.To] {
		list.Fleets = append(list.Fleets, f.newCard(fleet))
	}
	return &view{Title: "Fleets", Section: "fleets", Template: "fleets.tmpl", Data: list}, nil
}

func (f *fleetState) newCard(fleet *v1alpha1.MachineFleet) fleetCard {
	card := fleetCard{
		Name: fleet.Name, State: string(health.Healthy), Wave: machinefleet.FormatWave(fleet), Message: fleet.Status.Message, Counts: fleet.Status.Clusters,
		Kubelet: cmp.Or(fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet, "–"),
	}
	if finding := f.findings[objectName{health.MachineFleet, "", fleet.Name}]; finding != nil {
		card.State, card.Message = string(finding.State), finding.Reason+": "+finding.Message
	}
	card.Class = classOf(card.State)
	return card
}

// fleetPage is a fleet with its waves.
type fleetPage struct {
	// Path is where it is, Version what its version is of, and Columns are those that only one of the kinds has.
	Title, Path, Version string
	Columns              []string

	Card     fleetCard
	Revision string
	Progress string
	Problem  string
	// Unknown says why the clusters are not shown.
	Unknown string
	Waves   []wave
	Pages   pager
	// Axis is what the bars are drawn on.
	Axis    axis
	Left    []string
	Notes   []string
	Turns   []rollout.Turn
	Actions []actionLink
	Denied  []string
}

// wave is a wave of a rollout.
type wave struct {
	Number  int
	Groups  string
	Current bool
	Members []member
}

// member is a cluster of a fleet.
type member struct {
	Cluster, Group, State, Class, Since, Soak, Kubelet, Machines string
	Waits                                                        []string
	Bars                                                         []bar
}

func (s *server) showFleet(r *http.Request) (*view, error) {
	f, err := s.state()
	if err != nil {
		return nil, err
	}
	from, fleet := s.store.newReader(), &v1alpha1.MachineFleet{}
	if err := cmdutil.Get(r.Context(), from, cmdutil.FleetKind, client.ObjectKey{Name: r.PathValue("fleet")}, fleet); err != nil {
		return nil, err
	}
	page := fleetPage{
		Title: "Fleet " + fleet.Name, Path: fleetRollouts.path, Version: "kubelet", Columns: []string{"Kubelet", "Machines"},
		Card: f.newCard(fleet), Progress: describeProgress(fleet.Status.Conditions),
	}
	page.Actions, page.Denied = s.offerActions(r.Context(), fleetRollouts, fleet)
	for _, kind := range []string{health.Cluster, health.MachineDeployment} {
		if err := s.store.errorOf(kind); err != nil {
			page.Unknown = kind + "s are not known: " + cmdutil.Printable(err.Error())
		}
	}
	if page.Unknown == "" {
		if err := s.addPreview(r, f, fleet, &page); err != nil {
			page.Unknown = "What the hub would do next is not known: " + cmdutil.Printable(err.Error())
		}
	}
	return &view{Title: "Fleet " + fleet.Name, Section: "fleets", Template: "fleet.tmpl", Data: page}, nil
}

// describeProgress is what a rollout does now, or waits for.
func describeProgress(conditions []metav1.Condition) string {
	progressing := meta.FindStatusCondition(conditions, v1alpha1.ProgressingCondition)
	if progressing == nil {
		return ""
	}
	return progressing.Reason + ": " + cmp.Or(progressing.Message, string(progressing.Status))
}

// addPreview adds the clusters of a fleet, as "kubectl hollow fleet status" finds them.
func (s *server) addPreview(r *http.Request, f *fleetState, fleet *v1alpha1.MachineFleet, page *fleetPage) error {
	found := s.fleets.previewOf(r.Context(), s.store, fleet, f.Now)
	if found.err != nil {
		return found.err
	}
	p, soak := found.preview, rolloutcommand.MinSuccessTime(&fleet.Spec.RolloutStrategy)
	page.Revision = p.Revision
	if p.Problem != nil {
		page.Problem = p.Problem.Reason + ": " + p.Problem.Message
	}
	for _, field := range p.Unused {
		page.Notes = append(page.Notes, field+" matches no cluster of the fleet")
	}
	departed := map[string]bool{}
	for i := range found.departed {
		departed[found.departed[i].Cluster] = true
		page.Left = append(page.Left, found.departed[i].Cluster+": "+found.departed[i].Explain())
	}
	members := slices.DeleteFunc(slices.Clone(p.Members), func(m rollout.ClusterPreview) bool { return departed[m.Cluster.Name] })
	slices.SortStableFunc(members, func(a, b rollout.ClusterPreview) int { return cmp.Compare(a.Wave, b.Wave) })
	var record *rollout.Rollout
	if found.record != nil && found.record.Revision == p.Revision {
		record = found.record
		page.Turns = record.Turns
	}
	page.Axis = newRolloutAxis(members, record, soak, f.Now)
	page.Pages = newPager(r, len(members), mostMembers)
	for _, m := range members[page.Pages.From:page.Pages.To] {
		page.addMember(m.Wave, int(fleet.Status.CurrentWave), p.Waves, newMember(&m, record, &page.Axis, soak, f.Now))
	}
	return nil
}

// addMember adds a cluster to its wave, which is the last one or the next.
func (p *fleetPage) addMember(number, current int, waves []plan.Wave, one member) {
	if last := len(p.Waves) - 1; last < 0 || p.Waves[last].Number != number {
		p.Waves = append(p.Waves, wave{Number: number, Current: number == current, Groups: groupsOf(waves, number)})
	}
	last := &p.Waves[len(p.Waves)-1]
	last.Members = append(last.Members, one)
}

// groupsOf are the groups of a wave.
func groupsOf(waves []plan.Wave, number int) string {
	if number < 1 || number > len(waves) {
		return ""
	}
	return strings.Join(waves[number-1].Groups, ", ")
}

func newMember(m *rollout.ClusterPreview, record *rollout.Rollout, axis *axis, soak time.Duration, now time.Time) member {
	one := member{
		Cluster: m.Cluster.Name, Group: cmp.Or(m.Group, "–"), State: machinefleet.FormatState(*m), Since: "–", Soak: "–", Kubelet: "–", Machines: "–", Waits: m.Problems(),
	}
	one.Class = map[string]string{
		"Updated": "good", "Blocked": "bad", "Held": "cold", "Waiting": "warn", string(plan.Progressing): "busy", string(plan.Soaking): "busy",
	}[one.State]
	one.Class = cmp.Or(one.Class, "bad")
	if m.Deployment != nil {
		one.Kubelet, one.Machines = machinefleet.DescribeMachines(m.Deployment)
	}
	if !m.Since.IsZero() {
		one.Since = ageText(now, m.Since)
	}
	if m.Phase == plan.Soaking {
		one.Soak = duration.HumanDuration(max(m.Since.Add(soak).Sub(now), 0)) + " left"
	}
	if m.Phase == plan.ToApply && len(one.Waits) == 0 {
		one.Waits = []string{rolloutcommand.DescribeTurn(m)}
	}
	one.Bars = memberBars(m, record, axis, soak, now)
	return one
}
