{{- define "capstan.name" -}}
{{- printf "%s-%s" .Release.Name .part | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "capstan.selector" -}}
app.kubernetes.io/name: capstan
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "capstan.labels" -}}
{{ include "capstan.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "capstan.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "capstan.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "capstan.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "capstan.grpcEnv" -}}
{{- if .Values.tls.existingSecret }}
- { name: CAPSTAN_TLS_CA, value: /etc/capstan/tls/ca.crt }
- { name: CAPSTAN_TLS_CERT, value: /etc/capstan/tls/tls.crt }
- { name: CAPSTAN_TLS_KEY, value: /etc/capstan/tls/tls.key }
{{- else }}
- { name: CAPSTAN_GRPC_PLAIN, value: anywhere }
{{- end }}
{{- end -}}

{{- define "capstan.extraEnv" -}}
{{- range $name, $value := . }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- end -}}

{{- define "capstan.tlsMount" -}}
{{- if .Values.tls.existingSecret }}
- { name: tls, mountPath: /etc/capstan/tls, readOnly: true }
{{- end }}
{{- end -}}

{{- define "capstan.tlsVolume" -}}
{{- if .Values.tls.existingSecret }}
- name: tls
  secret: { secretName: {{ .Values.tls.existingSecret }}, defaultMode: 0440 }
{{- end }}
{{- end -}}

{{- define "capstan.schedulerAddress" -}}
{{ include "capstan.name" (merge (dict "part" "scheduler") .) }}:7070
{{- end -}}

{{- define "capstan.publicUrl" -}}
{{- if .Values.gateway.publicUrl -}}
{{ .Values.gateway.publicUrl }}
{{- else -}}
http://{{ include "capstan.name" (merge (dict "part" "gateway") .) }}:{{ .Values.gateway.service.port }}
{{- end -}}
{{- end -}}
