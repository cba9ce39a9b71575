package cmdutil

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listAgain is how long a list that is watched waits before it asks an API server again that has ended the watch.
const listAgain = time.Second

// List is a command that lists all objects of a kind that has no namespaces, with -l, -w and -o.
type List struct {
	// Empty is said where there is none.
	Empty string

	selector string
	watch    bool
	output   *Output
}

// NewList adds the flags to command.
func NewList(command *cobra.Command, empty string) *List {
	l := &List{Empty: empty}
	command.Flags().StringVarP(&l.selector, "selector", "l", "", "only objects with these labels, such as stage=test")
	command.Flags().BoolVarP(&l.watch, "watch", "w", false, "after the list, show objects again when they change, until interrupted")
	l.output = NewTableOutput(command)
	return l
}

// NewListCommand fills in what the lists of kinds without namespaces have in common. table is that of what is in found.
func NewListCommand[L client.ObjectList](hub *Hub, template *cobra.Command, empty string, found L, table func(L, time.Time) *metav1.Table) *cobra.Command {
	template.Use, template.Aliases, template.Args = "list", []string{"ls"}, Args(cobra.NoArgs)
	list := NewList(template, empty)
	template.RunE = func(command *cobra.Command, _ []string) error {
		return list.Run(command.Context(), hub, found, func() *metav1.Table { return table(found, time.Now()) })
	}
	return template
}

// Run reads the objects, which the API server returns in the order of their names, and prints them. table is that of what is in into.
func (l *List) Run(ctx context.Context, hub *Hub, into client.ObjectList, table func() *metav1.Table) error {
	if err := l.output.Check(); err != nil {
		return err
	}
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return Usage("--selector: %w", err)
	}
	_, asTable := l.output.Own()
	if l.watch && !asTable {
		return Usage("--watch prints a table: leave -o out, or give -o wide")
	}
	c, err := hub.Client()
	if err != nil {
		return err
	}
	chosen := &client.ListOptions{LabelSelector: selector}
	if err := c.List(ctx, into, chosen); err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	if !asTable {
		return l.output.Print(hub.Out, into)
	}
	if meta.LenList(into) == 0 {
		hub.Note("%s", l.Empty)
	}
	if l.watch {
		defer hub.NoteStoppedHub(ctx, c)()
		return (&follower{List: l, hub: hub, client: c, chosen: chosen, into: into, table: table, shown: map[string]string{}}).run(ctx)
	}
	if meta.LenList(into) == 0 {
		return nil
	}
	hub.NoteOldTable(ctx, c)
	return l.output.Table(hub.Out, table())
}

// follower shows the rows of a list, and each again when it changes.
type follower struct {
	*List
	hub    *Hub
	client client.WithWatch
	chosen *client.ListOptions
	into   client.ObjectList
	table  func() *metav1.Table
	// shown are the rows as they were printed last, by their name.
	shown map[string]string
}

// run shows them until ctx is done. A watch that ends is started again.
func (f *follower) run(ctx context.Context) error {
	for {
		if err := f.showChanged(); err != nil {
			return err
		}
		_ = f.followOnce(ctx) // Whatever has ended it, the next list shows what was missed.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(listAgain):
		}
		if err := f.client.List(ctx, f.into, f.chosen); err != nil && ctx.Err() == nil {
			return fmt.Errorf("listing: %w", err)
		}
	}
}

// followOnce shows what changes until the watch ends.
func (f *follower) followOnce(ctx context.Context) error {
	since := *f.chosen
	since.Raw = &metav1.ListOptions{ResourceVersion: f.into.GetResourceVersion()}
	events, err := f.client.Watch(ctx, f.into, &since)
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		object, isObject := event.Object.(client.Object)
		switch {
		case event.Type == watch.Error || !isObject:
			return nil
		case event.Type == watch.Deleted:
			delete(f.shown, object.GetName())
			f.hub.Note("%s was deleted", object.GetName())
		}
		if err := f.client.List(ctx, f.into, f.chosen); err != nil {
			return err
		}
		if err := f.showChanged(); err != nil {
			return err
		}
	}
	return nil
}

// showChanged prints the rows that were not printed as they are now. Their age does not count.
func (f *follower) showChanged() error {
	table := f.table()
	changed := &metav1.Table{ColumnDefinitions: table.ColumnDefinitions}
	for _, row := range table.Rows {
		text := ""
		for i, cell := range row.Cells {
			if table.ColumnDefinitions[i].Name != "Age" {
				text += fmt.Sprintf("%v\n", cell)
			}
		}
		if name := fmt.Sprint(row.Cells[0]); f.shown[name] != text {
			f.shown[name] = text
			changed.Rows = append(changed.Rows, row)
		}
	}
	if len(changed.Rows) == 0 {
		return nil
	}
	err := f.output.Table(f.hub.Out, changed)
	f.output.WithoutHeaders()
	return err
}
