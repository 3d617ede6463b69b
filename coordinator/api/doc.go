// Package api: see the declarations.
package api
