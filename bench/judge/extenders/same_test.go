package extenders

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

var (
	clients = flag.Int("clients", 300, "how many pairs of clients are drawn")
	seed    = flag.Uint64("seed", 1, "of the first pair")
)

// lister finds nodes by name.
type lister struct{ infos []fwk.NodeInfo }

func (l lister) List() ([]fwk.NodeInfo, error)                                 { return l.infos, nil }
func (l lister) HavePodsWithAffinityList() ([]fwk.NodeInfo, error)             { return nil, nil }
func (l lister) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) { return nil, nil }
func (l lister) Get(name string) (fwk.NodeInfo, error) {
	for _, n := range l.infos {
		if n.Node().Name == name {
			return n, nil
		}
	}
	return nil, errors.New("nodeinfo not found for node name " + name)
}

// call asks a client for one thing, and tells what came of it.
type call func(fwk.Extender) (any, error)

func TestClientsAgree(t *testing.T) {
	s := newScribe(t)
	asked, failed := 0, 0
	for i := range *clients {
		at := *seed + uint64(i)
		d := draws{rand.New(rand.NewPCG(at, 5))}
		c := d.config(s.URL)
		p := newPair(t, c)
		infos, pod := d.nodes(), d.pod("p")
		if got, want := facts(p.ours, pod), facts(p.theirs, pod); got != want {
			t.Errorf("seed %d: our client says %s of itself and the pod, upstream's %s", at, got, want)
		}
		victims := d.victims(infos)
		for verb, ask := range map[string]call{
			"filter": func(e fwk.Extender) (any, error) {
				kept, busy, never, err := e.Filter(pod, infos)
				return []any{names(kept), busy, never}, err
			},
			"prioritize": func(e fwk.Extender) (any, error) {
				list, weight, err := e.Prioritize(pod, infos)
				return []any{list, weight}, err
			},
			"preempt": func(e fwk.Extender) (any, error) {
				got, err := e.ProcessPreemption(pod, victims, lister{infos})
				return got, err
			},
			"bind": func(e fwk.Extender) (any, error) {
				return nil, e.Bind(&v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: "n0"}})
			},
		} {
			bad := compare(t, s, p, d.answer(verb, infos, c.NodeCacheCapable), ask, fmt.Sprintf("seed %d, %s", at, verb))
			asked++
			if bad {
				failed++
			}
		}
	}
	t.Logf("%d calls each, %d of them with an error", asked, failed)
	if failed == 0 || failed > asked*2/3 {
		t.Errorf("%d of %d calls have failed: the draws show too little", failed, asked)
	}
}

// compare asks both clients and holds everything against each other.
func compare(t *testing.T, s *scribe, p pair, answer http.HandlerFunc, ask call, what string) (bad bool) {
	t.Helper()
	s.begin(answer)
	want, wantErr := ask(p.theirs)
	wantSeen := s.take()
	s.begin(answer)
	got, gotErr := ask(p.ours)
	gotSeen := s.take()
	if !reflect.DeepEqual(gotSeen, wantSeen) {
		t.Errorf("%s: our client sent\n%s\nupstream's\n%s", what, asJSON(gotSeen), asJSON(wantSeen))
	}
	if text(gotErr) != text(wantErr) {
		t.Errorf("%s: our client's error is %q, upstream's %q", what, text(gotErr), text(wantErr))
	}
	if wantErr == nil && asJSON(got) != asJSON(want) {
		t.Errorf("%s: our client has\n%s\nupstream's\n%s", what, asJSON(got), asJSON(want))
	}
	return wantErr != nil
}

// facts are what a client tells without asking.
func facts(e fwk.Extender, pod *v1.Pod) string {
	return fmt.Sprint(e.Name(), e.IsFilter(), e.IsPrioritizer(), e.IsBinder(), e.SupportsPreemption(), e.IsIgnorable(), e.IsInterested(pod))
}

// names are those of nodes; none and nothing are the same.
func names(infos []fwk.NodeInfo) []string {
	out := []string{}
	for _, n := range infos {
		out = append(out, n.Node().Name)
	}
	return out
}

func asJSON(x any) string {
	raw, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestFailuresReadAlike(t *testing.T) {
	s := newScribe(t)
	infos := draws{rand.New(rand.NewPCG(3, 5))}.nodes()
	filter := func(e fwk.Extender) (any, error) {
		_, _, _, err := e.Filter(&v1.Pod{}, infos)
		return nil, err
	}
	all := configv1.Extender{URLPrefix: s.URL, FilterVerb: "f", HTTPTimeout: metav1.Duration{Duration: 100 * time.Millisecond}, NodeCacheCapable: true}
	over := make(chan struct{})
	defer close(over)
	hang := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"hangs": hang,
		"hangs within the answer": func(w http.ResponseWriter, r *http.Request) {
			say(`{"NodeNames":[`)(w, r)
			_ = http.NewResponseController(w).Flush()
			hang(w, r)
		},
		"moved for ever": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/f", http.StatusTemporaryRedirect) },
		"moved once, as a GET": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				http.Redirect(w, r, "/g", http.StatusSeeOther)
				return
			}
			say("{}")(w, r)
		},
		"moved to nowhere": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) },
		"shorter than said": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		},
	} {
		c := all
		if name != "hangs" && name != "hangs within the answer" {
			c.HTTPTimeout.Duration = time.Minute
		}
		compare(t, s, newPair(t, c), answer, filter, name)
	}
	for name, prefix := range map[string]string{
		"no address": "", "no scheme": "localhost:1", "no such scheme": "ftp://x", "bad escape": "http://%zz", "a space": "http://a b/", "nobody there": "http://127.0.0.1:1", "TLS, where there is none": "https" + s.URL[4:],
	} {
		c := all
		c.URLPrefix, c.HTTPTimeout.Duration, c.EnableHTTPS = prefix, time.Minute, true
		compare(t, s, newPair(t, c), say("{}"), filter, name)
	}
}

// TestEmptyListsReadAlike holds what a question without nodes and victims looks like.
func TestEmptyListsReadAlike(t *testing.T) {
	s := newScribe(t)
	for _, cached := range []bool{true, false} {
		c := configv1.Extender{URLPrefix: s.URL, FilterVerb: "f", PreemptVerb: "x", NodeCacheCapable: cached}
		p := newPair(t, c)
		compare(t, s, p, say(`{}`), func(e fwk.Extender) (any, error) {
			kept, _, _, err := e.Filter(&v1.Pod{}, nil)
			return names(kept), err
		}, "filter of no nodes")
		compare(t, s, p, say(`{}`), func(e fwk.Extender) (any, error) {
			return e.ProcessPreemption(&v1.Pod{}, map[string]*extenderv1.Victims{"a": {}}, lister{})
		}, "preempt without victims")
	}
}
