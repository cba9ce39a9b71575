{{- define "gvList" -}}
<!-- Made from the types in apis by "make manifests". -->
# API reference

The fields of all kinds of `hollowfleet.io/v1alpha1`. `kubectl explain machinedeployment.spec` shows them too. Every kind has a
[sample](../config/samples), and editors check what you write with [schemas](../config/schema). What is fixed and for how long: [Deprecation](deprecation.md).

{{ range . -}}
{{ $group := . -}}
{{ range .SortedKinds -}}
- {{ $group.TypeForKind . | markdownRenderTypeLink }}
{{ end -}}
{{ range .SortedTypes }}{{ template "type" . }}{{ end -}}
{{ end -}}
{{- end -}}
