{{- define "harvest.base" -}}
{{- if contains "harvest" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ .Release.Name | trunc 32 | trimSuffix "-" }}-harvest{{ end }}
{{- end }}

{{- define "harvest.name" -}}
{{ include "harvest.base" . }}-operator
{{- end }}

{{- define "harvest.selector" -}}
app.kubernetes.io/name: harvest-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "harvest.labels" -}}
{{ include "harvest.selector" . }}
{{ include "harvest.common" . }}
{{- end }}

{{- define "harvest.common" -}}
app.kubernetes.io/part-of: harvest
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "harvest.tag" -}}
{{ .Values.images.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "harvest.agents" -}}
{{ include "harvest.base" . }}-agents
{{- end }}

{{- define "harvest.agents.selector" -}}
app.kubernetes.io/name: harvest-agents
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "harvest.agents.labels" -}}
{{ include "harvest.agents.selector" . }}
{{ include "harvest.common" . }}
{{- end }}

{{- define "harvest.agents.image" -}}
{{ printf "%sharvest-agent:%s" .Values.images.prefix (include "harvest.tag" .) }}
{{- end }}
