{{- define "text" -}}
{{ . | replace "\n" " " | replace "<" "&lt;" | replace "*" "\\*" | replace "_" "\\_" | markdownRenderFieldDoc }}
{{- end -}}

{{- define "bounds" -}}
{{- range . -}}
{{- if regexMatch "^(Minimum|Maximum|MinLength|MaxLength|MinItems|MaxItems|MinProperties|MaxProperties): " . }} {{ . | replace ": " " " }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "type" -}}
{{- $type := . -}}
{{- if markdownShouldRenderType $type }}
## {{ $type.Name }}

{{ template "text" $type.Doc }}
{{ if $type.References }}
Used by{{ range $i, $each := $type.SortedReferences }}{{ if $i }},{{ end }} {{ markdownRenderTypeLink $each }}{{ end }}.
{{ end -}}
{{ if $type.Members }}
| field | meaning | bounds |
|---|---|---|
{{ if $type.GVK -}}
| `apiVersion` _string_ | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` | |
| `kind` _string_ | `{{ $type.GVK.Kind }}` | |
{{ end -}}
{{ range $type.Members -}}
| `{{ .Name }}` _{{ markdownRenderType .Type }}_{{ if has "Required: {}" .Validation }}, **required**{{ end }} | {{ if and $type.GVK (eq .Name "metadata") }}As of every object.{{ else }}{{ template "text" .Doc }}{{ end }} |{{ template "bounds" .Validation }} |
{{ end -}}
{{ end -}}
{{ if $type.EnumValues }}
| value | meaning |
|---|---|
{{ range $type.EnumValues -}}
| `{{ .Name }}` | {{ template "text" (trim (regexReplaceAll "^[A-Z][A-Za-z]+:? " .Doc "")) }} |
{{ end -}}
{{ end -}}
{{ with index $type.Markers "kubebuilder:validation:XValidation" }}
Rules:
{{ range . }}{{ if .Message }}
- {{ if hasPrefix "is " .Message }}{{ trimPrefix "." .FieldPath }} {{ end }}{{ template "text" .Message }}{{ end }}{{ end }}
{{ end -}}
{{- end -}}
{{- end -}}
