// Package claims makes scenes for tests of the search for devices: nodes, slices, device classes, what is in use, and the
// claims of a pod, as Kubernetes' objects. A scene is read from a script or drawn by chance, and turned into what
// scorer/devices takes.
package claims
