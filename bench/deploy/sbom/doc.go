// Package sbom tells what a Go binary is made of: a software bill of materials in CycloneDX's JSON form, from what the Go tool recorded
// in the binary itself. The licence of a module is read from its folder in the module cache.
package sbom
