package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// Term is what one life of a coordinator wrote to the API server.
type Term struct {
	// UID is its user's.
	UID string
	// First and Last are when its first and last write came in.
	First, Last time.Time
	// Writes are all of them, Bound the binds that were made, Refused the binds that were not.
	Writes, Bound, Refused int
}

// Bind is one that the API server made.
type Bind struct {
	UID string
	At  time.Time // when it came in
}

// JudgeTerms holds an audit log against the rules for leaders, one line for each fault:
// who was deposed at a time writes nothing from then on, and whoever has written after another
// leads alone. It returns the terms and the binds in their order.
func JudgeTerms(events []auditv1.Event, deposed map[string]time.Time) (faults []string, terms []*Term, binds []Bind) {
	events = slices.DeleteFunc(slices.Clone(events), func(e auditv1.Event) bool { return !writes(&e) })
	slices.SortStableFunc(events, func(a, b auditv1.Event) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time)
	})
	for i := range events {
		e := &events[i]
		at, uid := e.RequestReceivedTimestamp.Time, e.User.UID
		if limit, ok := deposed[uid]; ok && at.After(limit) {
			faults = append(faults, fmt.Sprintf("%s wrote %v after it was deposed: %s", uid, at.Sub(limit), testbed.AuditLine(*e)))
		}
		if e.ObjectRef != nil && e.ObjectRef.Resource == "leases" {
			continue // also those who stand by may ask for it
		}
		n := len(terms)
		if n == 0 || terms[n-1].UID != uid {
			if i := slices.IndexFunc(terms, func(t *Term) bool { return t.UID == uid }); i >= 0 {
				faults = append(faults, fmt.Sprintf("%s wrote again %v after %s had begun: %s", uid, at.Sub(terms[i+1].First),
					terms[i+1].UID, testbed.AuditLine(*e)))
				continue
			}
			terms = append(terms, &Term{UID: uid, First: at})
			n++
		}
		if terms[n-1].take(e) {
			binds = append(binds, Bind{uid, at})
		}
	}
	return faults, terms, binds
}

// take counts a write and tells whether it bound a pod.
func (t *Term) take(e *auditv1.Event) (bound bool) {
	t.Last = e.RequestReceivedTimestamp.Time
	t.Writes++
	if e.ObjectRef == nil || e.ObjectRef.Subresource != "binding" || e.ResponseStatus == nil {
		return false
	}
	if e.ResponseStatus.Code == http.StatusCreated {
		t.Bound++
		return true
	}
	t.Refused++
	return false
}

// writes tells whether a scheduler asked to change something. Reviews of who asks its
// endpoints change nothing.
func writes(e *auditv1.Event) bool {
	if !testbed.IsScheduler(e.User.Username) || e.ObjectRef != nil && strings.HasSuffix(e.ObjectRef.Resource, "reviews") {
		return false
	}
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}
