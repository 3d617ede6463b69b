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

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

// diary has what happens to jobs, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// claimWrites is a ClaimBinder that writes a diary. Its PreBind ends with err once wait is over, or with ctx.
type claimWrites struct {
	*diary
	wait time.Duration
	err  error
}

func (c claimWrites) PreBind(ctx context.Context, _ *devices.Work, profile string, patience time.Duration) error {
	c.add("claims of %s within %v", profile, patience)
	select {
	case <-time.After(c.wait):
	case <-ctx.Done():
		c.add("claims called off")
		return ctx.Err()
	}
	return c.err
}

func (c claimWrites) Undo(context.Context, *devices.Work) { c.add("undo") }

func TestClaimsAreGivenBackAfterAnyErrorBeforeTheLoopHearsOfIt(t *testing.T) {
	refused := errors.New("refused")
	waits := func(d time.Duration, err error) preBinderFunc {
		return func(ctx context.Context, _ *volumes.Work, _ time.Duration) error {
			select {
			case <-time.After(d):
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	for name, x := range map[string]struct {
		claims  claimWrites
		volumes preBinderFunc
		bind    error
		want    []string
	}{
		"a pod that is bound": {want: []string{"claims of p within 5m0s", "bind", "reported: <nil>"}},
		"a bind that fails":   {bind: refused, want: []string{"claims of p within 5m0s", "bind", "undo", "reported: refused"}},
		"a leader that is deposed leaves it to the next": {
			claims: claimWrites{err: lease.ErrDeposed},
			want:   []string{"claims of p within 5m0s", `reported: running PreBind plugin "DynamicResources": ` + lease.ErrDeposed.Error()},
		},
		"claims that can not be written": {
			claims: claimWrites{err: refused},
			want:   []string{"claims of p within 5m0s", "undo", `reported: running PreBind plugin "DynamicResources": refused`},
		},
		"volumes that fail end the wait for devices": {
			claims: claimWrites{wait: time.Hour}, volumes: waits(time.Minute, refused),
			want: []string{"claims of p within 5m0s", "claims called off", "undo", `reported: running PreBind plugin "VolumeBinding": refused`},
		},
		"devices that fail end the wait for volumes": {
			claims: claimWrites{wait: time.Minute, err: refused}, volumes: waits(time.Hour, nil),
			want: []string{"claims of p within 5m0s", "undo", `reported: running PreBind plugin "DynamicResources": refused`},
		},
		"both have their time": {
			claims: claimWrites{wait: time.Minute}, volumes: waits(2*time.Minute, nil),
			want: []string{"claims of p within 5m0s", "bind", "reported: <nil>"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				x.claims.diary = d
				binder := binderFunc(func(_ context.Context, bs []objects.Binding) []error {
					d.add("bind")
					return []error{x.bind}
				})
				c := New(Config{
					Binder: binder, Volumes: x.volumes, Claims: x.claims, Now: time.Now, Progress: func(*Job, Progress) {},
					Report: func(_ Job, err error) { d.add("reported: %v", err) },
				})
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
				ended := make(chan struct{})
				go func() { c.Run(ctx); close(ended) }()
				job := jobs(0, 1)[0]
				job.Binding.Pod.Spec.SchedulerName = "p"
				job.Claims, job.DevicesPatience = &devices.Work{}, 5*time.Minute
				if x.volumes != nil {
					job.Work = &volumes.Work{}
				}
				c.Put([]Job{job})
				elapse(2 * time.Hour)
				cancel()
				<-ended
				if !slices.Equal(d.lines, x.want) {
					t.Errorf("got %q, want %q", d.lines, x.want)
				}
			})
		})
	}
}

// What was written for claims is left to the next leader once the term has ended.
func TestNothingIsUndoneAfterTheEndOfTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		c := New(Config{
			Binder: binderFunc(func(context.Context, []objects.Binding) []error { return nil }),
			Claims: claimWrites{diary: d, wait: time.Hour}, Now: time.Now, Progress: func(*Job, Progress) {},
			Report: func(_ Job, err error) { d.add("reported: %v", err) },
		})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		ended := make(chan struct{})
		go func() { c.Run(ctx); close(ended) }()
		job := jobs(0, 1)[0]
		job.Claims = &devices.Work{}
		c.Put([]Job{job})
		synctest.Wait()
		cancel()
		<-ended
		if want := []string{"claims of default-scheduler within 0s", "claims called off"}; !slices.Equal(d.lines, want) {
			t.Errorf("got %q, want %q", d.lines, want)
		}
	})
}
