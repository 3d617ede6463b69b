package bind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

// preBinderFunc is a PreBinder made of a function.
type preBinderFunc func(context.Context, *volumes.Work, time.Duration) error

func (f preBinderFunc) PreBind(ctx context.Context, w *volumes.Work, timeout time.Duration) error {
	return f(ctx, w, timeout)
}

// boundPods is a binder that remembers what it bound.
type boundPods struct {
	mu    sync.Mutex
	names []string
}

func (b *boundPods) Bind(_ context.Context, bs []objects.Binding, done func(int, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, x := range bs {
		b.names = append(b.names, x.Pod.Name)
		done(i, nil)
	}
}

func (b *boundPods) bound() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.names)
}

// working gives jobs work to do first.
func working(jobs []Job) []Job {
	for i := range jobs {
		jobs[i].Work, jobs[i].Patience = &volumes.Work{}, time.Duration(i+1)*time.Minute
	}
	return jobs
}

func TestWorkIsDoneBeforeABind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		refused := errors.New("refused")
		var mu sync.Mutex
		atOnce, most := 0, 0
		pre := preBinderFunc(func(_ context.Context, w *volumes.Work, timeout time.Duration) error {
			mu.Lock()
			atOnce++
			most = max(most, atOnce)
			mu.Unlock()
			<-time.After(timeout)
			mu.Lock()
			atOnce--
			mu.Unlock()
			if timeout == 2*time.Minute {
				return refused
			}
			return nil
		})
		binder := &boundPods{}
		r := &reports{errs: map[string][]error{}, at: map[string]time.Time{}}
		b := newCycles(binder, pre, r.take)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		ended := make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		b.Put(append(working(jobs(0, 20)), jobs(20, 22)...))
		synctest.Wait()
		if most != 20 {
			t.Errorf("works under way: got %d, want 20: none waits for another", most)
		}
		if got, want := binder.bound(), []string{"p0020", "p0021"}; !slices.Equal(got, want) {
			t.Errorf("bound at once: got %v, want %v", got, want)
		}
		elapse(time.Hour)
		for i := range 20 {
			name := fmt.Sprintf("p%04d", i)
			want, after := error(nil), time.Duration(i+1)*time.Minute
			if i == 1 {
				want = refused
			}
			if got := r.errs[name]; len(got) != 1 || !errors.Is(got[0], want) || r.at[name].Sub(begin) != after {
				t.Errorf("%s: got %v after %v, want %v once after %v", name, got, r.at[name].Sub(begin), want, after)
			}
		}
		if got, want := r.errs["p0001"][0].Error(), `running PreBind plugin "VolumeBinding": refused`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := binder.bound(); slices.Contains(got, "p0001") || len(got) != 21 {
			t.Errorf("bound: got %v, want all but p0001", got)
		}
		cancel()
		<-ended
	})
}

func TestWorkEndsWithItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		binder := &boundPods{}
		r := &reports{errs: map[string][]error{}, at: map[string]time.Time{}}
		b := newCycles(binder, preBinderFunc(func(ctx context.Context, _ *volumes.Work, _ time.Duration) error {
			<-ctx.Done()
			return ctx.Err()
		}), r.take)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		ended := make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		b.Put(working(jobs(0, 5)))
		synctest.Wait()
		cancel()
		<-ended
		if got := binder.bound(); len(r.errs) != 0 || len(got) != 0 {
			t.Errorf("got reports %v and binds %v, want none of either", r.errs, got)
		}
	})
}
