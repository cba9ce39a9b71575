// Package htmlpage has what the pages of reports have in common: one style, in light and dark, without scripts and without a network.
package htmlpage

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

//go:embed style.css.tmpl
var styleText string

// Parse makes the template of a page, whose <style> may start with {{template "style"}}.
func Parse(name, text string, functions template.FuncMap) *template.Template {
	return template.Must(template.Must(template.New(name).Funcs(functions).Parse(text)).Parse(styleText))
}

// Execute writes a page, or the part of its template with this name. Control characters of texts are replaced, as on a terminal: some of them
// turn the direction of what is beside them.
func Execute(page *template.Template, out io.Writer, part string, data any) error {
	escaped := cmdutil.NewEscaped(out)
	if err := page.ExecuteTemplate(escaped, part, data); err != nil {
		return fmt.Errorf("making a page: %w", err)
	}
	return escaped.Close()
}

// Style is the style alone, for a page that links it.
func Style() string {
	text := strings.TrimPrefix(strings.TrimSpace(styleText), `{{define "style"}}`)
	return strings.TrimSuffix(text, "{{end}}")
}
