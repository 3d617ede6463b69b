// Package snapshot reads from an API server the objects of all kinds that have a say in scheduling (manifest.Kinds), workloads
// included, and never a Secret or a ConfigMap.
//
// It lists kind after kind, in pages. The first list says a resource version, and all others are asked for exactly that one: then the
// snapshot is what the cluster was at one moment. Where the API server has forgotten that moment, or keeps a kind elsewhere, the
// kind is listed as it is now, and Result says so. Nothing is written, and nothing is watched.
//
// What says nothing to a scheduler is left out: managed fields, and what kubectl notes of the last manifest. All else of an object is
// as the API server has it, so a pod template's environment is in a snapshot, with what it says in plain text.
package snapshot
