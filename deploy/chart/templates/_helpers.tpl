{{- /* Labels of every object; the second argument is the component, or empty. */ -}}
{{- define "shardsched.labels" -}}
{{- $root := index . 0 -}}
{{- include "shardsched.selector" . }}
app.kubernetes.io/part-of: shardsched
{{- if eq $root.Release.Service "Helm" }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}
{{- end }}

{{- define "shardsched.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: shardsched
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "shardsched.image" -}}
{{- $slim := ternary "" "-slim" (eq .Values.topology "swap") -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default (print $.Chart.AppVersion $slim) }}{{ end }}
{{- end }}
{{- end }}

{{- define "shardsched.config" -}}
{{- if .Values.config -}}
{{ trim .Values.config }}
{{- else -}}
{{ if eq .Values.topology "shadow" -}}
# What the other scheduler goes by: put its file here. docs/shadow.md.
{{- else -}}
# What pods are scheduled by: see docs/configuration.md.
{{- end }}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
{{- if has .Values.topology (list "swap" "sharded") }}
# A bind is a request.
clientConnection:
  qps: 5000
  burst: 10000
{{- end }}
profiles:
- schedulerName: default-scheduler
{{- end }}
{{- end }}

{{- /* A change of the settings or of the configuration makes new pods. kustomize names its ConfigMaps by what is in them instead. */ -}}
{{- define "shardsched.annotations" -}}
{{- if eq .Release.Service "Helm" }}
annotations:
  checksum/config: {{ include (print .Template.BasePath "/config.yaml") . | sha256sum }}
{{- end }}
{{- end }}

{{- /* What the pods of both components have in common; the second argument is the component, the third its values. */ -}}
{{- define "shardsched.pod" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index . 2 -}}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
topologySpreadConstraints:
{{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- topologyKey: {{ $key }}
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "shardsched.selector" (list $root $component) | nindent 6 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "shardsched.container" -}}
image: {{ include "shardsched.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
# The kubelet has no client certificate and no token: this port asks for none.
startupProbe:
  httpGet:
    port: health
    path: /livez
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet:
    port: health
    path: /livez
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    port: health
    path: /readyz
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- /* How coordinators and workers reach etcd and prove who they are, where they are not alone. */ -}}
{{- define "shardsched.meeting" -}}
- --etcd-endpoints=$(ETCD_ENDPOINTS)
- --etcd-cafile=/etc/shardsched/etcd-tls/ca.crt
- --etcd-certfile=/etc/shardsched/etcd-tls/tls.crt
- --etcd-keyfile=/etc/shardsched/etcd-tls/tls.key
- --tls-ca-file=/etc/shardsched/tls/ca.crt
- --tls-cert-file=/etc/shardsched/tls/tls.crt
- --tls-private-key-file=/etc/shardsched/tls/tls.key
{{- end }}

{{- define "shardsched.secrets" -}}
- name: tls
  secret:
    secretName: {{ . }}-tls
    defaultMode: 0440
- name: etcd-tls
  secret:
    secretName: {{ . }}-etcd-tls
    defaultMode: 0440
{{- end }}

{{- define "shardsched.secretMounts" -}}
- name: tls
  mountPath: /etc/shardsched/tls
  readOnly: true
- name: etcd-tls
  mountPath: /etc/shardsched/etcd-tls
  readOnly: true
{{- end }}

{{- /* The kinds that a coordinator in kube-scheduler's place watches, and a shadow. */ -}}
{{- define "shardsched.watched" }}
# What decisions are made of.
- apiGroups: [""]
  resources: [namespaces, nodes, persistentvolumeclaims, persistentvolumes, pods, replicationcontrollers, services]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [replicasets, statefulsets]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: [storage.k8s.io]
  resources: [csidrivers, csinodes, csistoragecapacities, storageclasses, volumeattachments]
  verbs: [list, watch]
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses, resourceclaims, resourceslices]
  verbs: [list, watch]
{{- end }}

{{- /* The way out to the API server; the argument is networkPolicy. */ -}}
{{- define "shardsched.apiServer" -}}
# The API server.
- ports:
  {{- range .apiServerPorts }}
  - {protocol: TCP, port: {{ . }}}
  {{- end }}
  {{- with .apiServer }}
  to:
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
