package cmdutil

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// Wide is the format of a table with all its columns, and of a result with what else is known of it.
const Wide = "wide"

// Output is the flag -o of a command that prints objects.
type Output struct {
	format    string
	own       []string
	noHeaders bool
	flags     *genericclioptions.PrintFlags
}

// NewOutput adds -o to command. Beside the formats of kubectl it takes wide, and the command's own.
func NewOutput(command *cobra.Command, own ...string) *Output {
	o := &Output{flags: genericclioptions.NewPrintFlags(""), own: append(own, Wide)}
	o.flags.OutputFormat = &o.format
	o.flags.JSONYamlPrintFlags.AddFlags(command)
	o.flags.TemplatePrinterFlags.AddFlags(command)
	command.Flags().StringVarP(&o.format, "output", "o", "", OutputUsage(o.listFormats()...))
	completeFlag(command, "output", o.listFormats())
	return o
}

// NewTableOutput is NewOutput for a command that prints a table.
func NewTableOutput(command *cobra.Command) *Output {
	o := NewOutput(command)
	command.Flags().BoolVar(&o.noHeaders, "no-headers", false, "print a table without its headings")
	return o
}

// OutputUsage is what the help says of -o.
func OutputUsage[T ~string](formats ...T) string {
	var names []string
	for _, format := range formats {
		names = append(names, string(format))
	}
	return "output format: " + strings.Join(names, ", ") + "; wide adds details"
}

// listFormats are all that the command takes.
func (o *Output) listFormats() []string {
	return slices.Compact(slices.Sorted(slices.Values(append(o.flags.AllowedFormats(), o.own...))))
}

// Own is the command's own format that is asked for: "" by default. own is false for one of kubectl's.
func (o *Output) Own() (format string, own bool) {
	if o.format == "" && *o.flags.TemplatePrinterFlags.TemplateArgument == "" || slices.Contains(o.own, o.format) {
		return o.format, true
	}
	return "", false
}

// Document is o of a command whose result is a document and no object of the API: json, yaml, or none for a table.
func (o *Output) Document() (DocumentOutput, error) {
	switch _, own := o.Own(); {
	case own:
		return DocumentOutput{}, nil
	case slices.Contains(documentFormats, o.format):
		return DocumentOutput{o.format}, nil
	}
	return DocumentOutput{}, Usage("-o: want json, wide or yaml, or leave it out, got %q", o.format)
}

// Telling returns h as a command tells of what it does: on standard error if standard output is for an object.
func (o *Output) Telling(h *Hub) *Hub {
	if _, own := o.Own(); own {
		return h
	}
	telling := *h
	telling.Out = h.ErrOut
	return &telling
}

// Check finds a format that does not exist before anything is done.
func (o *Output) Check() error {
	if _, own := o.Own(); own {
		return nil
	}
	_, err := o.newPrinter()
	return err
}

// newPrinter is that of one of kubectl's formats.
func (o *Output) newPrinter() (printers.ResourcePrinter, error) {
	printer, err := o.flags.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, Usage("-o: unknown format %q: want one of %s", o.format, strings.Join(o.listFormats(), ", "))
	}
	return printer, AsUsage(err)
}

// Print prints objects in one of kubectl's formats.
func (o *Output) Print(out io.Writer, objects ...runtime.Object) error {
	printer, err := o.newPrinter()
	if err != nil {
		return err
	}
	if objects, err = o.spreadLists(objects); err != nil {
		return err
	}
	for _, object := range objects {
		if err := SetKinds(object); err != nil {
			return err
		}
		if err := printer.PrintObj(object, out); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

// spreadLists takes lists apart for the format that has a line for each object.
func (o *Output) spreadLists(objects []runtime.Object) ([]runtime.Object, error) {
	if o.format != "name" {
		return objects, nil
	}
	var items []runtime.Object
	for _, object := range objects {
		if !meta.IsListType(object) {
			items = append(items, object)
			continue
		}
		listed, err := meta.ExtractList(object)
		if err != nil {
			return nil, fmt.Errorf("printing: %w", err)
		}
		items = append(items, listed...)
	}
	return items, nil
}

// Table prints a table.
func (o *Output) Table(out io.Writer, table *metav1.Table) error {
	printer := printers.NewTablePrinter(printers.PrintOptions{NoHeaders: o.noHeaders, Wide: o.format == Wide})
	return printer.PrintObj(table, out)
}

// WithoutHeaders lets the tables from here on have no headings: they follow another.
func (o *Output) WithoutHeaders() { o.noHeaders = true }

// SetKinds gives object, and the items of a list, the kind that a client leaves out.
func SetKinds(object runtime.Object) error {
	known := scheme.New()
	set := func(object runtime.Object) error {
		kind, err := apiutil.GVKForObject(object, known)
		if err != nil {
			return fmt.Errorf("finding the kind of %T: %w", object, err)
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		return nil
	}
	if meta.IsListType(object) {
		if err := meta.EachListItem(object, set); err != nil {
			return err
		}
	}
	return set(object)
}

// Columns are the headings of a table. One that starts with "+" is shown with -o wide only.
func Columns(names ...string) []metav1.TableColumnDefinition {
	var columns []metav1.TableColumnDefinition
	for _, name := range names {
		column := metav1.TableColumnDefinition{Name: strings.TrimPrefix(name, "+"), Type: "string"}
		if column.Name != name {
			column.Priority = 1
		}
		columns = append(columns, column)
	}
	return columns
}

// AddRows adds a row to table whose last column has any number of values. Those after the first have rows of their own, with
// nothing else in them.
func AddRows(table *metav1.Table, last []string, cells ...any) {
	for i := range max(len(last), 1) {
		row := make([]any, len(cells), len(cells)+1)
		for column := range row {
			row[column] = ""
		}
		if i == 0 {
			copy(row, cells)
		}
		value := ""
		if len(last) > 0 {
			value = last[i]
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: append(row, value)})
	}
}
