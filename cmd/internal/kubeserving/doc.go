// Package kubeserving is the HTTPS endpoint that kube-scheduler has: health, metrics,
// configuration and profiles, each behind the API server's authentication and authorization.
//
//	request ──who is it?──> TokenReview, client certificate, front proxy
//	           └─may it?──> SubjectAccessReview on the path (--authorization-always-allow-paths aside)
//	               ├─ /healthz /livez /readyz   named checks; ?verbose, ?exclude=NAME
//	               ├─ /metrics                  upstream's and ours, in one exposition
//	               ├─ /metrics/resources        requests and limits of every pod, on the leader only
//	               ├─ /metrics/slis             the checks' outcomes
//	               ├─ /configz /flagz /statusz  what the process runs with
//	               ├─ /console/                 pages on the scheduler, see package console
//	               └─ /debug/pprof /debug/flags/v   where profiling is on
//
// Standbys serve too.
//
// Differs from upstream: /readyz has a check more, etcd, where the queue is kept and the
// leader elected; and DELETE /metrics resets what the libraries count, not what the scheduler counts.
package kubeserving
