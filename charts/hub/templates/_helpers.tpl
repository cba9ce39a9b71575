{{/* Every object that can be is called hollowfleet-hub: the ServiceAccount and the roles have that name in config/rbac. */}}
{{- define "hub.selector" -}}
app.kubernetes.io/name: hollowfleet-hub
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hub.labels" -}}
{{ include "hub.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: hollowfleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "hub.dashboardSelector" -}}
app.kubernetes.io/name: hollowfleet-dashboard
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hub.dashboardLabels" -}}
{{ include "hub.dashboardSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: hollowfleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The name of an image, from registry, repository, tag and digest. */}}
{{- define "hub.image" -}}
{{- include "hub.imageName" (list .Values.image "image" .) -}}
{{- end }}

{{/* The same of any image: (list IMAGE VALUE $). */}}
{{- define "hub.imageName" -}}
{{- $value := index . 1 -}}
{{- $root := index . 2 -}}
{{- with index . 0 -}}
{{- if not (or .digest .tag (ne $root.Chart.AppVersion "source")) -}}
{{- fail (printf "%s.tag: this chart is a source without a version: install bin/charts/hub.tgz, which make images writes, or set %s.tag or %s.digest" $value $value $value) -}}
{{- end -}}
{{- with .registry }}{{ . }}/{{ end }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $root.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{/* How health and metrics are served: certManager, selfSigned or none. */}}
{{- define "hub.tls" -}}
{{- if ne .Values.tls.mode "auto" -}}
{{- .Values.tls.mode -}}
{{- else if .Capabilities.APIVersions.Has "cert-manager.io/v1" -}}
certManager
{{- else -}}
selfSigned
{{- end -}}
{{- end }}

{{/* The scheme of the probes. */}}
{{- define "hub.scheme" -}}
{{- if ne (include "hub.tls" .) "none" }}HTTPS{{ else }}HTTP{{ end -}}
{{- end }}

{{/* The arguments for TLS and telemetry. */}}
{{- define "hub.telemetry" -}}
{{- $tls := include "hub.tls" . }}
{{- if eq $tls "certManager" }}
- --tls-cert-file=/etc/hollowfleet/tls/tls.crt
- --tls-private-key-file=/etc/hollowfleet/tls/tls.key
{{- else if eq $tls "selfSigned" }}
- --tls-self-signed=true
{{- end }}
{{- with .Values.tracing }}
{{- if .endpoint }}
- --otlp-endpoint={{ .endpoint }}
- --trace-sampling-ratio={{ .samplingRatio }}
- --otlp-metrics-interval={{ .metricsInterval }}
{{- end }}
{{- end }}
{{- end }}

{{/* Adds to values what they lack of defaults: (list VALUES DEFAULTS). What a user removes with null stays removed where the chart allows
it: resources and labels. */}}
{{- define "hub.addMissing" -}}
{{- $values := index . 0 -}}
{{- range $key, $default := index . 1 -}}
{{- if hasKey $values $key -}}
{{- if and (kindIs "map" $default) (kindIs "map" (index $values $key)) -}}
{{- include "hub.addMissing" (list (index $values $key) $default) -}}
{{- end -}}
{{- else if not (has $key (list "resources" "labels")) -}}
{{- $_ := set $values $key $default -}}
{{- end -}}
{{- end -}}
{{- end }}
