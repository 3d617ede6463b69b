package extender_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/shardsched/shardsched/coordinator/extender"
)

func TestFilterSendsNamesOrNodes(t *testing.T) {
	for _, cached := range []bool{true, false} {
		t.Run("nodeCacheCapable="+strconv.FormatBool(cached), func(t *testing.T) {
			s := serve(t, text(`{"NodeNames":["b"],"Nodes":{"items":[{"metadata":{"name":"b"}}]},"FailedNodes":{"a":"busy"},"FailedAndUnresolvableNodes":{"c":"never"}}`))
			c := everything(s.URL)
			c.NodeCacheCapable = cached
			got, err := client(t, c).FilterNodes(t.Context(), pod("p"), nodes("a", "b", "c"))
			if err != nil {
				t.Fatal(err)
			}
			want := &extender.Filtered{
				Kept:         []int{1},
				Failed:       extenderv1.FailedNodesMap{"a": "busy"},
				Unresolvable: extenderv1.FailedNodesMap{"c": "never"},
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("filter is %+v, want %+v", got, want)
			}
			asked := s.all()
			if len(asked) != 1 || asked[0].method != http.MethodPost || asked[0].path != "/f" || asked[0].contentType != "application/json" {
				t.Fatalf("asked %+v, want one POST of /f with JSON", asked)
			}
			body := fields(t, asked[0].body)
			if cached && (body["Nodes"] != nil || !reflect.DeepEqual(body["NodeNames"], []any{"a", "b", "c"})) {
				t.Errorf("sent Nodes %v and NodeNames %v, want the names alone", body["Nodes"], body["NodeNames"])
			}
			if !cached && (body["NodeNames"] != nil || len(body["Nodes"].(map[string]any)["items"].([]any)) != 3) {
				t.Errorf("sent Nodes %v and NodeNames %v, want 3 nodes alone", body["Nodes"], body["NodeNames"])
			}
		})
	}
}

func TestFilterAnswers(t *testing.T) {
	const unknown = `claims a filtered node "z" which is not found in the input node list`
	for _, c := range []struct {
		name, answer string
		cached       bool
		kept         []int
		err          string
	}{
		{"in the order named", `{"NodeNames":["c","a"]}`, true, []int{2, 0}, ""},
		{"named twice", `{"NodeNames":["c","c"]}`, true, []int{2}, ""},
		{"nothing", `{}`, true, nil, ""},
		{"no names, but nodes", `{"Nodes":{"items":[{"metadata":{"name":"a"}}]}}`, true, []int{0}, ""},
		{"names before nodes", `{"NodeNames":[],"Nodes":{"items":[{"metadata":{"name":"a"}}]}}`, true, nil, ""},
		{"names, without a cache", `{"NodeNames":["a"]}`, false, nil, ""},
		{"fields in other case, and others", `{"nodenames":["b"],"extra":{"x":[1]}}`, true, []int{1}, ""},
		{"something behind", `{"NodeNames":["b"]} trailing`, true, []int{1}, ""},
		{"unknown name", `{"NodeNames":["a","z"]}`, true, nil, unknown},
		{"unknown node", `{"Nodes":{"items":[{"metadata":{"name":"z"}}]}}`, false, nil, unknown},
		{"error", `{"NodeNames":["a"],"Error":"out of order"}`, true, nil, "out of order"},
		{"empty", ``, true, nil, "EOF"},
		{"cut", `{"NodeNames":[`, true, nil, "unexpected EOF"},
		{"not JSON", `<html>`, true, nil, "invalid character '<' looking for beginning of value"},
		{"wrong type", `{"NodeNames":"a"}`, true, nil, "json: cannot unmarshal string into Go struct field ExtenderFilterResult.NodeNames of type []string"},
		{"a list", `[]`, true, nil, "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := everything(serve(t, text(c.answer)).URL)
			x.NodeCacheCapable = c.cached
			got, err := client(t, x).FilterNodes(t.Context(), pod("p"), nodes("a", "b", "c"))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error is %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got.Kept, c.kept) {
				t.Errorf("kept %v (%v), want %v", got, err, c.kept)
			}
		})
	}
}

func TestPrioritizeScores(t *testing.T) {
	s := serve(t, text(`[{"Host":"b","Score":7},{"Host":"nobody","Score":-2}]`))
	e := client(t, everything(s.URL))
	got, err := e.Scores(t.Context(), pod("p"), nodes("a", "b"))
	if want := (extenderv1.HostPriorityList{{Host: "b", Score: 7}, {Host: "nobody", Score: -2}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("scores are %v (%v), want %v", got, err, want)
	}
	if got := e.Weigh(7); got != 210 {
		t.Errorf("7 of 10 with weight 3 adds %d, want 210", got)
	}
	if asked := s.all(); len(asked) != 1 || asked[0].path != "/p" {
		t.Errorf("asked %+v, want /p", asked)
	}
}

func TestWithoutVerbNothingIsAsked(t *testing.T) {
	s := serve(t, text(`{}`))
	e := client(t, configv1.Extender{URLPrefix: s.URL})
	f, err := e.FilterNodes(t.Context(), pod("p"), nodes("a", "b"))
	if err != nil || !reflect.DeepEqual(f.Kept, []int{0, 1}) {
		t.Errorf("filter is %+v (%v), want all nodes", f, err)
	}
	list, err := e.Scores(t.Context(), pod("p"), nodes("a"))
	if want := (extenderv1.HostPriorityList{{Host: "a"}}); err != nil || !reflect.DeepEqual(list, want) {
		t.Errorf("scores are %v (%v), want %v", list, err, want)
	}
	if err := e.BindPod(t.Context(), pod("p"), "a"); err == nil || err.Error() != "unexpected empty bindVerb in extender" {
		t.Errorf("bind is %v, want an error", err)
	}
	_, err = e.Victims(t.Context(), pod("p"), nil, nil)
	if want := "preempt verb is not defined for extender " + s.URL + " but run into ProcessPreemption"; err == nil || err.Error() != want {
		t.Errorf("preempt is %v, want %q", err, want)
	}
	if asked := s.all(); len(asked) != 0 {
		t.Errorf("asked %+v, want nothing", asked)
	}
}

// An error that an extender words is kept with the pod's decision: so much of it is.
func TestTheErrorsOfAnExtenderAreBounded(t *testing.T) {
	const most = 1 << 10
	long := strings.Repeat("é", most)
	for name, answer := range map[string]string{"error": `{"Error":"` + long + `"}`, "unknown name": `{"NodeNames":["` + long + `"]}`} {
		x := client(t, everything(serve(t, text(answer)).URL))
		_, err := x.FilterNodes(t.Context(), pod("p"), nodes("a"))
		if err == nil || len(err.Error()) > most+200 || !strings.Contains(err.Error(), "é…") || !utf8.ValidString(err.Error()) {
			t.Errorf("%s: got an error of %d bytes, want one that is cut", name, len(fmt.Sprint(err)))
		}
		if err := x.BindPod(t.Context(), pod("p"), "n"); name == "error" && (err == nil || len(err.Error()) > most+200) {
			t.Errorf("bind: got an error of %d bytes, want one that is cut", len(fmt.Sprint(err)))
		}
	}
}

func TestBind(t *testing.T) {
	s := serve(t, text(`{}`))
	if err := client(t, everything(s.URL)).BindPod(t.Context(), pod("p"), "n"); err != nil {
		t.Fatal(err)
	}
	if got, want := s.all()[0].body, `{"PodName":"p","PodNamespace":"ns","PodUID":"uid-p","Node":"n"}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	s = serve(t, text(`{"Error":"no such pod"}`))
	if err := client(t, everything(s.URL)).BindPod(t.Context(), pod("p"), "n"); err == nil || err.Error() != "no such pod" {
		t.Errorf("error is %v, want the extender's", err)
	}
}

func TestPreempt(t *testing.T) {
	victim, other := pod("victim"), pod("other")
	on := func(node string) ([]*v1.Pod, error) {
		if node == "z" {
			return nil, errors.New("no z")
		}
		return []*v1.Pod{other, victim}, nil
	}
	offered := map[string]*extenderv1.Victims{"a": {Pods: []*v1.Pod{victim}, NumPDBViolations: 1}, "b": {Pods: []*v1.Pod{victim}}}
	for _, c := range []struct{ name, answer, err string }{
		{"fewer nodes, other victims", `{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"uid-other"}],"NumPDBViolations":2}}}`, ""},
		{"a victim twice", `{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"uid-other"},{"UID":"uid-other"}],"NumPDBViolations":2}}}`, ""},
		{"unknown node", `{"NodeNameToMetaVictims":{"z":{}}}`, "no z"},
		{"unknown pod", `{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"x"}]}}}`, "claims to preempt pod (UID: &{x}) on node: a, but the pod is not found on that node"},
		{"no pod", `{"NodeNameToMetaVictims":{"a":{"Pods":[null]}}}`, "but the pod is not found on that node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := client(t, everything(serve(t, text(c.answer)).URL)).Victims(t.Context(), pod("p"), offered, on)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error is %v, want %q", err, c.err)
				}
				return
			}
			want := map[string]*extenderv1.Victims{"a": {Pods: []*v1.Pod{other}, NumPDBViolations: 2}}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("victims are %v (%v), want %v", got, err, want)
			}
		})
	}
	t.Run("no victims", func(t *testing.T) {
		got, err := client(t, everything(serve(t, text(`{"NodeNameToMetaVictims":{"a":null,"b":{}}}`)).URL)).Victims(t.Context(), pod("p"), offered, on)
		if err != nil || len(got) != 2 || len(got["a"].Pods)+len(got["b"].Pods) != 0 {
			t.Errorf("victims are %v (%v), want none on a and b", got, err)
		}
	})
}

func TestPreemptSendsUIDsOrPods(t *testing.T) {
	for _, cached := range []bool{true, false} {
		s := serve(t, text(`{}`))
		c := everything(s.URL)
		c.NodeCacheCapable = cached
		if _, err := client(t, c).Victims(t.Context(), pod("p"), map[string]*extenderv1.Victims{"a": {Pods: []*v1.Pod{pod("v")}, NumPDBViolations: 1}}, nil); err != nil {
			t.Fatal(err)
		}
		body := fields(t, s.all()[0].body)
		if cached != (body["NodeNameToVictims"] == nil) || cached == (body["NodeNameToMetaVictims"] == nil) {
			t.Errorf("nodeCacheCapable=%v: sent %s", cached, s.all()[0].body)
		}
		if cached {
			want := map[string]any{"a": map[string]any{"Pods": []any{map[string]any{"UID": "uid-v"}}, "NumPDBViolations": 1.0}}
			if !reflect.DeepEqual(body["NodeNameToMetaVictims"], want) {
				t.Errorf("sent %v, want %v", body["NodeNameToMetaVictims"], want)
			}
		}
	}
}

func TestStatusOtherThan200IsAnError(t *testing.T) {
	for _, code := range []int{201, 204, 400, 404, 500, 503} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		_, err := client(t, everything(s.URL)).FilterNodes(t.Context(), pod("p"), nodes("a"))
		if want := "failed f with extender at URL " + s.URL + "/f, code " + strconv.Itoa(code); err == nil || err.Error() != want {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

func TestConnectionIsUsedAgainAfterAnError(t *testing.T) {
	from := make(chan string, 3)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from <- r.RemoteAddr
		w.WriteHeader(http.StatusInternalServerError)
		for range 2 {
			_, _ = w.Write(make([]byte, 10<<10))
			_ = http.NewResponseController(w).Flush()
		}
	})
	e := client(t, everything(s.URL))
	for range cap(from) {
		if err := e.BindPod(t.Context(), pod("p"), "a"); err == nil {
			t.Fatal("no error")
		}
	}
	first := <-from
	for range cap(from) - 1 {
		if next := <-from; next != first {
			t.Errorf("call comes from %s, want %s as the first", next, first)
		}
	}
}

func TestSlowExtenderTimesOut(t *testing.T) {
	over := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	defer close(over)
	c := everything(s.URL)
	c.HTTPTimeout.Duration = 20 * time.Millisecond
	_, err := client(t, c).FilterNodes(t.Context(), pod("p"), nodes("a"))
	if err == nil || !strings.Contains(err.Error(), "Client.Timeout exceeded while awaiting headers") {
		t.Errorf("error is %v, want a timeout", err)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := client(t, everything(s.URL)).FilterNodes(ctx, pod("p"), nodes("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
}

func TestRedirects(t *testing.T) {
	for _, c := range []struct {
		code   int
		method string
	}{{http.StatusTemporaryRedirect, http.MethodPost}, {http.StatusPermanentRedirect, http.MethodPost}, {http.StatusFound, http.MethodGet}} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/f" {
				http.Redirect(w, r, "/moved", c.code)
				return
			}
			text(`{"NodeNames":["a"]}`)(w, r)
		})
		f, err := client(t, everything(s.URL)).FilterNodes(t.Context(), pod("p"), nodes("a"))
		if err != nil || len(f.Kept) != 1 {
			t.Fatalf("%d: filter is %v (%v), want a kept", c.code, f, err)
		}
		asked := s.all()
		if got := asked[1]; got.method != c.method || got.path != "/moved" || (got.body == asked[0].body) != (c.method == http.MethodPost) {
			t.Errorf("%d: went on with %+v, want %s of the same body where it is a POST", c.code, got, c.method)
		}
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	})
	_, err := client(t, everything(s.URL)).FilterNodes(t.Context(), pod("p"), nodes("a"))
	if err == nil || !strings.Contains(err.Error(), "stopped after 10 redirects") {
		t.Errorf("error is %v, want an end of redirects", err)
	}
}

func TestInterest(t *testing.T) {
	limited := pod("limited")
	limited.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/foo": resource.MustParse("0")}
	initial := pod("initial")
	initial.Spec.InitContainers = pod("x", "example.com/foo").Spec.Containers
	overhead := pod("overhead")
	overhead.Spec.Overhead = v1.ResourceList{"example.com/foo": resource.MustParse("1")}
	managing := client(t, configv1.Extender{ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/bar"}, {Name: "example.com/foo"}}})
	all := client(t, configv1.Extender{})
	for _, c := range []struct {
		pod  *v1.Pod
		want bool
	}{
		{pod("requests", "cpu", "example.com/foo"), true}, {limited, true}, {initial, true},
		{pod("others", "cpu", "example.com/baz"), false}, {pod("none"), false}, {overhead, false},
	} {
		if got := managing.IsInterested(c.pod); got != c.want {
			t.Errorf("interest in pod %q is %v, want %v", c.pod.Name, got, c.want)
		}
		if !all.IsInterested(c.pod) {
			t.Errorf("an extender without resources is not interested in pod %q", c.pod.Name)
		}
	}
}

func TestIgnorableOnesAreLast(t *testing.T) {
	list, err := extender.NewAll([]configv1.Extender{
		{URLPrefix: "http://a", Ignorable: true}, {URLPrefix: "http://b"}, {URLPrefix: "http://c", Ignorable: true}, {URLPrefix: "http://d"},
	}, extender.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if want := []string{"http://b", "http://d", "http://a", "http://c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("order is %v, want %v", got, want)
	}
	for _, c := range []struct {
		tls  configv1.ExtenderTLSConfig
		want string
	}{
		{configv1.ExtenderTLSConfig{CAFile: "/does/not/exist"}, "couldn't build extenders: extenders[1].tlsConfig: open /does/not/exist: "},
		{configv1.ExtenderTLSConfig{Insecure: true, CAFile: "/does/not/exist"},
			"couldn't build extenders: extenders[1].tlsConfig: specifying a root certificates file with the insecure flag is not allowed"},
	} {
		_, err = extender.NewAll([]configv1.Extender{{}, {TLSConfig: &c.tls}}, extender.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("error is %v, want %s", err, c.want)
		}
	}
}

func TestLabelHidesSecrets(t *testing.T) {
	e := client(t, configv1.Extender{URLPrefix: "https://me:secret@host/x?token=y"})
	if got, want := e.Label(), "https://me:xxxxx@host/x"; got != want {
		t.Errorf("label is %q, want %q", got, want)
	}
}

func TestErrorsHideSecrets(t *testing.T) {
	on := func(string) ([]*v1.Pod, error) { return nil, nil }
	offered := map[string]*extenderv1.Victims{"a": {}}
	for answer, ask := range map[string]func(*extender.Extender) error{
		`{"NodeNames":["z"]}`: func(e *extender.Extender) error {
			_, err := e.FilterNodes(t.Context(), pod("p"), nodes("a"))
			return err
		},
		`{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"x"}]}}}`: func(e *extender.Extender) error {
			_, err := e.Victims(t.Context(), pod("p"), offered, on)
			return err
		},
		"": func(e *extender.Extender) error { return e.BindPod(t.Context(), pod("p"), "a") },
	} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if answer == "" {
				w.WriteHeader(http.StatusInternalServerError)
			}
			text(answer)(w, r)
		})
		err := ask(client(t, everything(strings.Replace(s.URL, "http://", "http://me:secret@", 1))))
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "http://me:xxxxx@") {
			t.Errorf("answer %q: error is %v, want one without the password", answer, err)
		}
	}
}

// counts is a Meter.
type counts struct {
	began, ended chan extender.Verb
	errs         chan error
}

func (c *counts) Began(v extender.Verb) { c.began <- v }
func (c *counts) Ended(v extender.Verb, _ time.Duration, err error) {
	c.ended <- v
	c.errs <- err
}

func TestCallsTakeTurnsVerbByVerb(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/f" {
			arrived <- struct{}{}
			<-leave
		}
		text(`{}`)(w, r)
	})
	m := &counts{make(chan extender.Verb, 10), make(chan extender.Verb, 10), make(chan error, 10)}
	c := everything(s.URL)
	e, err := extender.New(&c, extender.Options{InFlight: 2, Meter: func(string) extender.Meter { return m }})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for range 3 {
		go func() {
			_, err := e.FilterNodes(t.Context(), pod("p"), nodes("a"))
			done <- err
		}()
	}
	<-arrived
	<-arrived
	// The third waits; a bind does not.
	if err := e.BindPod(t.Context(), pod("p"), "a"); err != nil {
		t.Fatal(err)
	}
	if n := len(m.began); n != 3 {
		t.Errorf("%d calls have begun, want 2 filters and a bind", n)
	}
	leave <- struct{}{}
	<-arrived
	leave <- struct{}{}
	leave <- struct{}{}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if b, x := len(m.began), len(m.ended); b != 4 || x != 4 {
		t.Errorf("%d calls have begun and %d ended, want 4", b, x)
	}
}

func TestMeterIsToldOfErrors(t *testing.T) {
	m := &counts{make(chan extender.Verb, 1), make(chan extender.Verb, 1), make(chan error, 1)}
	c := everything(serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }).URL)
	e, err := extender.New(&c, extender.Options{Meter: func(string) extender.Meter { return m }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Scores(t.Context(), pod("p"), nodes("a")); err == nil {
		t.Error("no error")
	}
	if v, err := <-m.ended, <-m.errs; v != extender.Prioritize || err == nil {
		t.Errorf("told of %v and %v, want prioritize and an error", v, err)
	}
}
