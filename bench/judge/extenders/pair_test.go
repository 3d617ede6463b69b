package extenders

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/shardsched/shardsched/coordinator/extender"
)

// request is what reaches the server.
type request struct {
	Method, Path, Query string
	Header              http.Header
	Body                any
}

// scribe writes requests down and answers them all alike.
type scribe struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	seen   []request
}

func newScribe(t *testing.T) *scribe {
	s := &scribe{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *scribe) serve(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	got := request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header}
	if err := json.Unmarshal(raw, &got.Body); err != nil {
		got.Body = string(raw)
	}
	s.mu.Lock()
	s.seen = append(s.seen, got)
	answer := s.answer
	s.mu.Unlock()
	answer(w, r)
}

// begin has the next requests answered so, and forgets those before.
func (s *scribe) begin(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.seen = answer, nil
}

func (s *scribe) take() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// pair is the two clients of one configuration.
type pair struct{ theirs, ours fwk.Extender }

func newPair(t *testing.T, c configv1.Extender) pair {
	t.Helper()
	var internal config.Extender
	if err := scheme.Scheme.Convert(c.DeepCopy(), &internal, nil); err != nil {
		t.Fatalf("convert: %v", err)
	}
	theirs, err := scheduler.NewHTTPExtender(&internal)
	if err != nil {
		t.Fatalf("upstream's client: %v", err)
	}
	ours, err := extender.NewAll([]configv1.Extender{c}, extender.Options{})
	if err != nil {
		t.Fatalf("our client: %v", err)
	}
	return pair{theirs, extender.Framed(ours)[0]}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
