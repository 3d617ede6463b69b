package extender_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/extender"
)

// asked is a request that a server has seen.
type asked struct {
	method, path, contentType string
	body                      string
}

// server answers every request with one function, and remembers what it was asked.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []asked
}

func serve(t *testing.T, answer http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(s.remember(answer))
	t.Cleanup(s.Close)
	return s
}

func (s *server) remember(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.asked = append(s.asked, asked{r.Method, r.URL.Path, r.Header.Get("Content-Type"), string(body)})
		s.mu.Unlock()
		answer(w, r)
	}
}

func (s *server) all() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.asked...)
}

// text answers with a fixed text.
func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// everything is an extender with all verbs.
func everything(url string) configv1.Extender {
	return configv1.Extender{
		URLPrefix: url + "/", FilterVerb: "f", PrioritizeVerb: "p", PreemptVerb: "x", BindVerb: "b",
		Weight: 3, NodeCacheCapable: true, HTTPTimeout: metav1.Duration{Duration: time.Minute},
	}
}

func client(t *testing.T, c configv1.Extender) *extender.Extender {
	t.Helper()
	e, err := extender.New(&c, extender.Options{})
	if err != nil {
		t.Fatalf("make the client: %v", err)
	}
	return e
}

func pod(name string, resources ...string) *v1.Pod {
	amounts := v1.ResourceList{}
	for _, r := range resources {
		amounts[v1.ResourceName(r)] = resource.MustParse("1")
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: amounts}}}},
	}
}

func nodes(names ...string) []*v1.Node {
	out := make([]*v1.Node, len(names))
	for i, n := range names {
		out[i] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"kubernetes.io/hostname": n}}}
	}
	return out
}

// fields is a JSON object's top level.
func fields(t *testing.T, body string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatalf("request is not a JSON object: %v: %s", err, body)
	}
	return out
}
