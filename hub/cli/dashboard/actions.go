package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/rollout"
)

const (
	// mostForm bounds what a browser may send.
	mostForm = 8 << 10
	// longestAction is how long a change may take.
	longestAction = 30 * time.Second
)

// rollingKind is a kind with rollouts.
type rollingKind struct {
	kind cmdutil.Kind
	// path is where its pages are, and section that in the menu. resource is the kind in roles, and noun what pages call an object of it.
	path, section, resource, noun string
	// read reads the rollout of an object, as that of a MachineFleet.
	read func(context.Context, client.Reader, string) (*v1alpha1.MachineFleet, error)
}

var (
	fleetRollouts = rollingKind{cmdutil.FleetKind, "fleets", "fleets", "machinefleets", "fleet",
		func(ctx context.Context, from client.Reader, name string) (*v1alpha1.MachineFleet, error) {
			fleet := &v1alpha1.MachineFleet{}
			return fleet, cmdutil.Get(ctx, from, cmdutil.FleetKind, client.ObjectKey{Name: name}, fleet)
		}}
	setRollouts = rollingKind{cmdutil.SimulatedSetKind, "sets", "sets", "simulatedclustersets", "set",
		func(ctx context.Context, from client.Reader, name string) (*v1alpha1.MachineFleet, error) {
			set := &v1alpha1.SimulatedClusterSet{}
			err := cmdutil.Get(ctx, from, cmdutil.SimulatedSetKind, client.ObjectKey{Name: name}, set)
			return rollout.ViewSet(set), err
		}}
)

// action is something that a user can do with a rollout. It is the command of the same name of "kubectl hollow rollout".
type action struct {
	verb, explains string
	// isApproval: it takes rights of its own.
	isApproval bool
	// isOffered reports whether it makes sense now.
	isOffered func(*v1alpha1.MachineFleet) bool
}

// rightsFor are those that it takes.
func (a *action) rightsFor(of rollingKind, name string) []right {
	if a.isApproval {
		return []right{{"create", "fleetapprovals", ""}, {"approve", of.resource, name}}
	}
	return []right{{"patch", of.resource, name}}
}

// actions are all, in the order in which they are shown. An approval is one for each group.
var actions = []action{
	{
		verb: "approve", explains: "The current rollout may then start in the clusters of the group. The approval has your name.",
		isApproval: true,
		isOffered:  func(fleet *v1alpha1.MachineFleet) bool { return len(fleet.Status.AwaitingApproval) > 0 },
	},
	{
		verb: "pause", explains: "The rollout then starts in no further cluster. Clusters in which it has started finish it.",
		isOffered: func(fleet *v1alpha1.MachineFleet) bool { return !fleet.Spec.Paused },
	},
	{
		verb: "resume", explains: "The rollout then continues in all clusters whose turn it is.",
		isOffered: func(fleet *v1alpha1.MachineFleet) bool { return fleet.Spec.Paused },
	},
	{
		verb: "retry", explains: "The rollout then starts again in the clusters that failed or were rolled back, by the gates of the current spec.",
		isOffered: func(fleet *v1alpha1.MachineFleet) bool {
			counts := &fleet.Status.Clusters
			return counts.Failed+counts.RollingBack+counts.RolledBack > 0 || fleet.Spec.AbortedRevision != "" && fleet.Spec.AbortedRevision == fleet.Status.Revision
		},
	},
}

// actionLink leads to the question whether an action is really meant.
type actionLink struct {
	Text  string
	Path  string
	Query template.URL
}

// offerActions are the actions that make sense now and that the user may take. denied says which of them they may not.
func (s *server) offerActions(ctx context.Context, of rollingKind, fleet *v1alpha1.MachineFleet) (links []actionLink, denied []string) {
	if s.readOnly {
		return nil, nil
	}
	for i := range actions {
		one := &actions[i]
		if !one.isOffered(fleet) {
			continue
		}
		switch allowed, err := s.rights.mayDo(ctx, s.store.client, s.clock.Now(), one.rightsFor(of, fleet.Name)...); {
		case err != nil:
			denied = append(denied, fmt.Sprintf("Whether you may %s it is not known: %s", one.verb, cmdutil.Printable(err.Error())))
		case !allowed && one.isApproval:
			denied = append(denied, fmt.Sprintf("You may not approve it for %s: that needs ClusterRole %s", strings.Join(fleet.Status.AwaitingApproval, ", "), v1alpha1.ApproverRole))
		case !allowed:
			denied = append(denied, fmt.Sprintf("You may not %s it: that needs the right to patch this %s", one.verb, of.noun))
		case one.isApproval:
			for _, group := range fleet.Status.AwaitingApproval {
				links = append(links, actionLink{"Approve for group " + group, one.verb, encodeQuery(url.Values{"group": {group}})})
			}
		default:
			links = append(links, actionLink{Text: upperFirst(one.verb), Path: one.verb})
		}
	}
	return links, denied
}

// question is whether an action is really meant.
type question struct {
	Path, Fleet, Verb, Title, Explains, Group, Kubelet, Revision, Command string
	// Generation and Rollout are those of the fleet that the user sees.
	Generation, Rollout int64
}

// confirmAction asks.
func (s *server) confirmAction(r *http.Request, of rollingKind) (*view, error) {
	one, fleet, err := s.findAction(r, of)
	if err != nil {
		return nil, err
	}
	q := question{
		Path: of.path, Fleet: fleet.Name, Verb: one.verb, Explains: one.explains, Group: r.FormValue("group"), Revision: fleet.Status.Revision,
		Generation: fleet.Generation, Rollout: fleet.Status.Rollout,
	}
	if of.kind == cmdutil.FleetKind {
		q.Kubelet = cmp.Or(fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet, "of the cluster")
	}
	q.Title = upperFirst(one.verb) + " " + of.noun + " " + fleet.Name
	if one.isApproval {
		if !slices.Contains(fleet.Status.AwaitingApproval, q.Group) {
			return nil, cmdutil.Refusal("%s %s does not wait for an approval of group %q", of.noun, fleet.Name, q.Group)
		}
		q.Title += " for group " + q.Group
	}
	q.Command = "kubectl hollow rollout " + strings.Join(one.commandLine(of, fleet.Name, q.Group), " ")
	return &view{Title: q.Title, Section: of.section, Template: "confirm.tmpl", Data: q, Still: true}, nil
}

// findAction reads the action and the fleet of a request from the API server.
func (s *server) findAction(r *http.Request, of rollingKind) (*action, *v1alpha1.MachineFleet, error) {
	if s.readOnly {
		return nil, nil, cmdutil.Refusal("this dashboard is read-only")
	}
	i := slices.IndexFunc(actions, func(one action) bool { return one.verb == r.PathValue("action") })
	if i < 0 {
		return nil, nil, cmdutil.NotFound("unknown action")
	}
	ctx, cancel := context.WithTimeout(r.Context(), longestAction)
	defer cancel()
	fleet, err := of.read(ctx, s.store.client, r.PathValue("fleet"))
	return &actions[i], fleet, err
}

// commandLine is the action as the arguments of "kubectl hollow rollout".
func (a *action) commandLine(of rollingKind, name, group string) []string {
	args := []string{a.verb, string(of.kind), name}
	if a.isApproval {
		args = append(args, "--group="+group)
	}
	return args
}

// result is what came of an action.
type result struct {
	Title, Text, Noun, Path, Fleet string
	Failed                         bool
}

// serveAction takes an action, unless the fleet has changed since the user looked at it.
func (s *server) serveAction(w http.ResponseWriter, r *http.Request, of rollingKind) {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	s.servePage(w, r, func(r *http.Request) (*view, error) {
		one, fleet, err := s.findAction(r, of)
		if err != nil {
			return nil, err
		}
		group := r.PostFormValue("group")
		if err := checkSeen(r, of, fleet, group, one); err != nil {
			return nil, err
		}
		text, err := s.runCommand(r.Context(), one.commandLine(of, fleet.Name, group))
		if err != nil {
			text = strings.TrimSpace(text + "\n" + err.Error())
		}
		title := upperFirst(one.verb) + " " + of.noun + " " + fleet.Name
		v := &view{Title: title, Section: of.section, Template: "result.tmpl", Still: true, Data: result{
			Title: title, Text: text, Noun: of.noun, Path: of.path, Fleet: fleet.Name, Failed: err != nil,
		}}
		if err != nil {
			v.Status = http.StatusConflict
		}
		return v, nil
	})
}

// checkSeen refuses an action on a fleet that is not as the user has seen it: another template may have come.
func checkSeen(r *http.Request, of rollingKind, fleet *v1alpha1.MachineFleet, group string, one *action) error {
	generation, err := strconv.ParseInt(r.PostFormValue("generation"), 10, 64)
	number, errNumber := strconv.ParseInt(r.PostFormValue("rollout"), 10, 64)
	switch {
	case err != nil || errNumber != nil:
		return cmdutil.Usage("the form is not complete: go back and try again")
	case generation != fleet.Generation || number != fleet.Status.Rollout:
		return cmdutil.Refusal("%s %s has changed since you looked at it: look at it again. Nothing was changed", of.noun, fleet.Name)
	case one.isApproval && !slices.Contains(fleet.Status.AwaitingApproval, group):
		return cmdutil.Refusal("%s %s does not wait for an approval of group %q. Nothing was changed", of.noun, fleet.Name, group)
	}
	return nil
}

// runCommand runs "kubectl hollow rollout" and returns what it prints.
func (s *server) runCommand(ctx context.Context, args []string) (string, error) {
	// A browser that goes away leaves no change half-made.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestAction)
	defer cancel()
	var said bytes.Buffer
	out := cmdutil.NewEscaped(&said)
	hub := *s.hub
	hub.In, hub.Out, hub.ErrOut = &bytes.Buffer{}, out, out
	command := rollout.NewCommand(&hub) //nolint:contextcheck // Commands get ctx when they run.
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(args)
	command.SetOut(out)
	command.SetErr(out)
	err := command.ExecuteContext(ctx)
	if err != nil {
		err = hub.Explain(err)
	}
	_ = out.Close()
	return said.String(), err
}
