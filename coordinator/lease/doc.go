// Package lease: see the declarations.
package lease
