package framework

import (
	"context"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/metrics"
)

// helper is a PostFilter plugin.
type helper struct {
	plugin
	log *log
}

func (h helper) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	h.log.add("%s", h.Name())
	return nil, fwk.NewStatus(fwk.Unschedulable, h.Name()+" can't")
}

func TestBuiltInPluginsTakeTheirTurnAtPostFilter(t *testing.T) {
	var l log
	r := Registry{
		"A": factoryOf(helper{"A", &l}), "C": factoryOf(helper{"C", &l}), "Sort": factoryOf(sorter{"Sort"}), "Bind": factoryOf(binder{"Bind"}),
		"B": BuiltIn("B", nil, PostFilter, PreEnqueue),
	}
	p, err := NewProfile(t.Context(), profileOf("A", "B", "C", "Sort", "Bind"), r, &Environment{})
	if err != nil {
		t.Fatal(err)
	}
	_, s := p.NewCycle(newPod("a")).PostFilter(t.Context(), noStatuses, func(name string) (*fwk.PostFilterResult, *fwk.Status) {
		l.add("built-in %s", name)
		return nil, fwk.NewStatus(fwk.Unschedulable, "nor B")
	})
	equal(t, "order", l.take(), []string{"A", "built-in B", "C"})
	if s.Message() != "A can't, nor B, C can't" || s.Plugin() != "A" {
		t.Errorf("got %q of %q", s.Message(), s.Plugin())
	}
	if _, s := p.NewCycle(newPod("a")).PostFilter(t.Context(), noStatuses, nil); s.Message() != "A can't, C can't" {
		t.Errorf("without it: got %q", s.Message())
	}
	c := p.NewCycle(newPod("a"))
	c.state.(*CycleState).SetSkipAllPostFilterPlugins(true)
	if _, s := c.PostFilter(t.Context(), noStatuses, nil); s.Message() != "All PostFilter plugins are skipped" {
		t.Errorf("skipped: got %q", s.Message())
	}
}

func TestPostFilterPluginsAreMeasuredOnce(t *testing.T) {
	set := metrics.NewSet(nil)
	c := newProfile(t, &Environment{Meter: NewMeter(set)}, helper{"A", &log{}}).NewCycle(newPod("a"))
	measured := func() uint64 {
		return set.Histogram("scheduler_plugin_execution_duration_seconds", "A", "PostFilter", "Unschedulable").Count()
	}
	c.PostFilter(t.Context(), noStatuses, nil)
	if got := measured(); got != 1 {
		t.Errorf("in its turn: measured %d times, want once", got)
	}
}

// skips is a PostFilter plugin with a code that none may have.
type skips struct{ plugin }

func (skips) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Skip)
}

func TestAPostFilterThatSkipsIsAnError(t *testing.T) {
	p := newProfile(t, &Environment{}, skips{"S"})
	_, s := p.NewCycle(newPod("a")).PostFilter(t.Context(), noStatuses, nil)
	if !s.IsError() || s.Message() != "PostFilter plugin S returned Skip" || s.Plugin() != "S" {
		t.Errorf("got %v of %q: %q", s.Code(), s.Plugin(), s.Message())
	}
}

// The chain ends at the first plugin that does not let the next one try, and says what that plugin says; else it tells the
// reasons of all and makes the last nomination.
func TestTheChainOfPostFilters(t *testing.T) {
	type answer struct {
		code      fwk.Code
		reasons   []string
		nominates string // "-": it says nothing of that
	}
	registry, names := Registry{"Sort": factoryOf(sorter{"Sort"}), "Bind": factoryOf(binder{"Bind"})}, []string{"A", "B", "C", "D"}
	for _, name := range names {
		registry[name] = BuiltIn(name, nil, PostFilter)
	}
	p, err := NewProfile(t.Context(), profileOf("A", "B", "C", "D", "Sort", "Bind"), registry, &Environment{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		answers := map[string]answer{}
		for _, name := range names {
			x := answer{code: fwk.Unschedulable, nominates: rapid.SampledFrom([]string{"n", "m", "", "-"}).Draw(t, "node")}
			if rapid.IntRange(0, 2).Draw(t, "ends") == 0 {
				x.code = rapid.SampledFrom([]fwk.Code{fwk.Success, fwk.UnschedulableAndUnresolvable, fwk.Error, fwk.Pending, fwk.Skip}).Draw(t, "code")
			}
			x.reasons = rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 2).Draw(t, "reasons")
			answers[name] = x
		}
		code, message, nominated := fwk.Unschedulable, []string{}, "-"
		for _, name := range names {
			x := answers[name]
			goesOn := x.code == fwk.Unschedulable || x.code == fwk.Pending
			if !goesOn {
				code, message, nominated = x.code, nil, x.nominates
			}
			message = append(message, x.reasons...)
			switch {
			case x.code == fwk.Skip:
				code, message, nominated = fwk.Error, []string{"PostFilter plugin " + name + " returned Skip"}, "-"
			case x.code == fwk.Error:
				nominated = "-"
			case goesOn && x.nominates != "-":
				nominated = x.nominates
			}
			if !goesOn {
				break
			}
		}
		ask := func(name string) (r *fwk.PostFilterResult, s *fwk.Status) {
			x := answers[name]
			if x.nominates != "-" {
				r = &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: x.nominates}}
			}
			return r, fwk.NewStatus(x.code, slices.Clone(x.reasons)...)
		}
		check := func(of string, r *fwk.PostFilterResult, s *fwk.Status) {
			got := "-"
			if r != nil {
				got = r.NominatedNodeName
			}
			if want := strings.Join(message, ", "); s.Code() != code || s.Message() != want || got != nominated {
				t.Fatalf("%s, %+v: got %v %q, nominated to %q, want %v %q, %q", of, answers, s.Code(), s.Message(), got, code, want, nominated)
			}
		}
		r, s := RunPostFilters(names, ask)
		check("without a cycle", r, s)
		r, s = p.NewCycle(newPod("a")).PostFilter(t.Context(), nil, ask)
		check("in a cycle", r, s)
	})
}
