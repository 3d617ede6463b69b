// Package rbac holds the roles of deploy/rbac/minimal.yaml to what a coordinator asks of a real API server, by its audit log:
// what it asks for is allowed, and what is allowed it asks for.
package rbac
