// Package kubeflags is kube-scheduler 1.36's command line: all of its flags, under
// their names and with their defaults, and what they come to.
//
//	flags ──Finish──> logging, feature gates, checks
//	   │                  └──Changes──> the configuration file's fields that flags go before
//	   └──Clients, Serving: how the API server is reached, and HTTPS served
//
// Where there is a configuration file, only the flags of leader election that were given
// go before it; the deprecated ones count where there is none. --pod-max-in-unschedulable-pods-duration
// always counts.
//
// Flags whose meaning is gone are accepted, and Idle names those that were given: kube-scheduler's
// feature gates that this scheduler has no use for, the emulated version.
//
// gates.txt lists kube-scheduler's feature gates: a name, then each stage as
// version:stability:default, "locked" where it can't be changed, and the gates that it needs.
// bench/judge/oracle/flags holds it, and testdata/flags.txt, to kube-scheduler's own.
//
// Differs from upstream: a manifest of --allow-metric-labels-manifest may be written as
// the flag's help shows it too, below allowListMapping; upstream refuses that.
package kubeflags
