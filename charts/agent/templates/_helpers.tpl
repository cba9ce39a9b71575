{{/* Every object that can be is called hollowfleet-agent: the ServiceAccount and the roles have that name in config/rbac. */}}
{{- define "agent.selector" -}}
app.kubernetes.io/name: hollowfleet-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: hollowfleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Those of kwok's controller. */}}
{{- define "agent.kwokSelector" -}}
app.kubernetes.io/name: hollowfleet-kwok
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agent.kwokLabels" -}}
{{ include "agent.kwokSelector" . }}
app.kubernetes.io/part-of: hollowfleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The name of an image, from registry, repository, tag and digest: (list IMAGE $). */}}
{{- define "agent.image" -}}
{{- $root := index . 1 -}}
{{- with index . 0 -}}
{{- if not (or .digest .tag (ne $root.Chart.AppVersion "source")) -}}
{{- fail (printf "tag of image %s: this chart is a source without a version: install bin/charts/agent.tgz, which make images writes, or set the tag or digest of each image" .repository) -}}
{{- end -}}
{{- with .registry }}{{ . }}/{{ end }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $root.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{/* The namespace of ServiceAccount hollow-node-bootstrap in the target. */}}
{{- define "agent.targetNamespace" -}}
{{ .Values.target.namespace | default (ternary "hollowfleet" .Release.Namespace (ne .Values.target.kubeconfigSecret "")) }}
{{- end }}

{{/* Whether the hollow-node pods run in the cluster that the agent runs in: "true" or nothing. */}}
{{- define "agent.hostsHere" -}}
{{- if or .Values.host.inCluster (not (or .Values.target.kubeconfigSecret .Values.host.kubeconfigSecret)) }}true{{ end }}
{{- end }}

{{/* The namespace of the hollow-node pods. */}}
{{- define "agent.hostNamespace" -}}
{{ .Values.host.namespace | default (ternary .Release.Namespace "hollowfleet" (eq (include "agent.hostsHere" .) "true")) }}
{{- end }}

{{/* The name of the Secret with the kubeconfig for the hub. */}}
{{- define "agent.hubSecret" -}}
{{ .Values.hub.kubeconfigSecret | default .Values.hub.bootstrapKubeconfigSecret | default "hollowfleet-agent-bootstrap" }}
{{- end }}

{{/* How health and metrics are served: certManager, selfSigned or none. */}}
{{- define "agent.tls" -}}
{{- if ne .Values.tls.mode "auto" -}}
{{- .Values.tls.mode -}}
{{- else if .Capabilities.APIVersions.Has "cert-manager.io/v1" -}}
certManager
{{- else -}}
selfSigned
{{- end -}}
{{- end }}

{{/* The scheme of the probes. */}}
{{- define "agent.scheme" -}}
{{- if ne (include "agent.tls" .) "none" }}HTTPS{{ else }}HTTP{{ end -}}
{{- end }}

{{/* The arguments for TLS and telemetry. */}}
{{- define "agent.telemetry" -}}
{{- $tls := include "agent.tls" . }}
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
{{- define "agent.addMissing" -}}
{{- $values := index . 0 -}}
{{- range $key, $default := index . 1 -}}
{{- if hasKey $values $key -}}
{{- if and (kindIs "map" $default) (kindIs "map" (index $values $key)) -}}
{{- include "agent.addMissing" (list (index $values $key) $default) -}}
{{- end -}}
{{- else if not (has $key (list "resources" "labels")) -}}
{{- $_ := set $values $key $default -}}
{{- end -}}
{{- end -}}
{{- end }}
