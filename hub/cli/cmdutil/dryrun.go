package cmdutil

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DryRun is the flag --dry-run of a command that writes, with the values of kubectl.
type DryRun struct{ mode dryRunMode }

type dryRunMode string

const (
	dryRunNone   dryRunMode = "none"
	dryRunClient dryRunMode = "client"
	dryRunServer dryRunMode = "server"
)

// NewDryRun adds the flag to command.
func NewDryRun(command *cobra.Command) *DryRun {
	d := &DryRun{mode: dryRunNone}
	Choice(command, &d.mode, "dry-run", `change nothing and print what would be done; "server" also has the hub's API server validate it`,
		dryRunNone, dryRunServer, dryRunClient)
	command.Flags().Lookup("dry-run").NoOptDefVal = string(dryRunClient)
	return d
}

// Active reports whether nothing is to be changed, so that there is nothing to wait for.
func (d *DryRun) Active() bool { return d.mode != dryRunNone }

// Server reports whether the API server is to check what would be written.
func (d *DryRun) Server() bool { return d.mode == dryRunServer }

// Telling returns hub as a command tells of what it does: each result says that it is none.
func (d *DryRun) Telling(hub *Hub) *Hub {
	telling := *hub
	switch d.mode {
	case dryRunClient:
		telling.mark = " (dry run)"
	case dryRunServer:
		telling.mark = " (server dry run)"
	case dryRunNone:
	}
	return &telling
}

// Client returns a client of the hub that changes nothing in a dry run.
func (d *DryRun) Client(hub *Hub) (client.WithWatch, error) {
	c, err := hub.Client()
	if err != nil || !d.Active() {
		return c, err
	}
	return &dryClient{WithWatch: c, server: d.Server()}, nil
}

// dryClient asks the API server to change nothing, or does not ask it at all. It reads like any other.
type dryClient struct {
	client.WithWatch
	server bool
}

// reviews are kinds that are created to ask a question: nothing is stored.
var reviews = []string{"SelfSubjectReview", "SubjectAccessReview"}

func (d *dryClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if kind, err := d.GroupVersionKindFor(object); err == nil && slices.Contains(reviews, kind.Kind) {
		return d.WithWatch.Create(ctx, object, options...)
	}
	if !d.server {
		return nil
	}
	return d.WithWatch.Create(ctx, object, append(options, client.DryRunAll)...)
}

func (d *dryClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if !d.server {
		return nil
	}
	return d.WithWatch.Update(ctx, object, append(options, client.DryRunAll)...)
}

func (d *dryClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if !d.server {
		return nil
	}
	return d.WithWatch.Patch(ctx, object, patch, append(options, client.DryRunAll)...)
}

func (d *dryClient) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if !d.server {
		return nil
	}
	return d.WithWatch.Apply(ctx, object, append(options, client.DryRunAll)...)
}

func (d *dryClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if !d.server {
		return nil
	}
	return d.WithWatch.Delete(ctx, object, append(options, client.DryRunAll)...)
}

func (d *dryClient) DeleteAllOf(ctx context.Context, object client.Object, options ...client.DeleteAllOfOption) error {
	if !d.server {
		return nil
	}
	return d.WithWatch.DeleteAllOf(ctx, object, append(options, client.DryRunAll)...)
}

// Status and SubResource are of a client that changes nothing: no command writes to subresources but to ask a question.
func (d *dryClient) Status() client.SubResourceWriter { return d.SubResource("status") }

func (d *dryClient) SubResource(name string) client.SubResourceClient {
	return client.NewDryRunClient(d.WithWatch).SubResource(name)
}
