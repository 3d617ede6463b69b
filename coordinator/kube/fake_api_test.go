package kube_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// patience is how long a test waits for what has to happen.
const patience = 30 * time.Second

// seen is a request that came in.
type seen struct {
	method, path string
	header       http.Header
	body         []byte
	from         string // the connection
}

func (s seen) String() string { return s.method + " " + s.path }

// reply is what the API server does about a request.
type reply struct {
	code       int
	message    string
	reason     metav1.StatusReason
	kind       string // of the object that a failure is about
	retryAfter string
	raw        string // a body that is none of the API server's
	hangUp     bool   // the connection breaks
	object     runtime.Object
	before     func() // runs before the answer
}

// api is an API server that answers as its script says.
type api struct {
	t      testing.TB
	server *httptest.Server

	mu       sync.Mutex
	requests []seen
	respond  func(seen) reply
}

// newAPI starts one that answers with what respond returns.
func newAPI(t testing.TB, respond func(seen) reply) *api {
	a := &api{t: t, respond: respond}
	a.server = httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	a.server.EnableHTTP2 = true
	a.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.server.StartTLS()
	t.Cleanup(func() {
		a.server.CloseClientConnections()
		a.server.Close()
	})
	return a
}

// script answers requests one by one, and the last one's way for ever.
func script(replies ...reply) func(seen) reply {
	n := 0
	return func(seen) reply {
		r := replies[min(n, len(replies)-1)]
		n++
		return r
	}
}

// posts answers POSTs and PATCHes with one script, GETs with another.
func posts(writes, reads func(seen) reply) func(seen) reply {
	return func(s seen) reply {
		if s.method == http.MethodGet {
			return reads(s)
		}
		return writes(s)
	}
}

func (a *api) serve(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	s := seen{method: req.Method, path: req.URL.Path, header: req.Header, body: body, from: req.RemoteAddr}
	a.mu.Lock()
	a.requests = append(a.requests, s)
	r := a.respond(s)
	a.mu.Unlock()
	if r.code == http.StatusTeapot {
		a.t.Errorf("request: got %s, want none", s)
	}
	if r.before != nil {
		r.before()
	}
	if r.hangUp {
		panic(http.ErrAbortHandler)
	}
	if r.retryAfter != "" {
		w.Header().Set("Retry-After", r.retryAfter)
	}
	if r.raw != "" {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(r.code)
		_, _ = io.WriteString(w, r.raw)
		return
	}
	var obj runtime.Object = r.status()
	if r.object != nil {
		obj = r.object.DeepCopyObject() // an encoder writes the object's version into it, and answers may share one
	}
	out, err := runtime.Encode(scheme.Codecs.LegacyCodec(scheme.Scheme.PrioritizedVersionsAllGroups()...), obj)
	if err != nil {
		a.t.Errorf("encode %T: %v", obj, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.code)
	_, _ = w.Write(out)
}

func (r reply) status() *metav1.Status {
	s := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusSuccess, Code: int32(r.code), Message: r.message, Reason: r.reason,
	}
	if r.code >= 300 {
		s.Status = metav1.StatusFailure
	}
	if r.kind != "" {
		s.Details = &metav1.StatusDetails{Kind: r.kind}
	}
	return s
}

// log is what came in, a line a request.
func (a *api) log() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	lines := make([]string, len(a.requests))
	for i, s := range a.requests {
		lines[i] = s.String()
	}
	return strings.Join(lines, "\n")
}

// all are the requests so far.
func (a *api) all() []seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]seen(nil), a.requests...)
}

// config is how to reach it.
func (a *api) config() *rest.Config {
	return &rest.Config{
		Host:            a.server.URL,
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw})},
	}
}

// clients are without a rate limit, and write JSON so that tests can read it.
func (a *api) clients(change ...func(*kube.ClientConfig)) *kube.Clients {
	a.t.Helper()
	cfg := kube.ClientConfig{REST: a.config(), QPS: -1, ContentType: "application/json", UserAgent: "shardsched/test (linux/amd64)"}
	for _, f := range change {
		f(&cfg)
	}
	c, err := kube.NewClients(a.t.Context(), cfg)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// decode reads a request's JSON.
func decode[T any](t testing.TB, body []byte) T {
	t.Helper()
	var out T
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
	return out
}

// eventually waits until a condition holds that other goroutines bring about.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited %v for %s", patience, what)
		case <-tick.C:
		}
	}
}

func pod(name string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", Generation: 3},
		Spec:       v1.PodSpec{SchedulerName: "default-scheduler"},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func on(node string) func(*v1.Pod)        { return func(p *v1.Pod) { p.Spec.NodeName = node } }
func withUID(uid types.UID) func(*v1.Pod) { return func(p *v1.Pod) { p.UID = uid } }
func at(version string) func(*v1.Pod)     { return func(p *v1.Pod) { p.ResourceVersion = version } }
func deleted(p *v1.Pod)                   { now := metav1.Unix(1, 0); p.DeletionTimestamp = &now }
func gated(p *v1.Pod)                     { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}} }
func found(obj objects.Object) reply      { return reply{code: 200, object: obj} }
func created() reply                      { return reply{code: 201} }
func conflict(message string) reply {
	return reply{code: 409, reason: metav1.StatusReasonConflict, message: message}
}
func internal(message string) reply {
	return reply{code: 500, reason: metav1.StatusReasonInternalError, message: message}
}
func forbidden() reply { return reply{code: 403, reason: metav1.StatusReasonForbidden, message: "no"} }
func gone(kind string) reply {
	return reply{code: 404, reason: metav1.StatusReasonNotFound, kind: kind, message: "gone"}
}
func tooMany(after string) reply {
	return reply{code: 429, reason: metav1.StatusReasonTooManyRequests, retryAfter: after, message: "slow down"}
}
func unavailable() reply {
	return reply{code: 503, reason: metav1.StatusReasonServiceUnavailable, message: "starting"}
}
func lost() reply      { return reply{hangUp: true} }
func never(seen) reply { return reply{code: http.StatusTeapot, message: "nobody expects this request"} }
