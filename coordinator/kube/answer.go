package kube

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/shardsched/shardsched/coordinator/lease"
)

// verdict is what a try to write came to.
//
//	verdict     what happened                            is it written?
//	ok          2xx                                      yes
//	refused     4xx, and 500 where storage is not why    not by this try
//	throttled   429                                      no: ask again when it says
//	open        5xx, connection lost, timeout            nobody knows: look
//	notSent     no connection, no turn                   no
//	deposed     the fence refused                        no, and never again
type verdict int

const (
	ok verdict = iota
	refused
	throttled
	open
	notSent
	deposed
)

func (v verdict) String() string {
	return [...]string{"ok", "refused", "throttled", "open", "unsent", "deposed"}[v]
}

// answer is one of the API server.
type answer struct {
	code       int
	body       []byte
	status     *metav1.Status // of a failure; nil where the answer holds none
	retryAfter time.Duration  // 0: not said
}

func newAnswer(resp *http.Response, body []byte) *answer {
	a := &answer{code: resp.StatusCode, body: body}
	if a.code < 300 {
		return a
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.retryAfter = time.Duration(seconds) * time.Second
	}
	if obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		a.status, _ = obj.(*metav1.Status)
	}
	return a
}

func (a *answer) verdict() verdict {
	switch {
	case a.code >= 200 && a.code < 300:
		return ok
	case a.code == http.StatusTooManyRequests:
		return throttled
	case a.code == http.StatusInternalServerError && !a.blamesStorage():
		return refused
	case a.code >= 500:
		return open
	}
	return refused
}

// blamesStorage tells whether a 500 may have come after the write was on its way to etcd.
// An answer without a Status is not the API server's own.
func (a *answer) blamesStorage() bool {
	if a.status == nil {
		return true
	}
	text := a.status.Message
	if strings.Contains(text, "webhook") {
		return false
	}
	for _, sign := range []string{"etcd", "rpc error", "context ", "timed out", "timeout", "connection", "transport"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// missing tells whether the API server says that the object itself is not there.
func (a *answer) missing() bool {
	return a.code == http.StatusNotFound && a.status != nil && a.status.Reason == metav1.StatusReasonNotFound &&
		a.status.Details != nil && a.status.Details.Kind != ""
}

// mayStart tells whether the API server may say something else once it has started: until it knows the roles and its
// admission is ready, it forbids.
func (a *answer) mayStart() bool {
	return a.code == http.StatusForbidden || a.code == http.StatusUnauthorized
}

// Error is the answer as an operator wants to read it: code and the server's words.
func (a *answer) Error() string {
	text := http.StatusText(a.code)
	if a.status != nil && a.status.Message != "" {
		text = a.status.Message
	} else if len(a.body) > 0 {
		text = strings.TrimSpace(strings.ToValidUTF8(string(a.body[:min(len(a.body), 256)]), "?"))
	}
	return fmt.Sprintf("the API server answered %d: %s", a.code, text)
}

// cause is an answer or an error as an error.
func cause(a *answer, err error) error {
	if err != nil {
		return err
	}
	return a
}

func isDeposed(err error) bool { return errors.Is(err, lease.ErrDeposed) }

// isDial tells whether no connection came about.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Waits between tries that nobody asked for.
const (
	firstWait = 100 * time.Millisecond
	longWait  = 5 * time.Second
)

// waitBefore is how long to wait before try n, from 1 on.
func waitBefore(n int, a *answer) time.Duration {
	if a != nil && a.retryAfter > 0 {
		return a.retryAfter
	}
	if n > 6 {
		return longWait
	}
	return min(firstWait<<(n-1), longWait)
}
