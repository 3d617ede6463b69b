// Package shadow runs `shardsched shadow` beside a real kube-scheduler, which binds pods of many kinds under load on a real API server.
// What shadow makes of each decision is held against upstream's own plugins; what it asks the API server for, against its role.
package shadow
