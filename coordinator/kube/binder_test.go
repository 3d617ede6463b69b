package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// waits is a clock on which no wait takes any time; it keeps them.
type waits struct {
	mu  sync.Mutex
	all []time.Duration
}

func (w *waits) after(d time.Duration) <-chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, d)
	c := make(chan time.Time, 1)
	c <- time.Time{}
	return c
}

// bindOne binds pod a to n1.
func bindOne(ctx context.Context, b *kube.Binder) error {
	var out error
	b.Bind(ctx, []objects.Binding{{Pod: pod("a"), Node: "n1"}}, func(_ int, err error) { out = err })
	return out
}

func TestWhatBecomesOfABind(t *testing.T) {
	taken := conflict(`Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"`)
	unbound := script(found(pod("a")))
	for name, c := range map[string]struct {
		writes, reads func(seen) reply
		want          error // nil and text empty: bound
		text          string
		requests      string // P: POST, G: GET
		wait          time.Duration
	}{
		"it is made":                                   {writes: script(created()), reads: never, requests: "P"},
		"the pod is gone":                              {writes: script(gone("pods")), reads: never, want: objects.ErrNotFound, requests: "P"},
		"a proxy does not know the path":               {writes: script(reply{code: 404, raw: "nothing here"}), reads: unbound, text: "answered 404: nothing here", requests: "PG"},
		"it was there already":                         {writes: script(taken), reads: script(found(pod("a", on("n1")))), requests: "PG"},
		"another node was faster":                      {writes: script(taken), reads: script(found(pod("a", on("n2")))), want: objects.ErrAlreadyBound, text: "to n2", requests: "PG"},
		"another pod has the name":                     {writes: script(conflict("Precondition failed: UID in precondition")), reads: script(found(pod("a", withUID("other")))), want: objects.ErrNotFound, text: "replaced by other", requests: "PG"},
		"another pod has the name, and is bound there": {writes: script(conflict("Precondition failed")), reads: script(found(pod("a", withUID("other"), on("n1")))), want: objects.ErrNotFound, requests: "PG"},
		"the pod is being deleted":                     {writes: script(conflict("pod a is being deleted, cannot be assigned to a host")), reads: script(found(pod("a", deleted))), want: objects.ErrConflict, text: "being deleted", requests: "PG"},
		"the pod is gated":                             {writes: script(conflict("pod a has non-empty .spec.schedulingGates")), reads: script(found(pod("a", gated))), want: objects.ErrConflict, text: "gates", requests: "PG"},
		"it is forbidden":                              {writes: script(forbidden()), reads: unbound, text: "answered 403: no", requests: "PG"},
		"all is forbidden":                             {writes: script(forbidden()), reads: script(forbidden()), text: "answered 403: no", requests: "PG"},
		"a webhook fails":                              {writes: script(internal(`failed calling webhook "x": context deadline exceeded`)), reads: unbound, text: "answered 500", requests: "PG"},
		"the API server is busy":                       {writes: script(tooMany("7"), created()), reads: never, requests: "PP", wait: 7 * time.Second},
		"the API server is busy and does not say":      {writes: script(tooMany(""), created()), reads: never, requests: "PP", wait: 100 * time.Millisecond},
		"the answer is lost, the bind is made":         {writes: script(lost()), reads: script(found(pod("a", on("n1")))), requests: "PG"},
		"the answer is lost, the bind is not made":     {writes: script(lost(), created()), reads: unbound, requests: "PGP", wait: 100 * time.Millisecond},
		"the answer is lost, the bind is made late":    {writes: script(lost(), taken), reads: script(found(pod("a")), found(pod("a", on("n1")))), requests: "PGPG", wait: 100 * time.Millisecond},
		"the answer is lost, then it is forbidden and made late": {
			writes: script(lost(), forbidden()), reads: script(found(pod("a")), found(pod("a")), found(pod("a", on("n1")))), requests: "PGPGPG", wait: 100 * time.Millisecond,
		},
		"the answer is lost, the pod is gone":      {writes: script(lost()), reads: script(gone("pods")), want: objects.ErrNotFound, requests: "PG"},
		"the answer is lost, another was faster":   {writes: script(lost()), reads: script(found(pod("a", on("n2")))), want: objects.ErrAlreadyBound, requests: "PG"},
		"etcd times out":                           {writes: script(internal("etcdserver: request timed out"), created()), reads: unbound, requests: "PGP", wait: 100 * time.Millisecond},
		"it is unavailable, then there":            {writes: script(unavailable(), created()), reads: script(unavailable()), requests: "PGP", wait: 100 * time.Millisecond},
		"a gateway answers":                        {writes: script(reply{code: 502, raw: "<html>"}, created()), reads: unbound, requests: "PGP", wait: 100 * time.Millisecond},
		"it stays open":                            {writes: script(unavailable()), reads: unbound, want: objects.ErrUnknown, text: "after 10 tries", requests: strings.Repeat("PG", 10), wait: 100 * time.Millisecond},
		"it stays busy, so others have their turn": {writes: script(tooMany("1")), reads: never, want: objects.ErrUnknown, requests: strings.Repeat("P", 10), wait: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, posts(c.writes, c.reads))
			var w waits
			err := bindOne(t.Context(), kube.NewBinder(kube.BinderConfig{Clients: a.clients(), After: w.after}))
			wantBindError(t, err, c.want, c.text)
			var got strings.Builder
			for _, s := range a.all() {
				got.WriteByte(s.method[0])
			}
			if got.String() != c.requests {
				t.Errorf("requests: got %s, want %s", got.String(), c.requests)
			}
			if c.wait != 0 && (len(w.all) == 0 || w.all[0] != c.wait) || c.wait == 0 && len(w.all) != 0 {
				t.Errorf("waits: got %v, want the first to be %v", w.all, c.wait)
			}
		})
	}
}

func wantBindError(t *testing.T, err, want error, text string) {
	t.Helper()
	if want == nil && text == "" {
		if err != nil {
			t.Errorf("error: got %v, want none", err)
		}
		return
	}
	if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Fatalf("error: got %v, want one that wraps %v and has %q", err, want, text)
	}
	if !strings.HasPrefix(err.Error(), "bind pod default/a to n1: ") {
		t.Errorf("error: got %v, want pod and node to be named", err)
	}
	if want == nil {
		for _, other := range []error{objects.ErrUnknown, objects.ErrNotFound, objects.ErrAlreadyBound, objects.ErrConflict, lease.ErrDeposed} {
			if errors.Is(err, other) {
				t.Errorf("error: got %v, want none that wraps %v", err, other)
			}
		}
	}
}

func TestABindNamesItsPodByUID(t *testing.T) {
	a := newAPI(t, script(created()))
	if err := bindOne(t.Context(), kube.NewBinder(kube.BinderConfig{Clients: a.clients()})); err != nil {
		t.Fatal(err)
	}
	all := a.all()
	if len(all) != 1 {
		t.Fatalf("requests: got %s, want one", a.log())
	}
	if got, want := all[0].String(), "POST /api/v1/namespaces/default/pods/a/binding"; got != want {
		t.Errorf("request: got %s, want %s", got, want)
	}
	if got, want := all[0].header.Get("User-Agent"), "shardsched/test (linux/amd64)/scheduler"; got != want {
		t.Errorf("user agent: got %q, want %q", got, want)
	}
	got := decode[v1.Binding](t, all[0].body)
	if got.Kind != "Binding" || got.Namespace != "default" || got.Name != "a" || got.UID != "uid-a" || got.ResourceVersion != "" ||
		got.Target.Kind != "Node" || got.Target.Name != "n1" {
		t.Errorf("binding: got %+v, want pod default/a of uid-a on Node n1, of any version", got)
	}
}

func TestABindThatCanNotReachTheAPIServerWaits(t *testing.T) {
	a := newAPI(t, script(created()))
	var down atomic.Int32
	down.Store(3)
	clients := a.clients(func(c *kube.ClientConfig) {
		c.REST.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if down.Add(-1) >= 0 {
				return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	var w waits
	if err := bindOne(t.Context(), kube.NewBinder(kube.BinderConfig{Clients: clients, After: w.after})); err != nil {
		t.Fatalf("bind: %v", err)
	}
	want := "[100ms 200ms 400ms]"
	if got := fmt.Sprint(w.all); got != want {
		t.Errorf("waits: got %v, want %v: nothing was sent, so nothing is looked for", got, want)
	}
}

func TestASlowBindHoldsUpNoOther(t *testing.T) {
	release := make(chan struct{})
	a := newAPI(t, func(s seen) reply {
		r := created()
		if strings.Contains(s.path, "/slow/") {
			r.before = func() { <-release }
		}
		return r
	})
	b := kube.NewBinder(kube.BinderConfig{Clients: a.clients(), InFlight: 2})
	bindings := []objects.Binding{{Pod: pod("slow"), Node: "n1"}}
	for i := range 20 {
		bindings = append(bindings, objects.Binding{Pod: pod(fmt.Sprint("p", i)), Node: "n1"})
	}
	outcomes, ended := make(chan int, len(bindings)), make(chan struct{})
	go func() {
		defer close(ended)
		b.Bind(t.Context(), bindings, func(i int, err error) {
			if err != nil {
				t.Errorf("binding %d: %v", i, err)
			}
			outcomes <- i
		})
	}()
	for range 20 {
		if i := <-outcomes; i == 0 {
			t.Fatal("the slow bind came before the others")
		}
	}
	if !b.Busy() {
		t.Error("busy: got false while a bind is under way")
	}
	close(release)
	if i := <-outcomes; i != 0 {
		t.Errorf("last outcome: got %d, want 0", i)
	}
	<-ended
	if b.Busy() {
		t.Error("busy: got true after all")
	}
}

func TestABindWhoseCallerGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		answer reply
		want   []error
		not    []error
	}{
		"while it is open":            {unavailable(), []error{objects.ErrUnknown, context.Canceled}, nil},
		"while it is refused for now": {tooMany("5"), []error{context.Canceled}, []error{objects.ErrUnknown}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			a := newAPI(t, posts(script(c.answer), script(found(pod("a")))))
			b := kube.NewBinder(kube.BinderConfig{Clients: a.clients(), After: func(time.Duration) <-chan time.Time {
				cancel()
				return nil
			}})
			err := bindOne(ctx, b)
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("error: got %v, want one that wraps %v", err, want)
				}
			}
			for _, not := range c.not {
				if errors.Is(err, not) {
					t.Errorf("error: got %v, want none that wraps %v", err, not)
				}
			}
		})
	}
}

// Users are told what the API server said, and no node: the next try is on another one, and
// would be news each time.
func TestWhatUsersAreToldOfABind(t *testing.T) {
	for name, c := range map[string]struct {
		writes, reads func(seen) reply
		want          string
	}{
		"it is refused": {script(forbidden()), script(found(pod("a"))), "no"},
		"it is gated":   {script(conflict("pod a is gated")), script(found(pod("a", gated))), "pod a is gated"},
	} {
		a := newAPI(t, posts(c.writes, c.reads))
		err := bindOne(t.Context(), kube.NewBinder(kube.BinderConfig{Clients: a.clients()}))
		var refused *kube.BindError
		if !errors.As(err, &refused) || refused.Told() != c.want {
			t.Errorf("%s: got %v, want a BindError that tells %q", name, err, c.want)
		}
	}
}
