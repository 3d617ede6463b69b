// Package store: see the declarations.
package store
