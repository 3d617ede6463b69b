// Package objects: see the declarations.
package objects
