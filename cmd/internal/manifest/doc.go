// Package manifest reads Kubernetes YAML and JSON as people and kubectl write
// it, and says of everything it can't use where it stands: file, line, field.
//
//	paths ─▶ sources ─▶ documents ─▶ objects ─▶ Set
//	         files,      ---, JSON    Lists      no object twice,
//	         folders, -  after JSON   opened     kinds that matter
//
// Accepted are the kinds that a coordinator keeps (Node, Pod, Namespace, Service,
// PersistentVolumeClaim, PriorityClass … see package objects), and the workloads Deployment, ReplicaSet,
// ReplicationController, StatefulSet, DaemonSet, Job and CronJob, in
// the version that an API server of 1.36 keeps, and Lists of them: Kinds has them all. Every other kind that
// Kubernetes itself has (ConfigMap, Secret, CustomResourceDefinition …) has no
// say in where a pod goes: it is skipped and counted. So are custom resources, which are those of a group that is none of
// Kubernetes', unless Options.Strict says otherwise. Any other kind is an error: it may be a slip of the pen.
//
// An object given twice is an error that names both places, with two exceptions. A manifest is applied to what a cluster has under
// its name, which Object.Over is: the cluster's own has a UID, a manifest has none, or the same in another file. And with
// Options.Override the later one takes the earlier one's place.
//
// Decoding is strict: an unknown field, a field given twice and a value of the
// wrong type are errors. All errors of an input are gathered, so that one run
// shows them all; with Report.SkipInvalid they are warnings, and what they are
// about is left out: an object that can't be used, or the field that does not exist.
//
// Line numbers cost nothing until they are asked for: a document keeps its text,
// and is parsed a second time, into a tree that knows its lines, for its first
// error.
package manifest
