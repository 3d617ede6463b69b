// Package etcd holds docs/etcd.md to what happens: its commands run as they stand there, with etcd's own programs, against
// coordinators and a worker that are never started anew.
package etcd
