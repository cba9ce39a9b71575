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

// action is something that a user can do with a fleet. It is the command of the same name of "kubectl hollow rollout".
type action struct {
	verb, explains string
	rights         func(fleet string) []right
	// isOffered reports whether it makes sense now.
	isOffered func(*v1alpha1.MachineFleet) bool
}

func patchRight(fleet string) []right { return []right{{"patch", "machinefleets", fleet}} }

// actions are all, in the order in which they are shown. An approval is one for each group.
var actions = []action{
	{
		verb: "approve", explains: "The current rollout may then start in the clusters of the group. The approval has your name.",
		rights: func(fleet string) []right {
			return []right{{"create", "fleetapprovals", ""}, {"approve", "machinefleets", fleet}}
		},
		isOffered: func(fleet *v1alpha1.MachineFleet) bool { return len(fleet.Status.AwaitingApproval) > 0 },
	},
	{
		verb: "pause", explains: "The rollout then starts in no further cluster. Clusters in which it has started finish it.", rights: patchRight,
		isOffered: func(fleet *v1alpha1.MachineFleet) bool { return !fleet.Spec.Paused },
	},
	{
		verb: "resume", explains: "The rollout then continues in all clusters whose turn it is.", rights: patchRight,
		isOffered: func(fleet *v1alpha1.MachineFleet) bool { return fleet.Spec.Paused },
	},
	{
		verb: "retry", explains: "The rollout then starts again in the clusters that failed or were rolled back, by the gates of the current spec.", rights: patchRight,
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
func (s *server) offerActions(ctx context.Context, fleet *v1alpha1.MachineFleet) (links []actionLink, denied []string) {
	if s.readOnly {
		return nil, nil
	}
	for _, one := range actions {
		if !one.isOffered(fleet) {
			continue
		}
		switch allowed, err := s.rights.mayDo(ctx, s.store.client, s.clock.Now(), one.rights(fleet.Name)...); {
		case err != nil:
			denied = append(denied, fmt.Sprintf("Whether you may %s it is not known: %s", one.verb, cmdutil.Printable(err.Error())))
		case !allowed && one.verb == "approve":
			denied = append(denied, fmt.Sprintf("You may not approve it for %s: that needs ClusterRole %s", strings.Join(fleet.Status.AwaitingApproval, ", "), v1alpha1.ApproverRole))
		case !allowed:
			denied = append(denied, fmt.Sprintf("You may not %s it: that needs the right to patch this MachineFleet", one.verb))
		case one.verb == "approve":
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
	Fleet, Verb, Title, Explains, Group, Kubelet, Revision, Command string
	// Generation and Rollout are those of the fleet that the user sees.
	Generation, Rollout int64
}

// confirmAction asks.
func (s *server) confirmAction(r *http.Request) (*view, error) {
	one, fleet, err := s.findAction(r)
	if err != nil {
		return nil, err
	}
	q := question{
		Fleet: fleet.Name, Verb: one.verb, Explains: one.explains, Group: r.FormValue("group"), Revision: fleet.Status.Revision,
		Kubelet:    cmp.Or(fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet, "of the cluster"),
		Generation: fleet.Generation, Rollout: fleet.Status.Rollout,
	}
	q.Title = upperFirst(one.verb) + " fleet " + fleet.Name
	if one.verb == "approve" {
		if !slices.Contains(fleet.Status.AwaitingApproval, q.Group) {
			return nil, cmdutil.Refusal("fleet %s does not wait for an approval of group %q", fleet.Name, q.Group)
		}
		q.Title += " for group " + q.Group
	}
	q.Command = "kubectl hollow rollout " + strings.Join(one.commandLine(fleet.Name, q.Group), " ")
	return &view{Title: q.Title, Section: "fleets", Template: "confirm.tmpl", Data: q, Still: true}, nil
}

// findAction reads the action and the fleet of a request from the API server.
func (s *server) findAction(r *http.Request) (*action, *v1alpha1.MachineFleet, error) {
	if s.readOnly {
		return nil, nil, cmdutil.Refusal("this dashboard was started with --read-only")
	}
	i := slices.IndexFunc(actions, func(one action) bool { return one.verb == r.PathValue("action") })
	if i < 0 {
		return nil, nil, cmdutil.NotFound("unknown action")
	}
	ctx, cancel := context.WithTimeout(r.Context(), longestAction)
	defer cancel()
	fleet := &v1alpha1.MachineFleet{}
	return &actions[i], fleet, cmdutil.Get(ctx, s.store.client, cmdutil.FleetKind, client.ObjectKey{Name: r.PathValue("fleet")}, fleet)
}

// commandLine is the action as the arguments of "kubectl hollow rollout".
func (a *action) commandLine(fleet, group string) []string {
	args := []string{a.verb, string(cmdutil.FleetKind), fleet}
	if a.verb == "approve" {
		args = append(args, "--group="+group)
	}
	return args
}

// result is what came of an action.
type result struct {
	Title, Text, Fleet string
	Failed             bool
}

// serveAction takes an action, unless the fleet has changed since the user looked at it.
func (s *server) serveAction(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	s.servePage(w, r, func(r *http.Request) (*view, error) {
		one, fleet, err := s.findAction(r)
		if err != nil {
			return nil, err
		}
		group := r.PostFormValue("group")
		if err := checkSeen(r, fleet, group, one); err != nil {
			return nil, err
		}
		text, err := s.runCommand(r.Context(), one.commandLine(fleet.Name, group))
		if err != nil {
			text = strings.TrimSpace(text + "\n" + err.Error())
		}
		v := &view{Title: "Fleet " + fleet.Name, Section: "fleets", Template: "result.tmpl", Still: true, Data: result{
			Title: upperFirst(one.verb) + " fleet " + fleet.Name, Text: text, Fleet: fleet.Name, Failed: err != nil,
		}}
		if err != nil {
			v.Status = http.StatusConflict
		}
		return v, nil
	})
}

// checkSeen refuses an action on a fleet that is not as the user has seen it: another template may have come.
func checkSeen(r *http.Request, fleet *v1alpha1.MachineFleet, group string, one *action) error {
	generation, err := strconv.ParseInt(r.PostFormValue("generation"), 10, 64)
	number, errNumber := strconv.ParseInt(r.PostFormValue("rollout"), 10, 64)
	switch {
	case err != nil || errNumber != nil:
		return cmdutil.Usage("the form is not complete: go back and try again")
	case generation != fleet.Generation || number != fleet.Status.Rollout:
		return cmdutil.Refusal("fleet %s has changed since you looked at it: look at it again. Nothing was changed", fleet.Name)
	case one.verb == "approve" && !slices.Contains(fleet.Status.AwaitingApproval, group):
		return cmdutil.Refusal("fleet %s does not wait for an approval of group %q. Nothing was changed", fleet.Name, group)
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
