// Package volume holds, on a real API server with upstream's volume controller, where pods
// with claims go: to volumes that are there, to nodes where volumes are then made, and
// nowhere, with the reason that upstream gives.
//
// Binding a volume takes seconds, so all stories begin at once, on the same nodes, each with
// classes and claims of its own, and are looked at one after the other.
package volume
