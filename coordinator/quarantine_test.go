package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/quarantine"
	"github.com/shardsched/shardsched/internal/testkit/build"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// poisoned is a trial whose pods with the label poison meet a bug.
type poisoned struct {
	*trial
	registry *prometheus.Registry
	now      time.Time
	mended   bool
	bad      map[uint64]bool // classes of pods with the label
	// met is how often the bug was.
	met int
}

// newPoisoned has the bug met where it says: at compiling, at evaluating on all that are asked, or when the
// loop looks at the answer.
func newPoisoned(t *testing.T, where string) *poisoned {
	x := &poisoned{registry: prometheus.NewRegistry(), now: epoch, bad: map[uint64]bool{}}
	x.trial = newTrial(t, SchedulerConfig{
		Shards: 2, Registerer: x.registry, Groups: groups.Gates{Workload: true, Gang: true}, Now: func() time.Time { return x.now },
	}, 0)
	t.Cleanup(x.fanout.Close)
	compileClass, evaluate := x.guard.Compile, x.evaluate
	x.guard.Compile = func(p *v1.Pod, prof *compile.Profile) (*compile.Class, error) {
		class, err := compileClass(p, prof)
		if p.Labels["poison"] != "" {
			x.bad[class.ID()] = true
			if where == "compile" && !x.mended {
				x.met++
				panic("poison")
			}
		}
		return class, err
	}
	x.evaluate = func(ctx context.Context, requests []fanout.Request) ([]*scorer.Result, error) {
		results, err := evaluate(ctx, requests)
		for _, r := range results {
			if x.mended || !x.bad[r.ClassID] {
				continue
			}
			switch where {
			case "workers":
				x.met++
				r.Failed = &scan.Panic{Value: "poison"}
			case "loop":
				x.met++
				r.Groups[0].Candidates[0].Shard = 99
			}
		}
		return results, err
	}
	x.Load(&objects.Snapshot{Nodes: []*v1.Node{build.Node("a").CPU("40").Obj(), build.Node("b").CPU("40").Obj()}}, nil)
	return x
}

// come has pods arrive at the same time: those whose names begin with p have the label.
func (x *poisoned) come(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		b := build.Pod(name).CPU("2")
		if strings.HasPrefix(name, "p") {
			b = build.Pod(name).CPU("3").Label("poison", "yes")
		}
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: b.Obj()})
	}
	x.turn(t)
}

// wantDecided checks the decisions since the last look.
func (x *poisoned) wantDecided(t *testing.T, when string, from int, want ...string) {
	t.Helper()
	var got []string
	for _, d := range x.decided(t)[from:] {
		switch {
		case d.Node != "":
			got = append(got, d.Pod+" placed")
		case strings.Contains(d.Message, "met a bug of its own") && strings.Contains(d.Message, "panic: "):
			got = append(got, d.Pod+" failed")
		default:
			got = append(got, fmt.Sprint(d.Pod, " ", d.Message))
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: decisions (-want +got):\n%s", when, d)
	}
}

// A pod that meets a bug fails alone, wherever that is, and its class rests for a while.
func TestAPodThatMeetsABugFailsAlone(t *testing.T) {
	for where, label := range map[string]string{"compile": "compile", "workers": "evaluate", "loop": "evaluate"} {
		t.Run(where, func(t *testing.T) {
			x := newPoisoned(t, where)
			x.come(t, "h0", "p0", "h1", "p1", "h2")
			x.wantDecided(t, "together", 0, "default/h0 placed", "default/p0 failed", "default/h1 placed", "default/p1 failed", "default/h2 placed")
			met := map[string]int{"compile": 2, "workers": 1, "loop": 1}[where]
			x.wantMet(t, label, met)
			if where != "compile" {
				x.now = x.now.Add(quarantine.Time - time.Second)
				x.come(t, "p2", "h3")
				x.wantDecided(t, "in quarantine", 5, "default/p2 failed", "default/h3 placed")
				x.wantMet(t, label, met)
				x.now = x.now.Add(time.Second)
				x.come(t, "p3", "h4")
				x.wantDecided(t, "after it", 7, "default/p3 failed", "default/h4 placed")
				x.wantMet(t, label, met+1)
			}
			x.mended = true
			x.now = x.now.Add(quarantine.Time)
			from := len(x.decided(t))
			x.come(t, "p4", "h5", "p5")
			x.wantDecided(t, "once it is mended", from, "default/p4 placed", "default/h5 placed", "default/p5 placed")
		})
	}
}

func (x *poisoned) wantMet(t *testing.T, label string, times int) {
	t.Helper()
	if x.met != times {
		t.Errorf("the bug was met %d times, want %d", x.met, times)
	}
	want := []string{fmt.Sprintf("shardsched_panics_total{where=%s} %d", label, times)}
	if got := gathered(t, x.registry, "shardsched_panics_total"); !slices.Equal(got, want) {
		t.Errorf("metric: got %v, want %v", got, want)
	}
}

// Pods in quarantine are bounded, however many meet a bug.
func TestTheQuarantineIsBounded(t *testing.T) {
	x := newPoisoned(t, "compile")
	var names []string
	for i := range quarantine.MaxSuspects + 10 {
		names = append(names, fmt.Sprint("p", i))
	}
	x.come(t, names...)
	if x.met != len(names) || x.guard.Len() == 0 || x.guard.Len() > quarantine.MaxSuspects {
		t.Errorf("got %d in quarantine of %d that met the bug, want 1 to %d of %d", x.guard.Len(), x.met, quarantine.MaxSuspects, len(names))
	}
}

// A panic while the state of the cluster changes is no pod's own: it goes on.
func TestAPanicBehindThePromiseIsNotCaught(t *testing.T) {
	x := newPoisoned(t, "never")
	x.cfg.Recorder, x.cfg.Binder = nil, nil
	defer func() {
		if v := recover(); v != "behind" {
			t.Errorf("got %v, want the panic of the reporter", v)
		}
	}()
	x.cfg.Reporter = panicking{x.cfg.Reporter}
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: build.Pod("huge").CPU("100").Obj()})
	x.turn(t)
}

// panicking is a Reporter that panics where a pod is refused.
type panicking struct{ Reporter }

func (panicking) Unscheduled(*v1.Pod, string, string, *objects.Nominating) { panic("behind") }
