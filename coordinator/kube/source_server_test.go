package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// listServer is an API server that lists and watches, and whose watches can be made to lag
// behind what it lists, as a watch cache's may.
type listServer struct {
	t      testing.TB
	server *httptest.Server

	mu      sync.Mutex
	changed chan struct{} // closed and replaced by each change
	version int64
	kinds   map[objects.Kind]*served
	// lists counts lists of metadata, which are consistent reads.
	lists map[objects.Kind]int
	// discovery is the status of the answer to whether there are kinds of devices, and PodGroups.
	discovery int
}

// served is what is served of a kind.
type served struct {
	objects map[string]objects.Object
	history []change
	// visible is how many changes watches show; -1: all.
	visible int
	// since is the version up to which the history is forgotten.
	since int64
	// breaks ends the watches that began before it.
	breaks int
	refuse int // the status of every answer; 0: none
	// refused counts such answers.
	refused int
}

type change struct {
	what    string
	object  objects.Object
	version int64
}

func newListServer(t testing.TB) *listServer {
	s := &listServer{t: t, changed: make(chan struct{}), version: 100, kinds: map[objects.Kind]*served{}, lists: map[objects.Kind]int{},
		discovery: http.StatusOK}
	for _, k := range objects.Kinds() {
		s.kinds[k] = &served{objects: map[string]objects.Object{}, visible: -1}
	}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

// source is one of the server's objects; it is run until the test ends.
func (s *listServer) source(ctx context.Context) *kube.Source {
	return s.sourceOf(ctx, kube.SourceConfig{})
}

// sourceOf is source, with settings.
func (s *listServer) sourceOf(ctx context.Context, of kube.SourceConfig) *kube.Source {
	s.t.Helper()
	cfg := &rest.Config{Host: s.server.URL, QPS: -1}
	of.Client, of.Metadata = kubernetes.NewForConfigOrDie(cfg), metadata.NewForConfigOrDie(cfg)
	source, err := kube.NewSource(of)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = source.Run(ctx) })
	s.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return source
}

// update changes the server's state, and wakes the watches.
func (s *listServer) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// put creates or replaces an object; a pod at its end leaves the watches.
func (s *listServer) put(obj objects.Object) {
	s.update(func() {
		k := s.kinds[objects.KindOf(obj)]
		obj := obj.DeepCopyObject().(objects.Object)
		s.version++
		obj.SetResourceVersion(strconv.FormatInt(s.version, 10))
		key := objects.RefOf(obj).String()
		was := k.objects[key]
		if obj.GetUID() == "" {
			obj.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version)))
			if was != nil {
				obj.SetUID(was.GetUID())
			}
		}
		k.objects[key] = obj
		what := "MODIFIED"
		switch ended := isTerminal(obj); {
		case ended && (was == nil || isTerminal(was)):
			return
		case ended:
			what = "DELETED"
		case was == nil || isTerminal(was):
			what = "ADDED"
		}
		k.history = append(k.history, change{what, obj, s.version})
	})
}

func isTerminal(obj objects.Object) bool {
	p, ok := obj.(*v1.Pod)
	return ok && objects.IsTerminal(p)
}

func (s *listServer) remove(obj objects.Object) {
	s.update(func() {
		k := s.kinds[objects.KindOf(obj)]
		key := objects.RefOf(obj).String()
		last := k.objects[key].DeepCopyObject().(objects.Object)
		delete(k.objects, key)
		s.version++
		last.SetResourceVersion(strconv.FormatInt(s.version, 10))
		k.history = append(k.history, change{"DELETED", last, s.version})
	})
}

// hold lets a kind's watches show nothing more until they are released.
func (s *listServer) hold(k objects.Kind) {
	s.update(func() { s.kinds[k].visible = len(s.kinds[k].history) })
}
func (s *listServer) release(k objects.Kind) { s.update(func() { s.kinds[k].visible = -1 }) }

// compact ends a kind's watches and forgets what they missed: who follows has to list again.
func (s *listServer) compact(k objects.Kind) {
	s.update(func() {
		one := s.kinds[k]
		one.history, one.visible, one.since = nil, -1, s.version
		one.breaks++
	})
}

func (s *listServer) refuse(k objects.Kind, status int) {
	s.update(func() { s.kinds[k].refuse = status })
}

// refused tells how often a request for a kind was.
func (s *listServer) refused(k objects.Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kinds[k].refused
}

// reads tells how often a kind's metadata was listed.
func (s *listServer) reads(k objects.Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists[k]
}

func (s *listServer) serve(w http.ResponseWriter, req *http.Request) {
	k, ok := kindServedAt(req.URL.Path)
	if req.URL.Path == "/apis/resource.k8s.io/v1" || req.URL.Path == "/apis/scheduling.k8s.io/v1alpha2" {
		s.mu.Lock()
		status := s.discovery
		s.mu.Unlock()
		writeStatus(w, status, "what is there of kinds")
		return
	}
	if !ok {
		s.t.Errorf("unexpected request %s %s", req.Method, req.URL)
		http.NotFound(w, req)
		return
	}
	query := req.URL.Query()
	want := ""
	if k == objects.KindPod {
		want = "status.phase!=Succeeded,status.phase!=Failed"
	}
	if got := query.Get("fieldSelector"); got != want {
		s.t.Errorf("field selector of %s: got %q, want %q", k, got, want)
	}
	s.mu.Lock()
	refuse := s.kinds[k].refuse
	if refuse != 0 {
		s.kinds[k].refused++
	}
	s.mu.Unlock()
	switch {
	case refuse != 0:
		writeStatus(w, refuse, fmt.Sprintf("%s is forbidden: no", k.Plural()))
	case query.Get("watch") != "":
		s.watch(w, req, k)
	default:
		s.list(w, req, k)
	}
}

func kindServedAt(path string) (objects.Kind, bool) {
	for _, k := range objects.Kinds() {
		at := "/apis/" + k.GroupVersion().String() + "/" + k.Plural()
		if k.GroupVersion().Group == "" {
			at = "/api/v1/" + k.Plural()
		}
		if path == at {
			return k, true
		}
	}
	return "", false
}

// list answers with everything, or metadata a page of two at a time.
func (s *listServer) list(w http.ResponseWriter, req *http.Request, k objects.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	partial := strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadataList")
	version, from, to := s.version, 0, len(s.kinds[k].objects)
	listed := map[string]any{}
	if partial {
		s.lists[k]++
		if token := req.URL.Query().Get("continue"); token != "" {
			from, _ = strconv.Atoi(token)
		}
		if from+2 < to {
			to = from + 2
			listed["continue"] = strconv.Itoa(to)
		}
	}
	listed["resourceVersion"] = strconv.FormatInt(version, 10)
	items := []any{}
	for _, key := range slices.Sorted(maps.Keys(s.kinds[k].objects))[from:to] {
		obj := s.kinds[k].objects[key]
		if isTerminal(obj) {
			continue
		}
		if partial {
			items = append(items, metav1.PartialObjectMetadata{ObjectMeta: metaOf(obj)})
		} else {
			items = append(items, obj)
		}
	}
	answer := map[string]any{"kind": string(k) + "List", "apiVersion": k.GroupVersion().String(), "metadata": listed, "items": items}
	if partial {
		answer["kind"], answer["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func metaOf(obj objects.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion()}
}

// watch streams changes after a version, behind all objects where they are asked for.
func (s *listServer) watch(w http.ResponseWriter, req *http.Request, k objects.Kind) {
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	send := func(what string, obj any) { _ = out.Encode(map[string]any{"type": what, "object": obj}) }
	one := s.kinds[k]
	s.mu.Lock()
	defer s.mu.Unlock()
	after, _ := strconv.ParseInt(req.URL.Query().Get("resourceVersion"), 10, 64)
	begun := one.breaks
	if req.URL.Query().Get("sendInitialEvents") == "true" {
		for _, obj := range one.objects {
			if !isTerminal(obj) {
				send("ADDED", typed(obj))
			}
		}
		after = s.version
		end := objects.New(k)
		end.SetResourceVersion(strconv.FormatInt(after, 10))
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		send("BOOKMARK", typed(end))
	} else if after < one.since {
		send("ERROR", metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version"})
		return
	}
	for at := 0; ; {
		shown := len(one.history)
		if one.visible >= 0 {
			shown = one.visible
		}
		for ; at < shown; at++ {
			if c := one.history[at]; c.version > after {
				send(c.what, typed(c.object))
			}
		}
		w.(http.Flusher).Flush()
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-req.Context().Done():
		}
		s.mu.Lock()
		if one.breaks != begun || req.Context().Err() != nil {
			return
		}
	}
}

// typed says what an object is, as in every answer of an API server.
func typed(obj objects.Object) objects.Object {
	obj = obj.DeepCopyObject().(objects.Object)
	obj.GetObjectKind().SetGroupVersionKind(objects.KindOf(obj).GroupVersion().WithKind(string(objects.KindOf(obj))))
	return obj
}

func writeStatus(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Message: message}
	if code == http.StatusForbidden {
		status.Reason = metav1.StatusReasonForbidden
	}
	_ = json.NewEncoder(w).Encode(status)
}
