package extender

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// servers is all extenders: the first part of a request's path is an extender's name, the second a
// verb.
type servers struct {
	*httptest.Server
	admin kubernetes.Interface

	mu sync.Mutex
	// asked are the pods that each extender was asked about, as <extender>/<verb> <pod>.
	asked []string
	// whole is what the one that has no cache was sent last.
	whole extenderv1.ExtenderArgs
	// refused says how often binding was refused yet.
	refused int
	held    chan struct{}
}

func serve(t *testing.T) *servers {
	s := &servers{held: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

// let ends what hangs.
func (s *servers) let() { close(s.held) }

// times is how often an extender was asked about a pod.
func (s *servers) times(what string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if strings.HasPrefix(a, what) {
			n++
		}
	}
	return n
}

func (s *servers) answer(w http.ResponseWriter, r *http.Request) {
	var q struct {
		extenderv1.ExtenderArgs
		extenderv1.ExtenderBindingArgs
		NodeNameToMetaVictims map[string]*extenderv1.MetaVictims
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	what := strings.TrimPrefix(r.URL.Path, "/")
	name := q.PodName
	if q.Pod != nil {
		name = q.Pod.Name
	}
	s.mu.Lock()
	s.asked = append(s.asked, what+" "+name)
	if q.Nodes != nil {
		s.whole = q.ExtenderArgs
	}
	s.mu.Unlock()
	var out any
	switch what {
	case "choosy/filter":
		out = choosy(q.NodeNames)
	case "scorer/prioritize":
		out = extenderv1.HostPriorityList{{Host: "b", Score: 10}, {Host: "a", Score: 1}}
	case "whole/filter":
		out = extenderv1.ExtenderFilterResult{Nodes: q.Nodes}
	case "binder/bind":
		out = extenderv1.ExtenderBindingResult{Error: s.bind(r.Context(), &q.ExtenderBindingArgs)}
	case "preempter/preempt":
		left := map[string]*extenderv1.MetaVictims{}
		if v := q.NodeNameToMetaVictims["b"]; v != nil {
			left["b"] = v // upstream does not survive a null
		}
		out = extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: left}
	case "slow/filter":
		select {
		case <-s.held:
		case <-r.Context().Done():
		}
		out = extenderv1.ExtenderFilterResult{NodeNames: q.NodeNames}
	default:
		http.Error(w, "down", http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(out)
}

// choosy keeps node c alone. It says of a that it is busy, of b that it never will do, and nothing of
// others.
func choosy(names *[]string) extenderv1.ExtenderFilterResult {
	kept := []string{}
	if slices.Contains(*names, "c") {
		kept = append(kept, "c")
	}
	out := extenderv1.ExtenderFilterResult{NodeNames: &kept, FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	if slices.Contains(*names, "a") {
		out.FailedNodes["a"] = "choosy: busy"
	}
	if slices.Contains(*names, "b") {
		out.FailedAndUnresolvableNodes["b"] = "choosy: never"
	}
	return out
}

// bind binds a pod, but for one that it refuses the first time.
func (s *servers) bind(ctx context.Context, q *extenderv1.ExtenderBindingArgs) string {
	s.mu.Lock()
	refuse := strings.HasPrefix(q.PodName, "refused") && s.refused == 0
	if refuse {
		s.refused++
	}
	s.mu.Unlock()
	if refuse {
		return "not yet"
	}
	err := s.admin.CoreV1().Pods(q.PodNamespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: q.PodNamespace, Name: q.PodName, UID: types.UID(q.PodUID), Annotations: map[string]string{"bound-by": "extender"}},
		Target:     v1.ObjectReference{Kind: "Node", Name: q.Node},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Sprint(err)
	}
	return ""
}
