package rig

import (
	"slices"
	"strings"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// needed are the kinds of requests to write that each scheduler makes which binds a pod and
// does not bind another.
func needed() []string {
	return []string{"create pods/binding ", "patch pods/status ", "create events ", "update leases kube-system/kube-scheduler:"}
}

// usual are those that it may make besides.
func usual() []string {
	return []string{"patch events ", "create leases kube-system/", "create subjectaccessreviews ", "create tokenreviews "}
}

// CheckWrites looks into the audit log: nothing that the scheduler asked for was denied, and
// it wrote nothing but what schedulers write, and what is said here, each of which it wrote.
func (r *Rig) CheckWrites(more ...string) {
	r.T.Helper()
	audit := r.Audited()
	if denied := testbed.Denied(audit); len(denied) > 0 {
		r.T.Errorf("denied: got\n%s\nwant nothing", strings.Join(denied, "\n"))
	}
	must := append(needed(), more...)
	allowed := append(usual(), must...)
	count := map[string]int{}
	for _, line := range testbed.Writes(audit) {
		i := slices.IndexFunc(allowed, func(prefix string) bool { return strings.HasPrefix(line, prefix) })
		if i < 0 {
			r.T.Errorf("got %q, want none but %q", line, allowed)
			continue
		}
		count[allowed[i]]++
	}
	for _, kind := range must {
		if count[kind] == 0 {
			r.T.Errorf("got no %q, want some: %v", kind, count)
		}
	}
}
