{{- define "harvest.name" -}}
{{- if contains "harvest" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ .Release.Name | trunc 32 | trimSuffix "-" }}-harvest{{ end }}-operator
{{- end }}

{{- define "harvest.selector" -}}
app.kubernetes.io/name: harvest-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "harvest.labels" -}}
{{ include "harvest.selector" . }}
app.kubernetes.io/part-of: harvest
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "harvest.tag" -}}
{{ .Values.images.tag | default .Chart.AppVersion }}
{{- end }}
