// Trace measures shardsched end to end with a production trace, in one run on one
// machine:
//
//	go run ./measure/trace [--data FOLDER] [--trace default] [--runs 3] [--out PREFIX]
//
//	CSV ──convert openb──> objects ──┬──> simulate                   seconds, decisions/s
//	                                 └──> up, as a client: Apply,    pods/s and latency,
//	                                      then Watch until bound     submit→bound
//
// up runs with its embedded etcd, fsync on; a probe tells what an fsync costs here. A
// figure counts only if package audit finds no fault in what etcd holds afterwards. The
// report is written as PREFIX.json and PREFIX.txt, with commit, machine and seed.
//
// The trace is openb (hkust-adsl/kubernetes-scheduler-simulator, Apache-2.0), read from
// --data. Where that folder is absent the product's own generator of that shape is used,
// and the report says so.
package main
