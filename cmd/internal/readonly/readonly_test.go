package readonly

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// server notes what is sent to it, as "METHOD path".
type server struct {
	*httptest.Server
	answer http.HandlerFunc

	mu   sync.Mutex
	sent []string
}

func newServer(t *testing.T, answer http.HandlerFunc) *server {
	s := &server{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.sent = append(s.sent, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		s.answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

func write(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(object)
}

// none is the next transport where a request must not get so far.
type none struct{ got []string }

func (n *none) RoundTrip(r *http.Request) (*http.Response, error) {
	n.got = append(n.got, r.Method+" "+r.URL.Path)
	return nil, errors.New("sent")
}

// closes tells whether it was closed.
type closes struct {
	io.Reader
	closed bool
}

func (c *closes) Close() error { c.closed = true; return nil }

func TestOnlyReadsAreSent(t *testing.T) {
	const api = "/api/v1/namespaces/default/pods"
	for _, c := range []struct{ method, path, refused string }{
		{"GET", "/api", ""}, {"GET", "/apis", ""}, {"GET", "/apis/resource.k8s.io/v1", ""}, {"GET", "/version", ""},
		{"GET", "/api/v1/nodes", ""}, {"GET", "/api/v1/nodes?watch=true", ""}, {"GET", api + "/a", ""}, {"GET", api + "/proxy", ""},
		{"GET", "/apis/storage.k8s.io/v1/csinodes/a", ""},
		{"POST", reviewPath, ""},

		{"POST", api, "want GET"}, {"PUT", api + "/a", "want GET"}, {"PATCH", api + "/a/status", "want GET"}, {"DELETE", api + "/a", "want GET"},
		{"DELETE", api, "want GET"}, {"POST", api + "/a/binding", "want GET"}, {"POST", api + "/a/eviction", "want GET"},
		{"HEAD", api, "want GET"}, {"OPTIONS", api, "want GET"}, {"CONNECT", api + "/a/proxy", "want GET"}, {"", api, "want GET"}, {"get", api, "want GET"},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "want GET"},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "want GET"},
		{"POST", reviewPath + "/a", "want GET"}, {"POST", "/below" + reviewPath, "want GET"}, {"PUT", reviewPath, "want GET"},

		{"GET", api + "/a/exec?command=halt", "subresource exec"}, {"GET", api + "/a/attach", "subresource attach"},
		{"GET", api + "/a/portforward", "subresource portforward"}, {"GET", api + "/a/proxy/shutdown", "subresource proxy"},
		{"GET", "/api/v1/nodes/a/proxy/run/default/a/a?cmd=halt", "subresource proxy"},
		{"GET", "/api/v1/namespaces/default/services/a/proxy/", "subresource proxy"}, {"GET", api + "/a/log", "subresource log"},
		{"GET", "/api/v1/proxy/nodes/a/shutdown", "proxy, want one of"},
		{"GET", "/api/v1/nodes/../nodes/a/proxy", "without escapes"}, {"GET", "/api/v1/nodes/a%2fproxy", "without escapes"},
	} {
		u, err := url.Parse("http://api" + c.path)
		if err != nil {
			t.Fatal(err)
		}
		next, body := &none{}, &closes{Reader: strings.NewReader("body")}
		_, err = (&transport{next: next}).RoundTrip(&http.Request{Method: c.method, URL: u, Body: body})
		if c.refused == "" {
			if len(next.got) != 1 {
				t.Errorf("%s %s: got %v, want it sent", c.method, c.path, err)
			}
			continue
		}
		if len(next.got) > 0 || err == nil || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "can only read") {
			t.Errorf("%s %s: got %v, sent %q; want it not sent, for %s", c.method, c.path, err, next.got, c.refused)
		}
		if !body.closed {
			t.Errorf("%s %s: want the body closed", c.method, c.path)
		}
	}
}

// An API server may stand behind a proxy, below a path of its own.
func TestPathsBelowAProxysAreReadFromThere(t *testing.T) {
	c, err := Config(&rest.Config{Host: "https://proxy/k8s/clusters/c-1/"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/k8s/clusters/c-1/api/v1/nodes": true, "/k8s/clusters/c-1" + reviewPath: true,
		"/k8s/clusters/c-1/api/v1/nodes/a/proxy": false, "/api/v1/nodes": false, "/k8s/clusters/c-11/api/v1/nodes": false, reviewPath: false,
	} {
		next, method := &none{}, "GET"
		if strings.HasSuffix(path, reviewPath) {
			method = "POST"
		}
		c.WrapTransport(next).RoundTrip(&http.Request{Method: method, URL: &url.URL{Scheme: "https", Host: "proxy", Path: path}})
		if got := len(next.got) > 0; got != want {
			t.Errorf("%s %s: sent is %v, want %v", method, path, got, want)
		}
	}
}

// What a client of this package can be asked for, with all that client-go puts around it.
func TestClientsWriteNothing(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		write(w, http.StatusOK, &v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{{}}})
	})
	c, err := NewClients(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, pods := t.Context(), c.Objects.CoreV1().Pods("default")
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("got %v, %v; want a list of one pod", list, err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	resource := v1.SchemeGroupVersion.WithResource("pods")
	_, created := pods.Create(ctx, pod, metav1.CreateOptions{})
	_, updated := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	_, patched := pods.Patch(ctx, "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
	for what, err := range map[string]error{
		"create": created, "update": updated, "patch": patched,
		"bind":        pods.Bind(ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}),
		"delete":      pods.Delete(ctx, "a", metav1.DeleteOptions{}),
		"delete all":  pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		"by metadata": c.Metadata.Resource(resource).Namespace("default").Delete(ctx, "a", metav1.DeleteOptions{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "can only read") {
			t.Errorf("%s: got %v, want it refused here", what, err)
		}
	}
	if got, want := s.requests(), []string{"GET /api/v1/namespaces/default/pods"}; !slices.Equal(got, want) {
		t.Errorf("sent: %q, want %q", got, want)
	}
}

// An API server can send a client elsewhere, also to where a GET is more than a read.
func TestARedirectIsARequest(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/api/v1/nodes/a/proxy/run")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	c, err := NewClients(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Objects.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "subresource proxy") {
		t.Errorf("got %v, want the redirect refused", err)
	}
	if err := MustNotBind(t.Context(), &rest.Config{Host: s.URL}); err == nil || !strings.Contains(err.Error(), "want GET") {
		t.Errorf("got %v, want the redirect refused", err)
	}
	if got, want := s.requests(), []string{"GET /api/v1/nodes", "POST " + reviewPath}; !slices.Equal(got, want) {
		t.Errorf("sent: %q, want %q", got, want)
	}
}

// The configuration that was given is others' to use.
func TestTheConfigurationIsNotChanged(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		write(w, http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess})
	})
	given := &rest.Config{Host: s.URL}
	if _, err := Config(given); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(given)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Errorf("got %v, want what was given to write as before", err)
	}
	if _, err := Config(&rest.Config{Host: "https://[::1"}); err == nil {
		t.Error("want an address that is none refused")
	}
}

// granting answers reviews by whether a resource is granted, as "resource/subresource".
func granting(t *testing.T, status authorizationv1.SubjectAccessReviewStatus, granted ...string) *server {
	return newServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Contains(body, []byte("create")) {
			t.Errorf("asked for %q, %v; want create", body, err)
		}
		what := "bindings"
		if bytes.Contains(body, []byte("pods")) {
			what = "pods/binding"
		}
		status := status
		status.Allowed = slices.Contains(granted, what)
		write(w, http.StatusCreated, &authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}, Status: status,
		})
	})
}

func TestCredentialsThatMayBindAreRefused(t *testing.T) {
	both := []string{"POST " + reviewPath, "POST " + reviewPath}
	for _, c := range []struct {
		what    string
		status  authorizationv1.SubjectAccessReviewStatus
		granted []string
		want    []string // empty: no error
		sent    int
	}{
		{"that may neither", authorizationv1.SubjectAccessReviewStatus{}, nil, nil, 2},
		{"that may bind", authorizationv1.SubjectAccessReviewStatus{}, []string{"pods/binding"},
			[]string{"may create pods/binding,", "shardsched-shadow", "deploy/rbac/shadow.yaml", "--allow-binding-credentials"}, 1},
		{"that may in the older way", authorizationv1.SubjectAccessReviewStatus{}, []string{"bindings"}, []string{"may create bindings,"}, 2},
		{"that a reason speaks of", authorizationv1.SubjectAccessReviewStatus{Reason: `RBAC: clusterrole "a" not found`}, nil, nil, 2},
		{"that can't be judged", authorizationv1.SubjectAccessReviewStatus{EvaluationError: "the webhook is down"}, nil,
			[]string{"can't tell", "pods/binding", "the webhook is down", "--allow-binding-credentials"}, 1},
	} {
		s := granting(t, c.status, c.granted...)
		err := MustNotBind(t.Context(), &rest.Config{Host: s.URL})
		if (err == nil) != (len(c.want) == 0) {
			t.Errorf("credentials %s: got %v, want an error with %q", c.what, err, c.want)
		}
		for _, word := range c.want {
			if err != nil && !strings.Contains(err.Error(), word) {
				t.Errorf("credentials %s: got %v, want %q in it", c.what, err, word)
			}
		}
		if got, want := s.requests(), both[:c.sent]; !slices.Equal(got, want) {
			t.Errorf("credentials %s: sent %q, want %q", c.what, got, want)
		}
	}
}

func TestAReviewThatCantBeAskedIsAnError(t *testing.T) {
	forbidden := apierrors.NewForbidden(authorizationv1.Resource("selfsubjectaccessreviews"), "", errors.New("who are you?")).Status()
	forbidden.APIVersion, forbidden.Kind = "v1", "Status"
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) { write(w, http.StatusForbidden, &forbidden) })
	err := MustNotBind(t.Context(), &rest.Config{Host: s.URL})
	for _, want := range []string{"ask the API server whether these credentials may create pods/binding", "who are you?", "--allow-binding-credentials"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	s.Close()
	if err := MustNotBind(t.Context(), &rest.Config{Host: s.URL}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody there: got %v, want an error", err)
	}
	hangs := newServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, stop := context.WithCancelCause(t.Context())
	stop(fmt.Errorf("told to end"))
	if err := MustNotBind(ctx, &rest.Config{Host: hangs.URL}); err == nil || !strings.Contains(err.Error(), "told to end") {
		t.Errorf("got %v, want the cause", err)
	}
}
