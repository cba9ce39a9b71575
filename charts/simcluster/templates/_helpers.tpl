{{/* Objects are called after the release, because a namespace may have other charts' as well. */}}
{{- define "simcluster.name" -}}
{{ .Release.Name }}
{{- end }}

{{- define "simcluster.clusterName" -}}
{{ .Values.clusterName | default .Release.Name }}
{{- end }}

{{- define "simcluster.selector" -}}
app.kubernetes.io/name: hollowfleet-simcluster
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "simcluster.labels" -}}
{{ include "simcluster.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: hollowfleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The name of an image, from registry, repository, tag and digest: (list IMAGE $). */}}
{{- define "simcluster.image" -}}
{{- $root := index . 1 -}}
{{- with index . 0 -}}
{{- if not (or .digest .tag (ne $root.Chart.AppVersion "source")) -}}
{{- fail (printf "tag of image %s: this chart is a source without a version: install bin/charts/simcluster.tgz, which make images writes, or set the tag or digest of each image" .repository) -}}
{{- end -}}
{{- with .registry }}{{ . }}/{{ end }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $root.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{/* The name of the Secret with the kubeconfig for the hub. */}}
{{- define "simcluster.hubSecret" -}}
{{ .Values.hub.kubeconfigSecret | default .Values.hub.bootstrapKubeconfigSecret | default (print .Release.Name "-bootstrap") }}
{{- end }}

{{/* Who makes the certificates: certManager or selfSigned. A cluster keeps the authority that it started with, so an upgrade
after cert-manager was installed, or removed, changes nothing. */}}
{{- define "simcluster.tls" -}}
{{- $before := dig "metadata" "annotations" "hollowfleet.io/certificates" "" (lookup "apps/v1" "StatefulSet" .Release.Namespace .Release.Name | default dict) -}}
{{- if ne .Values.tls.mode "auto" -}}
{{- .Values.tls.mode -}}
{{- else if $before -}}
{{- $before -}}
{{- else if .Capabilities.APIVersions.Has "cert-manager.io/v1" -}}
certManager
{{- else -}}
selfSigned
{{- end -}}
{{- end }}

{{/* The names of the API server beside localhost, one a line. */}}
{{- define "simcluster.servingNames" -}}
{{ .Release.Name }}
{{ .Release.Name }}.{{ .Release.Namespace }}
{{ .Release.Name }}.{{ .Release.Namespace }}.svc
{{ .Release.Name }}.{{ .Release.Namespace }}.svc.cluster.local
{{- range .Values.servingNames }}
{{ . }}
{{- end }}
{{- end }}

{{/* The names of the Certificates, which are those of the directories that simcluster looks for, and the agent's. */}}
{{- define "simcluster.certificates" -}}
ca kube-apiserver kube-apiserver-kubelet-client kube-controller-manager kube-scheduler admin agent
{{- end }}

{{/* Adds to values what they lack of defaults: (list VALUES DEFAULTS). What a user removes with null stays removed where the chart allows
it: resources and labels. */}}
{{- define "simcluster.addMissing" -}}
{{- $values := index . 0 -}}
{{- range $key, $default := index . 1 -}}
{{- if hasKey $values $key -}}
{{- if and (kindIs "map" $default) (kindIs "map" (index $values $key)) -}}
{{- include "simcluster.addMissing" (list (index $values $key) $default) -}}
{{- end -}}
{{- else if not (has $key (list "resources" "labels")) -}}
{{- $_ := set $values $key $default -}}
{{- end -}}
{{- end -}}
{{- end }}
