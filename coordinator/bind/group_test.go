package bind

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// elapse lets the clock of a synctest bubble go on, and everybody in it do what is due.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// binderFunc is a Binder made of a function.
type binderFunc func(context.Context, []objects.Binding) []error

func (f binderFunc) Bind(ctx context.Context, bs []objects.Binding, done func(int, error)) {
	for i, err := range f(ctx, bs) {
		done(i, err)
	}
}

// reports takes in what cycles tell the loop.
type reports struct {
	mu   sync.Mutex
	errs map[string][]error
	at   map[string]time.Time
}

func (r *reports) take(j Job, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := j.Binding.Pod.Name
	r.errs[name] = append(r.errs[name], err)
	r.at[name] = time.Now()
}

// newCycles makes cycles without plugins.
func newCycles(b Binder, p PreBinder, report func(Job, error)) *Cycles {
	return New(Config{Binder: b, Volumes: p, Now: time.Now, Report: report, Progress: func(*Job, Progress) {}})
}

// startCycles runs cycles until the test ends.
func startCycles(ctx context.Context, t *testing.T, b Binder) (*Cycles, *reports) {
	r := &reports{errs: map[string][]error{}, at: map[string]time.Time{}}
	x := newCycles(b, nil, r.take)
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	ended := make(chan struct{})
	go func() { x.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return x, r
}

func jobs(from, to int) []Job {
	var out []Job
	for i := from; i < to; i++ {
		out = append(out, Job{Binding: objects.Binding{Pod: build.Pod(fmt.Sprintf("p%04d", i)).Obj(), Node: "n"}})
	}
	return out
}

func TestBindsGoInGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		atOnce, most := 0, 0
		gate := make(chan struct{})
		b, r := startCycles(t.Context(), t, binderFunc(func(_ context.Context, bs []objects.Binding) []error {
			mu.Lock()
			sizes = append(sizes, len(bs))
			atOnce++
			most = max(most, atOnce)
			mu.Unlock()
			<-gate
			mu.Lock()
			atOnce--
			mu.Unlock()
			return make([]error, len(bs))
		}))
		b.Put(jobs(0, 950))
		synctest.Wait()
		if most != DefaultCalls {
			t.Errorf("commits under way: got %d, want %d", most, DefaultCalls)
		}
		close(gate)
		synctest.Wait()
		slices.Sort(sizes)
		if want := []int{50, 100, 100, 100, 100, 100, 100, 100, 100, 100}; !slices.Equal(sizes, want) {
			t.Errorf("groups: got %v, want %v", sizes, want)
		}
		if len(r.errs) != 950 {
			t.Errorf("reported: got %d jobs, want 950", len(r.errs))
		}
	})
}

func TestOneBindDoesNotWaitForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		b, r := startCycles(t.Context(), t, binderFunc(func(_ context.Context, bs []objects.Binding) []error {
			return make([]error, len(bs))
		}))
		for i := range 5 {
			b.Put(jobs(i, i+1))
			synctest.Wait()
			if len(r.errs) != i+1 || time.Since(begin) != 0 {
				t.Fatalf("got %d reported after %v, want %d at once", len(r.errs), time.Since(begin), i+1)
			}
		}
	})
}

func TestABindWithoutAnOutcomeIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		refused := errors.New("refused")
		unknown := fmt.Errorf("bind: %w", objects.ErrUnknown)
		var asked [][]string
		b, r := startCycles(t.Context(), t, binderFunc(func(_ context.Context, bs []objects.Binding) []error {
			var names []string
			errs := make([]error, len(bs))
			for i := range bs {
				name := bs[i].Pod.Name
				names = append(names, name)
				switch {
				case name == "p0002":
					errs[i] = refused
				case name != "p0000" && len(asked) < 2:
					errs[i] = unknown
				case name == "p0003" && len(asked) < 3:
					errs[i] = unknown
				}
			}
			asked = append(asked, names)
			return errs
		}))
		b.Put(jobs(0, 4))
		elapse(10 * openWait)
		want := [][]string{{"p0000", "p0001", "p0002", "p0003"}, {"p0001", "p0003"}, {"p0001", "p0003"}, {"p0003"}}
		if !slices.EqualFunc(asked, want, slices.Equal) {
			t.Errorf("asked: got %v, want %v", asked, want)
		}
		for name, want := range map[string]struct {
			err   error
			after time.Duration
		}{"p0000": {nil, 0}, "p0001": {nil, 3 * openWait}, "p0002": {refused, 0}, "p0003": {nil, 7 * openWait}} {
			got := r.errs[name]
			if len(got) != 1 || !errors.Is(got[0], want.err) || r.at[name].Sub(begin) != want.after {
				t.Errorf("%s: got %v after %v, want %v once after %v", name, got, r.at[name].Sub(begin), want.err, want.after)
			}
		}
	})
}

func TestNothingIsBoundOrReportedAfterTheEnd(t *testing.T) {
	for name, answer := range map[string]func(context.Context) error{
		"a bind that hangs until the end":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"a bind without an outcome so far": func(context.Context) error { return objects.ErrUnknown },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				calls := 0
				var mu sync.Mutex
				b, r := startCycles(ctx, t, binderFunc(func(ctx context.Context, bs []objects.Binding) []error {
					mu.Lock()
					calls++
					mu.Unlock()
					err := answer(ctx)
					errs := make([]error, len(bs))
					for i := range errs {
						errs[i] = err
					}
					return errs
				}))
				b.Put(jobs(0, 1000))
				synctest.Wait()
				before := calls
				cancel()
				b.Put(jobs(1000, 2000))
				elapse(time.Minute)
				if calls != before {
					t.Errorf("got %d calls, want the %d from before the end", calls, before)
				}
				if len(r.errs) != 0 {
					t.Errorf("got reports of %v, want none", slices.Sorted(maps.Keys(r.errs)))
				}
			})
		})
	}
}

// Any number of goroutines put, and each job is reported once.
func TestEveryBindIsReportedOnce(t *testing.T) {
	const putters, each = 8, 500
	all := make(chan struct{})
	left := putters * each
	counts := map[string]int{}
	var mu sync.Mutex
	b := newCycles(binderFunc(func(_ context.Context, bs []objects.Binding) []error {
		return make([]error, len(bs))
	}), nil, func(j Job, _ error) {
		mu.Lock()
		defer mu.Unlock()
		counts[j.Binding.Pod.Name]++
		if left--; left == 0 {
			close(all)
		}
	})
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var wg sync.WaitGroup
	wg.Go(func() { b.Run(ctx) })
	for i := range putters {
		wg.Go(func() {
			for k := range each {
				b.Put(jobs(i*each+k, i*each+k+1))
			}
		})
	}
	<-all
	cancel()
	wg.Wait()
	if len(counts) != putters*each {
		t.Errorf("got %d jobs, want %d", len(counts), putters*each)
	}
	for name, n := range counts {
		if n != 1 {
			t.Errorf("%s: got %d reports, want one", name, n)
		}
	}
}
