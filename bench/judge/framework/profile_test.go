package framework

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	upstreamruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/shardsched/shardsched/coordinator/framework"
)

// set is a plugin set of a profile, drawn.
type set struct {
	enabled  []configv1.Plugin
	disabled []string
}

// profile is one drawn: the multi-point, and a set for each point.
type profile struct {
	multi  set
	points [14]set
	args   []framework.PluginArgs
}

// of are a configuration's sets in the order of framework's points.
func of(p *config.Plugins) [14]*config.PluginSet {
	return [14]*config.PluginSet{
		&p.PreFilter, &p.Filter, &p.PostFilter, &p.Reserve, &p.PreScore, &p.Score, &p.PreBind, &p.Bind,
		&p.PostBind, &p.Permit, &p.PreEnqueue, &p.QueueSort, &p.PlacementGenerate, &p.PlacementScore,
	}
}

func ofV1(p *configv1.Plugins) [14]*configv1.PluginSet {
	return [14]*configv1.PluginSet{
		&p.PreFilter, &p.Filter, &p.PostFilter, &p.Reserve, &p.PreScore, &p.Score, &p.PreBind, &p.Bind,
		&p.PostBind, &p.Permit, &p.PreEnqueue, &p.QueueSort, &p.PlacementGenerate, &p.PlacementScore,
	}
}

// upstream is the profile as upstream has it.
func (p *profile) upstream() *config.KubeSchedulerProfile {
	out := &config.KubeSchedulerProfile{SchedulerName: "drawn", Plugins: &config.Plugins{}}
	fill := func(to *config.PluginSet, s *set) {
		for _, e := range s.enabled {
			q := config.Plugin{Name: e.Name}
			if e.Weight != nil {
				q.Weight = *e.Weight
			}
			to.Enabled = append(to.Enabled, q)
		}
		for _, name := range s.disabled {
			to.Disabled = append(to.Disabled, config.Plugin{Name: name})
		}
	}
	fill(&out.Plugins.MultiPoint, &p.multi)
	for i, to := range of(out.Plugins) {
		fill(to, &p.points[i])
	}
	for _, a := range p.args {
		out.PluginConfig = append(out.PluginConfig, config.PluginConfig{Name: a.Name, Args: a.Args})
	}
	return out
}

// ours is the profile as we have it.
func (p *profile) ours() framework.ProfileConfig {
	out := framework.ProfileConfig{Name: "drawn", Args: p.args}
	fill := func(to *configv1.PluginSet, s *set) {
		to.Enabled = s.enabled
		for _, name := range s.disabled {
			to.Disabled = append(to.Disabled, configv1.Plugin{Name: name})
		}
	}
	fill(&out.Plugins.MultiPoint, &p.multi)
	for i, to := range ofV1(&out.Plugins) {
		fill(to, &p.points[i])
	}
	return out
}

// String lists the profile for a failure's message.
func (p *profile) String() string {
	var b strings.Builder
	show := func(what string, s *set) {
		if len(s.enabled)+len(s.disabled) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s:", what)
		for _, e := range s.enabled {
			fmt.Fprintf(&b, " %s", e.Name)
			if e.Weight != nil {
				fmt.Fprintf(&b, "(%d)", *e.Weight)
			}
		}
		fmt.Fprintf(&b, " without %v\n", s.disabled)
	}
	show("multi", &p.multi)
	for i := range p.points {
		show(framework.Point(i).String(), &p.points[i])
	}
	return b.String()
}

// drawProfile draws a profile that most often is one: wild ones have mistakes in them.
func drawProfile(r *rand.Rand, wild bool) *profile {
	p := &profile{}
	weight := func() *int32 {
		if r.IntN(2) == 0 {
			return nil
		}
		w := int32(r.IntN(5))
		return &w
	}
	some := func(names []string, n int) []configv1.Plugin {
		var out []configv1.Plugin
		for _, i := range r.Perm(len(names))[:min(n, len(names))] {
			out = append(out, configv1.Plugin{Name: names[i], Weight: weight()})
		}
		return out
	}
	names := full()
	if wild {
		names = append(names, "Filter", "Score", "Bind", "Sort", "Alias", "Broken", "Nobody")
	}
	p.multi.enabled = some(names, r.IntN(len(names)))
	if wild && r.IntN(6) == 0 && len(p.multi.enabled) > 0 {
		p.multi.enabled = append(p.multi.enabled, p.multi.enabled[0])
	}
	for i := range p.points[:12] {
		at := &p.points[i]
		if r.IntN(2) == 0 {
			from := full()
			switch {
			case wild && r.IntN(8) == 0:
				from = names
			case framework.Point(i) == framework.Filter:
				from = append(from, "Filter")
			case framework.Point(i) == framework.Score:
				from = append(from, "Score")
			case framework.Point(i) == framework.Bind:
				from = append(from, "Bind")
			}
			at.enabled = some(from, 1+r.IntN(4))
		}
		if r.IntN(3) == 0 {
			at.disabled = append(at.disabled, full()[r.IntN(5)])
		}
		if r.IntN(12) == 0 {
			at.disabled = append(at.disabled, "*")
		}
	}
	if !wild || r.IntN(3) > 0 {
		p.points[framework.QueueSort] = set{enabled: []configv1.Plugin{{Name: "Sort"}}, disabled: []string{"*"}}
		if len(p.points[framework.Bind].enabled) == 0 {
			p.points[framework.Bind].enabled = []configv1.Plugin{{Name: "Bind"}}
		}
	}
	if r.IntN(3) == 0 {
		p.args = append(p.args, framework.PluginArgs{Name: "A", Args: &runtime.Unknown{Raw: []byte(`{"x":1}`)}})
		if wild && r.IntN(3) == 0 {
			p.args = append(p.args, p.args[0])
		}
	}
	return p
}

// make makes the profile in both, with a script each; upstream's is nil where it is an error.
func (p *profile) make(t *testing.T, seed uint64, nodes []string, env *framework.Environment, opts ...upstreamruntime.Option) (fw upstream.Framework, ours *framework.Profile, theirs, own *script) {
	t.Helper()
	theirs, own = &script{seed: seed, nodes: nodes}, &script{seed: seed, nodes: nodes}
	fw, want := newUpstream(t.Context(), factories(theirs), p.upstream(), opts...)
	ours, got := framework.NewProfile(t.Context(), p.ours(), factories(own), env)
	if fmt.Sprint(want) == "crash" {
		return nil, nil, nil, nil // config refuses it
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("seed %d: got error %v, upstream's is %v\n%s", seed, got, want, p)
	}
	if want != nil {
		return nil, nil, nil, nil
	}
	return fw, ours, theirs, own
}

// newUpstream tells of a crash as an error: upstream looks up the weight of a plugin that there is
// none of.
func newUpstream(ctx context.Context, r upstreamruntime.Registry, p *config.KubeSchedulerProfile, opts ...upstreamruntime.Option) (fw upstream.Framework, err error) {
	defer func() {
		if recover() != nil {
			fw, err = nil, fmt.Errorf("crash")
		}
	}()
	return upstreamruntime.NewFramework(ctx, r, p, opts...)
}

// TestProfilesAreArrangedAsUpstream holds which plugins are at which point, in which order, with
// which weights, what registers for events, and the texts of what is wrong.
func TestProfilesAreArrangedAsUpstream(t *testing.T) {
	const rounds = 3000
	good, faults := 0, map[string]int{}
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := drawProfile(r, seed%3 > 0)
		fw, ours, _, _ := p.make(t, seed, []string{"n"}, &framework.Environment{})
		if fw == nil {
			_, err := framework.NewProfile(t.Context(), p.ours(), factories(&script{}), &framework.Environment{})
			faults[strings.Fields(fmt.Sprint(err))[0]]++
			continue
		}
		good++
		plugins := fw.ListPlugins()
		for i, s := range of(plugins) {
			var want []string
			for _, e := range s.Enabled {
				want = append(want, e.Name)
				if at := framework.Point(i); at == framework.Score && ours.Weight(e.Name) != int64(e.Weight) {
					t.Errorf("seed %d: %s weighs %d, %d upstream", seed, e.Name, ours.Weight(e.Name), e.Weight)
				}
			}
			if got := ours.Plugins(framework.Point(i)); !slices.Equal(got, want) {
				t.Fatalf("seed %d: at %v got %v, upstream has %v\n%s", seed, framework.Point(i), got, want, p)
			}
		}
		if got, want := registered(t, ours.Events()), registered(t, fw.EnqueueExtensions()); !slices.Equal(got, want) {
			t.Fatalf("seed %d: waiting for events: got %v, upstream has %v", seed, got, want)
		}
	}
	if good < rounds/4 || len(faults) < 8 {
		t.Errorf("%d of %d profiles were good and there were %d kinds of faults (%v): the draw shows too little", good, rounds, len(faults), slices.Sorted(maps.Keys(faults)))
	}
}

// registered names the plugins that wait for events, with how many.
func registered(t *testing.T, list []fwk.EnqueueExtensions) []string {
	var out []string
	for _, e := range list {
		events, err := e.EventsToRegister(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(e.Name(), events))
	}
	slices.Sort(out)
	return out
}
