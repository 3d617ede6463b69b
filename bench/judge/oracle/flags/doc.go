// Package flags holds the lists that shardsched has of kube-scheduler's command line, its
// flags and its feature gates, against kube-scheduler's own.
package flags
