// Package upkeep keeps etcd from filling up with history, and tells how full it is.
//
// etcd keeps every revision of every key until somebody compacts it. Each coordinator does, whether it leads or stands by:
// every Config.Interval all revisions go but those of the last such interval, of all keys in that etcd. Nobody has to lead
// for it, for where etcd is full nobody new can be elected. It never defragments and never disarms an alarm: that is the
// operator's, as docs/etcd.md says.
//
//	looks:           1     2     3     4     5     6     7
//	revision then:  10    25    25    40    70    90    95
//	                            ^ compacted at look 7, with an interval of 4 looks
//
// Where others compact, Interval is 0, and a look only finds out how far they are.
package upkeep
