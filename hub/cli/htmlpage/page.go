// Package htmlpage has what the pages of reports have in common: one style, in light and dark, without scripts and without a network.
package htmlpage

import (
	_ "embed"
	"html/template"
	"strings"
)

//go:embed style.css.tmpl
var styleText string

// Parse makes the template of a page, whose <style> may start with {{template "style"}}.
func Parse(name, text string, functions template.FuncMap) *template.Template {
	return template.Must(template.Must(template.New(name).Funcs(functions).Parse(text)).Parse(styleText))
}

// Style is the style alone, for a page that links it.
func Style() string {
	text := strings.TrimPrefix(strings.TrimSpace(styleText), `{{define "style"}}`)
	return strings.TrimSuffix(text, "{{end}}")
}
