package answers

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// zoned is a cluster of three zones and racks, cut into shards, with an engine whose answers are held.
type zoned struct {
	t     *rapid.T
	cache *cache.Cache
	*Engine
	compiler *compile.Compiler
	state    *script // counters, and what classes are compiled for
}

const zonedNodes = 24

func newZoned(t *rapid.T, shards int) *zoned {
	x := &zoned{t: t, cache: cache.New(shards), state: &script{counters: count.New(), cluster: cluster.New()}}
	x.cache.UseCounters(x.state.counters)
	for i := range zonedNodes {
		x.setNode(i, 4)
	}
	x.Engine, x.compiler = x.fresh(), compile.New()
	x.cache.Watch(x.Log())
	return x
}

func (x *zoned) must(err error) {
	if err != nil {
		x.t.Fatalf("%v", err)
	}
}

// setNode sets a node of so many cores; every fourth has no rack.
func (x *zoned) setNode(i, cores int) {
	n := build.Node(fmt.Sprint("n", i)).CPU(fmt.Sprint(cores)).Memory("8Gi").Zone(fmt.Sprint("z", i%3))
	if i%4 > 0 {
		n.Label("rack", fmt.Sprint("r", i/4))
	}
	_, err := x.cache.SetNode(n.Obj())
	x.must(err)
}

// take gives the engine what it needs, of the own tables.
func (x *zoned) take(e *Engine, n *Need) {
	r := &scorer.Result{}
	o := scorer.Options{Candidates: min(n.Candidates, 2), Diagnose: n.Diagnose, Copies: n.Copies, CopyKeys: n.CopyKeys}
	r.Reset(n.Class.ID(), o.Candidates)
	for table := range x.cache.Tables {
		e.Evaluator().Evaluate(table, n.Class, o, r)
	}
	e.Take(n, r)
}

// copies are those of a question, as text, and how often the engine had to ask.
func (x *zoned) copies(e *Engine, q Question, keys ...string) (text string, asked int) {
	e.SetDeciding(true)
	e.Begin(1)
	for {
		c, need := e.Copies(&q, keys...)
		if need == nil {
			if c.Tied != "" {
				return c.Tied, asked
			}
			out := fmt.Sprint(c.Total)
			for _, key := range keys {
				out += fmt.Sprint(" ", key, c.Of(key).Sums)
			}
			return out, asked
		}
		asked++
		x.take(e, need)
	}
}

// best is the best row for a question, as text.
func (x *zoned) best(e *Engine, q Question) string {
	e.SetDeciding(true)
	e.Begin(1)
	for {
		choice, found, need := e.Best(&q)
		switch {
		case need != nil:
			x.take(e, need)
		case found:
			return fmt.Sprintf("%s of %d with %d", x.cache.Table(int(choice.Row.Shard)).Name(choice.Row.Index), choice.Feasible, choice.Score)
		default:
			own, _ := e.Own(&q)
			message, plugins := own.Message(e.NodesWithin(q.Within), nil)
			return fmt.Sprint(message, plugins)
		}
	}
}

// nominees are a pod that is nominated to a node.
func (x *zoned) nominees(node string) []*Nominee {
	row, ok := x.cache.RowOf(node)
	if !ok {
		return nil
	}
	return []*Nominee{{Row: row, Usages: []*pb.PodUsage{compile.Usage(build.Pod("nominated").CPU("2").Obj())}}}
}

// class is a class of pods of the default profile.
func (x *zoned) class(p *build.PodBuilder) *compile.Class {
	class, err := x.compiler.Class(p.Obj(), rules.DefaultProfile(v1.DefaultSchedulerName), compileState{x.cache, x.state})
	x.must(err)
	var fresh []uint32
	for _, counter := range x.state.counters.TakeNew() {
		fresh = append(fresh, counter.ID())
	}
	if len(fresh) > 0 {
		x.must(x.cache.FillCounters(fresh, true, nil))
	}
	return class
}

// fresh is an engine without answers.
func (x *zoned) fresh() *Engine {
	return New(Config{Tables: x.cache, BatchSize: 8, Recycle: func(*scorer.Result) {}})
}

// changeAll makes the same random change in each cluster. has are the nodes that have a pod.
func changeAll(t *rapid.T, worlds []*zoned, has map[int]bool, decision uint64) {
	i, cores := rapid.IntRange(0, zonedNodes-1).Draw(t, "node"), rapid.IntRange(4, 8).Draw(t, "cores")
	anew := rapid.IntRange(0, 9).Draw(t, "change") == 0
	for _, x := range worlds {
		p := build.Pod("p").UID(fmt.Sprint("uid-", i)).CPU("1500m").Obj()
		switch {
		case anew:
			x.setNode(i, cores)
		case has[i]:
			_, _, err := x.cache.RemovePod(p.UID)
			x.must(err)
		default:
			x.must(x.cache.Assume(p, fmt.Sprint("n", i), x.cache.UsageOf(p), decision))
		}
	}
	if !anew {
		has[i] = !has[i]
	}
}

// drawWithin draws a domain, most often the whole cluster.
func drawWithin(t *rapid.T) Domain {
	return rapid.SampledFrom([]Domain{{}, {}, {v1.LabelTopologyZone, "z1"}, {"rack", "r2"}, {"rack", "none"}}).Draw(t, "within")
}

// Copies that are kept and repaired are those that a new engine finds, and the same over 1, 3 and 16 shards.
func TestRepairedCopiesAreFreshCopies(t *testing.T) {
	kept, asked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		worlds, has := []*zoned{newZoned(t, 1), newZoned(t, 3), newZoned(t, 16)}, map[int]bool{}
		p := build.Pod("p").CPU(rapid.SampledFrom([]string{"500m", "1", "3"}).Draw(t, "cpu"))
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			changeAll(t, worlds, has, uint64(step)+1)
			nominated, within := rapid.SampledFrom([]string{"", "n1", "n5"}).Draw(t, "nominated"), drawWithin(t)
			first := ""
			for _, x := range worlds {
				q := Question{Class: x.class(p), Nominees: x.nominees(nominated), Within: within}
				got, n := x.copies(x.Engine, q, v1.LabelTopologyZone, "rack")
				kept, asked = kept+1-n, asked+n
				if want, _ := x.copies(x.fresh(), q, v1.LabelTopologyZone, "rack"); got != want {
					t.Fatalf("kept %s, new %s", got, want)
				}
				if first == "" {
					first = got
				} else if got != first {
					t.Fatalf("one shard: %s, %d shards: %s", first, x.cache.NumShards(), got)
				}
			}
		}
	})
	if kept == 0 || asked == 0 {
		t.Errorf("%d were kept, %d asked for, want both", kept, asked)
	}
}

// Within a domain a pod gets the node that it would get if there were no others, and is refused by the reasons of these nodes.
func TestWithinADomainIsAsIfThereWereNoOtherNodes(t *testing.T) {
	inside := 0
	rapid.Check(t, func(t *rapid.T) {
		x, has := newZoned(t, rapid.SampledFrom([]int{1, 3}).Draw(t, "shards")), map[int]bool{}
		p := build.Pod("p").Label("app", "a").CPU(rapid.SampledFrom([]string{"1", "3", "9"}).Draw(t, "cpu"))
		spread := rapid.Bool().Draw(t, "spread")
		if spread {
			p.Spread(build.Soft(v1.LabelTopologyZone, 1, "app=a"))
		}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			changeAll(t, []*zoned{x}, has, uint64(step)+1)
			q := Question{Class: x.class(p), Within: drawWithin(t)}
			got := x.best(x.Engine, q)
			if want := x.best(x.fresh(), q); got != want {
				t.Fatalf("held %s, new %s", got, want)
			}
			if spread || q.Within.Whole() {
				continue
			}
			inside++
			alone := newZoned(t, 1)
			alone.keep(x, has, q.Within)
			if want := alone.best(alone.Engine, Question{Class: alone.class(p)}); got != want && alone.cache.Nodes() > 0 {
				t.Fatalf("within %s: got %s, want %s", q.Within, got, want)
			}
		}
	})
	if inside == 0 {
		t.Error("nothing was compared")
	}
}

// keep makes a cluster of those nodes of another that are in a domain, with their pods.
func (x *zoned) keep(of *zoned, has map[int]bool, d Domain) {
	for i := range zonedNodes {
		name := fmt.Sprint("n", i)
		object := of.cache.Node(name)
		if object.Labels[d.Key] != d.Value {
			_, err := x.cache.RemoveNode(name)
			x.must(err)
			continue
		}
		_, err := x.cache.SetNode(object)
		x.must(err)
		row, _ := of.cache.RowOf(name)
		decision := of.cache.Table(int(row.Shard)).Candidate(row.Index, 0).LastDecision
		if decision == 0 {
			continue
		}
		p := build.Pod("p").UID(fmt.Sprint("uid-", i)).CPU("1500m").Obj()
		x.must(x.cache.Assume(p, name, x.cache.UsageOf(p), decision))
		if !has[i] {
			_, _, err := x.cache.RemovePod(p.UID)
			x.must(err)
		}
	}
}

// What pods of a class do to each other's nodes is told, and why there are no copies.
func TestTiedClassesHaveNoCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newZoned(t, 1)
		class := x.class(build.Pod("p").CPU("1"))
		for want, q := range map[string]Question{
			"plugins or extenders that look at nodes":              {Class: class, Alone: true},
			"volumes that are not settled":                         {Class: &compile.Class{Query: class.Query, Scorer: class.Scorer, Volatile: true}},
			"a plugin rejects the pods on all nodes":               {Class: &compile.Class{Rejected: &compile.Rejection{}}},
			"topology spread constraints":                          {Class: x.class(build.Pod("p").Spread(build.Hard(v1.LabelTopologyZone, 1, "app=a")))},
			"96 topology.kubernetes.io/zonemap[z0:32 z1:32 z2:32]": {Class: class},
		} {
			if got, _ := x.copies(x.Engine, q, v1.LabelTopologyZone); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		keys := make([]string, pb.MaxCopyKeys+1)
		for i := range keys {
			keys[i] = fmt.Sprint("key", i)
		}
		if got, _ := x.copies(x.Engine, Question{Class: class}, keys...); got != "too many topology keys" {
			t.Errorf("%d keys: got %q", len(keys), got)
		}
	})
}
