package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	rolloutcommand "github.com/hollowfleet/hollowfleet/hub/cli/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/waves"
)

// showSets lists the SimulatedClusterSets, as showFleets lists fleets.
func (s *server) showSets(r *http.Request) (*view, error) {
	f, err := s.state()
	if err != nil {
		return nil, err
	}
	list := fleetList{Title: "Simulated clusters", Path: setRollouts.path, Kind: health.SimulatedClusterSet, Version: "Control plane"}
	if err := s.store.errorOf(health.SimulatedClusterSet); err != nil {
		list.Unread = err.Error()
	}
	all := objectsOf[*v1alpha1.SimulatedClusterSet](s.store, health.SimulatedClusterSet, nil)
	list.Pages = newPager(r, len(all), mostFleets)
	for _, set := range all[list.Pages.From:list.Pages.To] {
		list.Fleets = append(list.Fleets, f.newSetCard(set))
	}
	return &view{Title: list.Title, Section: setRollouts.section, Template: "fleets.tmpl", Data: list}, nil
}

// newSetCard is a set in the list of all.
func (f *fleetState) newSetCard(set *v1alpha1.SimulatedClusterSet) fleetCard {
	status := &set.Status.Rollout
	card := fleetCard{Name: set.Name, Wave: "–", Kubelet: cmp.Or(set.Spec.Template.Spec.Versions.ControlPlane, "default"), Counts: status.Clusters}
	if status.Waves > 0 {
		card.Wave = fmt.Sprintf("%d/%d", status.CurrentWave, status.Waves)
	}
	if ready := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ReadyCondition); ready != nil {
		card.Message = ready.Message
	}
	state, finding := f.stateOf(health.SimulatedClusterSet, "", set.Name)
	if card.State, card.Class = state, classOf(state); finding != nil {
		card.Message = finding.Reason + ": " + finding.Message
	}
	return card
}

// showSet shows the control planes of a set in their waves.
func (s *server) showSet(r *http.Request) (*view, error) {
	f, err := s.state()
	if err != nil {
		return nil, err
	}
	from, set := s.store.newReader(), &v1alpha1.SimulatedClusterSet{}
	if err := cmdutil.Get(r.Context(), from, cmdutil.SimulatedSetKind, client.ObjectKey{Name: r.PathValue("fleet")}, set); err != nil {
		return nil, err
	}
	page := fleetPage{
		Title: "Set " + set.Name, Path: setRollouts.path, Version: "control plane", Columns: []string{"Runs", "State of the cluster"},
		Card: f.newSetCard(set), Revision: set.Status.Rollout.Revision, Progress: describeProgress(set.Status.Conditions),
	}
	page.Actions, page.Denied = s.offerActions(r.Context(), setRollouts, rolloutcommand.ViewSet(set))
	for _, kind := range []string{health.Cluster, health.SimulatedCluster} {
		if err := s.store.errorOf(kind); err != nil {
			page.Unknown = kind + "s are not known: " + cmdutil.Printable(err.Error())
		}
	}
	if page.Unknown == "" {
		s.addSetMembers(r, f, set, &page)
	}
	return &view{Title: page.Title, Section: setRollouts.section, Template: "fleet.tmpl", Data: page}, nil
}

// addSetMembers adds the clusters of a set, as its hub decides about them. Of hosts and agents it knows what their Clusters say.
func (s *server) addSetMembers(r *http.Request, f *fleetState, set *v1alpha1.SimulatedClusterSet, page *fleetPage) {
	ones := objectsOf(s.store, health.SimulatedCluster, func(one *v1alpha1.SimulatedCluster) bool { return metav1.IsControlledBy(one, set) })
	all, members, problem := waves.Preview(waves.NewPreviewScope(set, ones, s.clusterNamed, f.Now))
	if problem != nil {
		page.Problem = problem.Reason + ": " + problem.Message
	}
	slices.SortStableFunc(members, func(a, b waves.MemberPreview) int { return cmp.Compare(a.Wave, b.Wave) })
	record, previews := recordOfSet(set, members), make([]rollout.ClusterPreview, len(members))
	for i := range members {
		previews[i] = members[i].ClusterPreview
	}
	soak := rolloutcommand.MinSuccessTime(&set.Spec.Rollout.RolloutStrategy)
	page.Axis = newRolloutAxis(previews, record, soak, f.Now)
	page.Pages = newPager(r, len(members), mostMembers)
	for _, m := range members[page.Pages.From:page.Pages.To] {
		one := newMember(&m.ClusterPreview, record, &page.Axis, soak, f.Now)
		if m.One.Status.Versions != nil {
			one.Kubelet = cmp.Or(m.One.Status.Versions.ControlPlane, "–")
		}
		one.Machines, _ = f.stateOf(health.SimulatedCluster, m.One.Namespace, m.One.Name)
		page.addMember(m.Wave, int(set.Status.Rollout.CurrentWave), all, one)
	}
}

// clusterNamed is nil for none.
func (s *server) clusterNamed(name string) *v1alpha1.Cluster {
	cluster, _ := s.store.object(health.Cluster, client.ObjectKey{Name: name}).(*v1alpha1.Cluster)
	return cluster
}

// recordOfSet is when the current rollout of a set was started, and in which clusters; nil if it was not.
func recordOfSet(set *v1alpha1.SimulatedClusterSet, members []waves.MemberPreview) *rollout.Rollout {
	record := &rollout.Rollout{Clusters: map[string]rollout.ClusterRollout{}}
	for i := range set.Status.Rollout.History {
		if one := &set.Status.Rollout.History[i]; one.Rollout == set.Status.Rollout.Rollout {
			record.Started = one.StartedAt.UTC().Format(time.RFC3339)
		}
	}
	if record.Started == "" {
		return nil
	}
	for i := range members {
		m := &members[i]
		record.Clusters[m.Cluster.Name] = rollout.ClusterRollout{Started: m.BeganAt(), Soaked: m.SoakedAt()}
	}
	return record
}
