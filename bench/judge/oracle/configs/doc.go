// Package configs holds our reading of KubeSchedulerConfiguration files against
// kube-scheduler's own: its decoder, its defaults, its validation, and the scheduler that it makes.
//
//	a file --> coordinator/config      --> errors, or the file completed and the plugins by point
//	       --> scheme, validation, New --> errors, or the same
//
// A file that both take must come to the same plugins at every extension point, the same weights and
// the same text of --write-config-to, byte for byte. A file that kube-scheduler refuses must be refused by
// us, for the same reasons in the same words. Where we depart from that on purpose, departures.go
// says how, and why; there is no other place to look.
package configs
