// Package metrics defines what the coordinator's scheduling loop measures.
//
// Upstream lists the metrics of kube-scheduler that it serves: name, labels, buckets and help
// are kube-scheduler's, so that dashboards and alerts go on working; bench/judge/oracle/metrics holds
// them against the original. Own lists ours, whose names begin with shardsched_.
//
// A Set makes the collectors of all of them. Those who measure ask it once for the series that
// they write to, and keep it: looking a series up by its labels costs more than a decision may.
// A series is served from the first time that it is asked for; one without labels always is.
//
// Histogram differs from the client library's in one thing: a batch decides hundreds of pods in
// one stroke, and what they have in common is observed in one as well.
package metrics
