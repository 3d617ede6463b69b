package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// asked is a request in a second of the day: "create pods/binding", answered with a code.
func asked(second int, uid, what string, code int32) auditv1.Event {
	verb, object, _ := strings.Cut(what, " ")
	resource, sub, _ := strings.Cut(object, "/")
	return auditv1.Event{
		Verb: verb, User: authenticationv1.UserInfo{Username: testbed.CoordinatorUser, UID: uid},
		ObjectRef:                &auditv1.ObjectReference{Resource: resource, Subresource: sub, Namespace: "default", Name: "p"},
		RequestReceivedTimestamp: metav1.NewMicroTime(time.Unix(int64(second), 0)),
		ResponseStatus:           &metav1.Status{Code: code},
	}
}

func TestFaultsPlantedInAnAuditLogAreFound(t *testing.T) {
	const bind, status, lease = "create pods/binding", "patch pods/status", "update leases"
	cases := []struct {
		name   string
		events []auditv1.Event
		want   []string
		terms  string
	}{
		{"one after the other", []auditv1.Event{
			asked(1, "a", bind, 201), asked(2, "a", status, 200), asked(3, "b", bind, 201), asked(4, "b", bind, 409),
		}, nil, "a:2/1/0 b:2/1/1"},
		{"those who stand by ask for the Lease, read, and ask who asks them", []auditv1.Event{
			asked(1, "a", bind, 201), asked(2, "b", lease, 409), asked(3, "b", "list pods", 200), asked(4, "b", "create tokenreviews", 201), asked(5, "a", bind, 201),
		}, nil, "a:2/2/0"},
		{"others than schedulers write", []auditv1.Event{asked(1, "a", bind, 201), func() auditv1.Event {
			e := asked(2, "b", bind, 201)
			e.User.Username = "admin"
			return e
		}(), asked(3, "a", bind, 201)}, nil, "a:2/2/0"},
		{"the log is not in the order of the requests", []auditv1.Event{
			asked(3, "b", bind, 201), asked(1, "a", bind, 201), asked(2, "a", bind, 201),
		}, nil, "a:2/2/0 b:1/1/0"},
		{"a leader that was stopped binds when it goes on", []auditv1.Event{
			asked(1, "a", bind, 201), asked(20, "a", bind, 201),
		}, []string{"a wrote 10s after it was deposed: create pods/binding default/p: 201"}, "a:2/2/0"},
		{"a leader that was stopped tries to renew its Lease", []auditv1.Event{
			asked(1, "a", bind, 201), asked(5, "b", bind, 201), asked(20, "a", lease, 409),
		}, []string{"a wrote 10s after it was deposed: update leases"}, "a:1/1/0 b:1/1/0"},
		{"a leader binds beside the next one", []auditv1.Event{
			asked(1, "a", bind, 201), asked(5, "b", bind, 201), asked(6, "a", status, 409), asked(7, "b", bind, 201),
		}, []string{"a wrote again 1s after b had begun: patch pods/status"}, "a:1/1/0 b:2/2/0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			faults, terms, _ := JudgeTerms(c.events, map[string]time.Time{"a": time.Unix(10, 0)})
			matches := len(faults) == len(c.want)
			for i := 0; matches && i < len(c.want); i++ {
				matches = strings.Contains(faults[i], c.want[i])
			}
			if !matches {
				t.Errorf("faults:\n got %q\nwant %q (parts)", faults, c.want)
			}
			var got []string
			for _, term := range terms {
				got = append(got, fmt.Sprintf("%s:%d/%d/%d", term.UID, term.Writes, term.Bound, term.Refused))
			}
			if s := strings.Join(got, " "); s != c.terms {
				t.Errorf("terms (writes/bound/refused): got %q, want %q", s, c.terms)
			}
		})
	}
}
