package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	gstatus "google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/internal/testkit/wire"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
	"github.com/shardsched/shardsched/worker"
)

// owned evaluates once and checks that each of n workers is first for some shard.
func owned(t *testing.T, c *cluster, f *fanout.Fanout, n int, reqs []fanout.Request) {
	t.Helper()
	c.wantSame(t, f, reqs)
	for _, w := range f.Workers() {
		if w.GetShards() == 0 {
			t.Fatalf("worker %s is first for no shard; the test needs it to be", w.GetId())
		}
	}
	if got := len(f.Workers()); got != n {
		t.Fatalf("got %d workers, want %d", got, n)
	}
}

func TestAWorkerKilledInMidCallChangesNothing(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		fleet := newFleet(t, 3, worker.Config{})
		c := newCluster(24)
		c.addNodes(t, 0, 300)
		clock := clocktesting.NewFakeClock(time.Unix(1000, 0)) // nobody is slow
		f := fleet.fanout(t, c, 3, fanout.Config{Replicas: replicas, Clock: clock})
		reqs := requests(t, 5, true, query(1, 100, false), query(2, 500, true), spreadQuery(3))
		owned(t, c, f, 3, reqs)
		before := f.Stats()

		c.churn(t, rand.New(rand.NewPCG(3, 3)), 50)
		victim := fleet.proxies["w1"]
		arrived, _ := hold(victim)
		done := start(t.Context(), f, reqs)
		<-arrived
		victim.server.Stop()
		got := <-done
		if got.err != nil {
			t.Fatalf("replicas %d: %v", replicas, got.err)
		}
		c.wantResults(t, got.results, reqs)
		local := f.Stats().LocalShards - before.LocalShards
		if (local > 0) != (replicas == 1) {
			t.Errorf("replicas %d: %d shards were evaluated here, want some only without a second replica", replicas, local)
		}
		if got := status(t, f, "w1").GetFailures(); got != 1 {
			t.Errorf("replicas %d: got %d failures of the killed worker, want 1", replicas, got)
		}
		c.churn(t, rand.New(rand.NewPCG(4, 4)), 50)
		c.wantSame(t, f, reqs)
	}
}

func TestAWorkerRestartedEmptyGetsSnapshots(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 300)
	f := fleet.fanout(t, c, 2, fanout.Config{})
	reqs := requests(t, 5, false, query(1, 100, false))
	owned(t, c, f, 2, reqs)
	before := f.Stats()
	shards := status(t, f, "w0").GetShards()

	c.churn(t, rand.New(rand.NewPCG(5, 5)), 50)
	fleet.proxies["w0"].restart()
	c.wantSame(t, f, reqs)
	after := f.Stats()
	if got, want := after.Snapshots-before.Snapshots, uint64(shards); got != want {
		t.Errorf("got %d snapshots, want one for each of the worker's %d shards", got, want)
	}
	if after.LocalShards != before.LocalShards {
		t.Errorf("got %d shards evaluated here, want none", after.LocalShards-before.LocalShards)
	}
	c.wantSame(t, f, reqs)
	if got := f.Stats().Snapshots; got != after.Snapshots {
		t.Errorf("got %d snapshots more, want none", got-after.Snapshots)
	}
}

func TestDeltasNoLongerKeptBecomeASnapshot(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(1)
	c.addNodes(t, 0, 100)
	f := fleet.fanout(t, c, 1, fanout.Config{})
	reqs := requests(t, 5, false, query(1, 100, false))
	c.wantSame(t, f, reqs)
	c.kept = 10
	c.churn(t, rand.New(rand.NewPCG(6, 6)), 10)
	c.wantSame(t, f, reqs)
	if got := f.Stats().Snapshots; got != 1 {
		t.Fatalf("got %d snapshots, want the first only: the deltas were kept", got)
	}
	c.churn(t, rand.New(rand.NewPCG(6, 6)), 11)
	c.wantSame(t, f, reqs)
	if got := f.Stats().Snapshots; got != 2 {
		t.Fatalf("got %d snapshots, want a second one", got)
	}
}

func TestADeposedLeaderIsToldAndStaysDeposed(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 100)
	reqs := requests(t, 5, false, query(1, 100, false))
	old := fleet.fanout(t, c, 2, fanout.Config{Term: 5, Leads: leads(false, nil)})
	c.wantSame(t, old, reqs)
	fresh := fleet.fanout(t, c, 2, fanout.Config{Term: 6})
	c.wantSame(t, fresh, reqs)
	for range 2 {
		if _, err := old.Evaluate(t.Context(), reqs); !errors.Is(err, fanout.ErrDeposed) {
			t.Fatalf("got %v, want ErrDeposed", err)
		}
	}
	old.SetMembers(nil)
	if _, err := old.Evaluate(t.Context(), reqs); !errors.Is(err, fanout.ErrDeposed) {
		t.Fatalf("without workers: got %v, want ErrDeposed still", err)
	}
	c.wantSame(t, fresh, reqs)
}

func TestWorkersWithoutRoomAnswerForWhatTheyHave(t *testing.T) {
	c := newCluster(8)
	c.addNodes(t, 0, 300)
	one := int64(0)
	for _, table := range c.tables {
		one = max(one, table.MemoryBytes())
	}
	fleet := newFleet(t, 2, worker.Config{CacheBytes: 3 * one / 2, CacheClasses: 1})
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := fleet.fanout(t, c, 2, fanout.Config{Clock: clock})
	reqs := requests(t, 5, true, query(1, 100, false), query(2, 500, true), query(3, 700, false), spreadQuery(4))
	rng := rand.New(rand.NewPCG(7, 7))
	for range 4 {
		c.churn(t, rng, 30)
		c.wantSame(t, f, reqs)
	}
	settled := f.Stats()
	for range 3 {
		c.churn(t, rng, 30)
		c.wantSame(t, f, reqs)
	}
	if got := f.Stats().Snapshots - settled.Snapshots; got != 0 {
		t.Errorf("got %d snapshots although no worker has room, want none", got)
	}
	for _, w := range f.Workers() {
		if w.GetShards() != 1 || w.GetFailures() != 0 {
			t.Errorf("got %v, want one shard each and no failures", w)
		}
	}
	if got := (f.Stats().LocalShards - settled.LocalShards); got != 3*2*6 {
		t.Errorf("got %d shards evaluated here in 3 Evaluates of 2 rounds, want the 6 that no worker has room for each time", got)
	}
	clock.Step(time.Hour) // then they are tried again
	c.wantSame(t, f, reqs)
	if got := f.Stats().Snapshots - settled.Snapshots; got == 0 {
		t.Error("got no snapshots after an hour, want another try")
	}
}

func TestAWorkerThatHasRoomForNoShardIsWell(t *testing.T) {
	c := newCluster(4)
	c.addNodes(t, 0, 100)
	f := newFleet(t, 1, worker.Config{CacheBytes: 1}).fanout(t, c, 1, fanout.Config{})
	reqs := requests(t, 5, true, query(1, 100, false))
	for range 2 {
		c.wantSame(t, f, reqs)
	}
	if w := status(t, f, "w0"); w.GetShards() != 0 || w.GetFailures() != 0 {
		t.Errorf("got %v, want no shards and no failures", w)
	}
}

// The client tells how long it waits, so that a worker ends what nobody waits for, even if it is not told.
func TestEveryCallHasADeadline(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(4)
	c.addNodes(t, 0, 100)
	f := fleet.fanout(t, c, 1, fanout.Config{})
	calls, without := 0, 0
	fleet.proxies["w0"].script(func(ctx context.Context, _ *pb.EvaluateRequest) error {
		calls++
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > 5*time.Minute {
			without++
		}
		return nil
	}, nil)
	c.wantSame(t, f, requests(t, 5, true, query(1, 100, false), query(2, 500, true)))
	if calls == 0 || without > 0 {
		t.Errorf("got %d calls of %d without a deadline within five minutes", without, calls)
	}
}

func TestTheShardsOfAWorkerThatIsGoneMove(t *testing.T) {
	fleet := newFleet(t, 3, worker.Config{})
	c := newCluster(16)
	c.addNodes(t, 0, 300)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	f := fleet.fanout(t, c, 3, fanout.Config{Clock: clock})
	reqs := requests(t, 5, false, query(1, 100, false))
	owned(t, c, f, 3, reqs)
	before := f.ShardOwners()

	fleet.proxies["w0"].script(func(context.Context, *pb.EvaluateRequest) error {
		return gstatus.Error(codes.Unavailable, "on fire")
	}, nil)
	c.wantSame(t, f, reqs)
	if got := f.ShardOwners(); !slices.EqualFunc(got, before, slices.Equal) {
		t.Fatalf("got owners %v right after a failure, want %v still", got, before)
	}
	clock.Step(time.Minute)
	c.wantSame(t, f, reqs)
	for shard, list := range f.ShardOwners() {
		if before[shard][0] != "w0" && !slices.Equal(list, before[shard]) || list[0] == "w0" {
			t.Errorf("shard %d: got owners %v, had %v; want only w0's to move", shard, list, before[shard])
		}
	}
	f.SetMembers(fleet.members(3)[1:]) // its registration runs out: nothing more moves
	moved := f.ShardOwners()
	snapshots := f.Stats().Snapshots
	c.wantSame(t, f, reqs)
	if got := f.ShardOwners(); !slices.EqualFunc(got, moved, slices.Equal) || f.Stats().Snapshots != snapshots {
		t.Errorf("got owners %v and %d snapshots more, want %v and none", got, f.Stats().Snapshots-snapshots, moved)
	}
}

func TestStandbyWorkersAreKeptUpToDate(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 300)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0)) // nobody is slow
	f := fleet.fanout(t, c, 2, fanout.Config{Replicas: 2, Clock: clock})
	reqs := requests(t, 5, false, query(1, 100, false))
	owned(t, c, f, 2, reqs)
	rng := rand.New(rand.NewPCG(9, 9))
	for f.Stats().Snapshots < 16 { // one after the other, beside the rounds
		c.churn(t, rng, 5)
		c.wantSame(t, f, reqs)
	}
	fleet.proxies["w0"].server.Stop()
	for range 5 {
		c.churn(t, rng, 5)
		c.wantSame(t, f, reqs)
	}
	if got := f.Stats(); got.Snapshots != 16 || got.LocalShards != 0 {
		t.Errorf("got %+v, want the other worker to have had all 8 shards", got)
	}
}

func TestAWorkerThatLiesIsNotBelieved(t *testing.T) {
	lies := map[string]func(*wire.Response){
		"a row without a node":     func(r *wire.Response) { r.Results[0].Groups[0].CandidateRows[0] = 4000 },
		"another class":            func(r *wire.Response) { r.Results[0].ClassId = 4000 },
		"too few results":          func(r *wire.Response) { r.Results = r.Results[1:] },
		"more rows than nodes":     func(r *wire.Response) { r.Results[0].Rows = 4000 },
		"rows of unequal length":   columns(func(g *pb.GroupColumns) { g.RowRefs = g.RowRefs[1:] }),
		"scores of unequal length": columns(func(g *pb.GroupColumns) { g.RunScores = g.RunScores[1:] }),
		"a run too long":           columns(func(g *pb.GroupColumns) { g.Runs[0]++ }),
		"other numbers of candidates": columns(func(g *pb.GroupColumns) {
			g.Candidates[0], g.Candidates[1] = g.Candidates[0]-1, g.Candidates[1]+1
		}),
		"rows of more shards than were asked": columns(func(g *pb.GroupColumns) { g.Shards++ }),
		"rows of fewer shards":                columns(func(g *pb.GroupColumns) { g.Shards-- }),
		"groups of nobody":                    columns(func(g *pb.GroupColumns) { g.Rows = append(g.Rows, 1) }),
		"fewer candidates":                    func(r *wire.Response) { r.Results[0].Groups[0].Cut(1) },
		"no candidates":                       func(r *wire.Response) { g := r.Results[0].Groups[0]; g.Cut(len(g.CandidateRows)) },
		"more candidates": func(r *wire.Response) {
			g := r.Results[0].Groups[0]
			g.CandidateRows, g.CandidateShards = append(g.CandidateRows, g.CandidateRows[0]), append(g.CandidateShards, g.CandidateShards[0])
			g.CandidateScores = append(g.CandidateScores, last(g.CandidateScores))
		},
		"rising scores":              func(r *wire.Response) { g := r.Results[0].Groups[0]; g.CandidateScores[1] = g.CandidateScores[0] + 1 },
		"the same class for ever":    func(r *wire.Response) { r.Results, r.NeedClasses = nil, []uint64{1} },
		"a class never asked for":    func(r *wire.Response) { r.Results, r.NeedClasses = nil, []uint64{77} },
		"a failure never asked for":  func(r *wire.Response) { r.FailedClasses = []uint64{77} },
		"a failure beside an answer": func(r *wire.Response) { r.FailedClasses = []uint64{r.Results[0].ClassId} },
		"a failure for another": func(r *wire.Response) {
			r.Results, r.FailedClasses = r.Results[1:], []uint64{r.Results[1].ClassId}
		},
		"a shard never asked for": func(r *wire.Response) { r.Results, r.NeedSnapshots = nil, []uint32{77} },
		"a key too long": func(r *wire.Response) {
			for _, g := range r.Results[0].Groups {
				g.Key = append(g.Key, 7)
			}
		},
		"a key too short": func(r *wire.Response) {
			g := r.Results[0].Groups[0]
			g.Key, g.Rows, r.Results[0].Groups = nil, r.Results[0].Feasible, r.Results[0].Groups[:1]
		},
		"extrema in the first round": func(r *wire.Response) { r.Results[0].Extrema = []int64{1} },
		"a domain too many": func(r *wire.Response) {
			for _, g := range r.Results[2].Groups {
				g.Domains = append(g.Domains, "z")
			}
		},
		"no row values": func(r *wire.Response) {
			g := r.Results[2].Groups[0]
			g.RowValues, g.Rows, r.Results[2].Groups = nil, r.Results[2].Feasible, r.Results[2].Groups[:1]
		},
		"a filter that there is not": func(r *wire.Response) { last(r.Results[2].Groups).LateFilter = 9 },
		"no measures":                func(r *wire.Response) { r.Results[2].Measures = nil },
		"a measure too many": func(r *wire.Response) {
			r.Results[2].Measures = append(r.Results[2].Measures, &pb.MeasureResult{})
		},
		"a measure by the wrong thing":   func(r *wire.Response) { r.Results[2].Measures[0] = r.Results[2].Measures[1] },
		"a histogram for a total":        func(r *wire.Response) { r.Results[2].Measures[2] = r.Results[2].Measures[1] },
		"a measure of rows that are not": func(r *wire.Response) { r.Results[2].Measures[0].MissingRows = 4000 },
		"measures of a plain class":      func(r *wire.Response) { r.Results[0].Measures = r.Results[2].Measures },
		"an overflow of a class with groups": func(r *wire.Response) {
			r.Results[2].Overflow, r.Results[2].Groups, r.Results[2].Extrema = true, nil, []int64{1, 2}
		},
		"too many extrema": func(r *wire.Response) {
			r.Results[0].Overflow, r.Results[0].Groups, r.Results[0].Extrema = true, nil, []int64{1, 2, 3}
		},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			fleet := newFleet(t, 2, worker.Config{})
			c := newCluster(8)
			c.addNodes(t, 0, 100)
			f := fleet.fanout(t, c, 2, fanout.Config{})
			fleet.proxies["w0"].script(nil, wire.Changed(func(resp *wire.Response) {
				if len(resp.Results) > 0 {
					lie(resp)
				}
			}))
			c.wantSame(t, f, requests(t, 5, true, query(1, 100, false), query(2, 200, false), spreadQuery(3)))
			if got := f.Stats().LocalShards; got == 0 {
				t.Error("got no shard evaluated here, want those of the liar")
			}
		})
	}
}

// Copies are told by workers, and held against the own tables: whether a gang fits, and where, goes by them.
func TestCopiesOfWorkersAreThoseOfTheTables(t *testing.T) {
	const truth = "the truth"
	for name, lie := range map[string]func(*pb.Copies) *pb.Copies{
		truth:             func(c *pb.Copies) *pb.Copies { return c },
		"no copies":       func(*pb.Copies) *pb.Copies { return nil },
		"one more":        func(c *pb.Copies) *pb.Copies { c.Total++; return c },
		"less":            func(*pb.Copies) *pb.Copies { return &pb.Copies{} },
		"another domain":  func(c *pb.Copies) *pb.Copies { c.Keys[0].Domains[0] = "a"; return c },
		"too many":        func(c *pb.Copies) *pb.Copies { c.Keys[1] = &pb.DomainCopies{Key: "tier", Many: true}; return c },
		"another key":     func(c *pb.Copies) *pb.Copies { c.Keys[1].Key = "row"; return c },
		"sums of nothing": func(c *pb.Copies) *pb.Copies { c.Keys[0].Sums = append(c.Keys[0].Sums, 1); return c },
	} {
		t.Run(name, func(t *testing.T) {
			fleet := newFleet(t, 2, worker.Config{})
			c := newCluster(8)
			c.addNodes(t, 0, 100)
			f := fleet.fanout(t, c, 2, fanout.Config{})
			fleet.proxies["w0"].script(nil, wire.Changed(func(resp *wire.Response) {
				for _, r := range resp.Results {
					r.Copies = lie(r.Copies)
				}
			}))
			asked := requests(t, 5, false, query(1, 100, false), query(2, 200, false))
			for i := range asked {
				asked[i].Copies, asked[i].CopyKeys = true, []string{"zone", "tier"}
			}
			results, err := f.Evaluate(t.Context(), asked)
			if err != nil {
				t.Fatal(err)
			}
			c.wantResults(t, results, asked)
			for i, r := range results {
				want := &scorer.Result{}
				want.Reset(r.ClassID, 5)
				o := scorer.Options{Measure: true, Copies: true, CopyKeys: asked[i].CopyKeys}
				scorer.NewEvaluator(nil).Evaluate(c.whole, asked[i].Class, o, want)
				if err := want.DiffersInCopies(r); err != nil || want.Copies.Total == 0 || len(want.Copies.Of("zone").Sums) == 0 {
					t.Errorf("class %d: %v of %v", r.ClassID, err, want.Copies)
				}
			}
			if here := f.Stats().LocalShards; (here > 0) != (name != truth) {
				t.Errorf("got %d shards evaluated here, want those of a liar", here)
			}
		})
	}
}

// Nobody is told copies that were not asked for.
func TestCopiesThatWereNotAskedForAreNotBelieved(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(4)
	c.addNodes(t, 0, 100)
	f := fleet.fanout(t, c, 1, fanout.Config{})
	fleet.proxies["w0"].script(nil, wire.Changed(func(resp *wire.Response) {
		for _, r := range resp.Results {
			r.Copies = &pb.Copies{Total: 5}
		}
	}))
	c.wantSame(t, f, requests(t, 5, false, query(1, 100, false)))
	if got := f.Stats().LocalShards; got != 4 {
		t.Errorf("got %d shards evaluated here, want 4", got)
	}
}

// columns is a lie about columns.
func columns(lie func(*pb.GroupColumns)) func(*wire.Response) {
	return func(r *wire.Response) { r.Columns = lie }
}

func last[T any](list []T) T { return list[len(list)-1] }

// failing has a worker say that it could not evaluate some classes.
func failing(classes ...uint64) func(*pb.EvaluateResponse) {
	return func(resp *pb.EvaluateResponse) {
		fails := func(id uint64) bool {
			if slices.Contains(classes, id) {
				resp.FailedClasses = append(resp.FailedClasses, id)
				return true
			}
			return false
		}
		x := wire.Open(resp)
		x.Results = slices.DeleteFunc(x.Results, func(r *wire.Result) bool { return fails(r.GetClassId()) })
		x.Close()
		resp.Preemptions = slices.DeleteFunc(resp.Preemptions, func(r *pb.PreemptionResult) bool { return fails(r.GetClassId()) })
	}
}

// What a worker can not evaluate the own tables do; its other answers count.
func TestClassesThatAWorkerFailsAtAreEvaluatedHere(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := fullCluster(t, 8, 200)
	f := fleet.fanout(t, c, 2, fanout.Config{})
	asked := requests(t, 5, true, query(1, 500, false), query(2, 600, false), spreadQuery(3), query(4, 700, true))
	for _, classes := range [][]uint64{{1}, {2, 3}, {4}, {1, 2, 3, 4}, {11}, {12}, {11, 12}} {
		fleet.proxies["w0"].script(nil, failing(classes...))
		before := f.Stats().LocalShards
		c.wantSame(t, f, asked)
		if n := c.wantSamePreemptions(t, f, 10); n == 0 {
			t.Fatal("got no candidate: the test shows nothing")
		}
		if got := f.Stats().LocalShards; got == before {
			t.Errorf("classes %v: got no shard evaluated here", classes)
		}
		if got := status(t, f, "w0").GetFailures(); got != 0 {
			t.Errorf("classes %v: got %d failures of the worker, want none", classes, got)
		}
	}
}

// A class that nobody can evaluate has failed; the others have their answers.
func TestAClassThatNobodyCanEvaluateFailsAlone(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := fullCluster(t, 8, 200)
	f := fleet.fanout(t, c, 2, fanout.Config{})
	asked := preemptors(t, c, 10)
	want, err := f.PreemptAll(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	f.Pool().Before = func(c *scorer.Class) {
		if c == asked[1].Class {
			panic("poison")
		}
	}
	for _, p := range fleet.proxies {
		p.script(nil, failing(asked[1].Class.ID()))
	}
	got, err := f.PreemptAll(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	var panicked *scan.Panic
	if !errors.As(got[1].Failed, &panicked) {
		t.Errorf("the class that panics: got error %v, want a panic", got[1].Failed)
	}
	if diff := gocmp.Diff(foundIn(want[0]), foundIn(got[0])); got[0].Failed != nil || diff != "" {
		t.Errorf("the other class: got error %v, and other candidates (-before +beside the one that fails):\n%s", got[0].Failed, diff)
	}
}

func TestARefusalThatWasNotAskedForIsNotBelieved(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(4)
	c.addNodes(t, 0, 100)
	f := fleet.fanout(t, c, 1, fanout.Config{})
	fleet.proxies["w0"].script(nil, wire.Changed(func(resp *wire.Response) {
		for _, r := range resp.Results {
			last(r.Groups).LateFilter = 1
		}
	}))
	c.wantSame(t, f, requests(t, 5, false, spreadQuery(1)))
	if got := f.Stats().LocalShards; got == 0 {
		t.Error("got no shard evaluated here, want those of the liar")
	}
}

func TestAnOverflowInTheSecondRoundIsNotBelieved(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(4)
	c.addNodes(t, 0, 300)
	f := fleet.fanout(t, c, 1, fanout.Config{})
	fleet.proxies["w0"].script(nil, wire.Changed(func(resp *wire.Response) {
		for _, r := range resp.Results {
			r.Overflow, r.Groups = true, nil
		}
	}))
	c.wantSame(t, f, requests(t, 5, false, query(2, 500, true)))
	if got := f.Stats(); got.SecondRounds != 1 || got.LocalShards != 4 {
		t.Errorf("got %+v, want a second round and its 4 shards evaluated here", got)
	}
}

func TestPassesAreToldOnceAClassAndPlugin(t *testing.T) {
	fleet := newFleet(t, 3, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 300)
	calls := map[string]int{}
	f := fleet.fanout(t, c, 2, fanout.Config{OnPasses: func(_ int, passes []scan.Pass) {
		for _, p := range passes {
			calls[scorer.PluginName(p.Plugin)+"/"+scorer.ExtensionPointName(p.Point)]++
		}
	}})
	c.wantSame(t, f, requests(t, 5, false, query(1, 100, false), query(2, 500, true)))
	for _, x := range []string{"NodeResourcesFit/Filter", "NodeResourcesFit/Score", "TaintToleration/Score"} {
		if calls[x] != 2 {
			t.Errorf("%s: told %d times, want once for each of 2 classes (all: %v)", x, calls[x], calls)
		}
	}
}

func TestRefreshTakesMembersOverWithoutAnEvaluate(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(8)
	f := fleet.fanout(t, c, 2, fanout.Config{Replicas: 2})
	if got := f.Workers(); len(got) != 0 {
		t.Fatalf("before: got workers %v, want none yet", got)
	}
	if err := f.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b := status(t, f, "w0").GetShards(), status(t, f, "w1").GetShards(); a+b != 8 {
		t.Errorf("got %d and %d shards, want 8 together", a, b)
	}
	for shard, list := range f.ShardOwners() {
		if len(list) != 2 {
			t.Errorf("shard %d: got owners %v, want two", shard, list)
		}
	}
}

func TestWithoutAnythingToAskTheShardsAreBroughtUpToDate(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(3)
	c.addNodes(t, 0, 50)
	f := fleet.fanout(t, c, 1, fanout.Config{})
	if got, err := f.Evaluate(t.Context(), nil); err != nil || len(got) != 0 {
		t.Fatalf("got %v, %v; want nothing", got, err)
	}
	if got := f.Stats().Snapshots; got != 3 {
		t.Fatalf("got %d snapshots, want 3", got)
	}
	c.wantSame(t, f, requests(t, 3, false, query(1, 100, false)))
	if got := f.Stats().Snapshots; got != 3 {
		t.Errorf("got %d snapshots, want no more than 3", got)
	}
}

func TestAPanicOverAnAnswerIsThatAnswersAlone(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := newCluster(8)
	c.addNodes(t, 0, 100)
	f := fleet.fanout(t, c, 2, fanout.Config{AuditEvery: 7, Random: func(int) int { panic("poison") }})
	c.wantSame(t, f, requests(t, 5, false, query(1, 100, false)))
	if got := f.Stats().LocalShards; got != 8 {
		t.Errorf("got %d shards evaluated here, want all", got)
	}
}

// Workers that no round asks are told what has changed. One that has dropped its shards meanwhile keeps them: the next round sends
// snapshots, as ever.
func TestWorkersThatAreNotAskedAreKeptUpToDate(t *testing.T) {
	c := newCluster(4)
	c.addNodes(t, 0, 200)
	fleet := newFleet(t, 2, worker.Config{})
	f := fleet.fanout(t, c, 2, fanout.Config{Replicas: 2})
	reqs := c.requests(t, 5, false, query(1, 100, false))
	for f.Stats().Snapshots < 8 { // those of standby shards one after the other, beside the rounds
		c.wantSame(t, f, reqs)
		f.Settle()
	}
	keepUp := func() {
		t.Helper()
		if err := f.KeepUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.Settle()
	}
	var mu sync.Mutex
	told := map[string]int{} // deltas by worker, in requests without classes
	for id, p := range fleet.proxies {
		p.script(func(_ context.Context, req *pb.EvaluateRequest) error {
			mu.Lock()
			defer mu.Unlock()
			for _, s := range req.GetShards() {
				if len(req.GetClasses()) == 0 {
					told[id] += len(s.GetDeltas())
				}
			}
			return nil
		}, nil)
	}
	c.churn(t, rand.New(rand.NewPCG(1, 1)), 50)
	keepUp()
	if told["w0"] == 0 || told["w0"] != told["w1"] {
		t.Errorf("got deltas %v, want as many for both workers: each holds all shards", told)
	}
	c.wantSame(t, f, reqs)

	before := f.Stats()
	fleet.proxies["w0"].restart()
	c.churn(t, rand.New(rand.NewPCG(2, 2)), 50)
	keepUp()
	c.wantSame(t, f, reqs)
	f.Settle()
	if after := f.Stats(); after.LocalShards != before.LocalShards || after.Snapshots == before.Snapshots {
		t.Errorf("got %d shards on the own tables and %d snapshots, want none and some", after.LocalShards-before.LocalShards, after.Snapshots-before.Snapshots)
	}
	owners := f.ShardOwners()
	for shard, list := range owners {
		if len(list) != 2 {
			t.Errorf("shard %d: got owners %v, want both workers", shard, list)
		}
	}
}

// What is evaluated here by choice is told apart from what no worker was there for.
func TestShardsEvaluatedHereAreCountedByWhy(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := newCluster(4)
	c.addNodes(t, 0, 100)
	registry := prometheus.NewRegistry()
	f := fleet.fanout(t, c, 1, fanout.Config{Registerer: registry})
	reqs := requests(t, 5, false, query(1, 100, false))
	want := func(when string, chosen, missing int) {
		t.Helper()
		text := fmt.Sprintf(`# HELP shardsched_fanout_local_shards_total Shards evaluated on the coordinator's own tables, once a round, by why: chosen, or missing where no worker has the shard or answered in time.
# TYPE shardsched_fanout_local_shards_total counter
shardsched_fanout_local_shards_total{why="chosen"} %d
shardsched_fanout_local_shards_total{why="missing"} %d
`, chosen, missing)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "shardsched_fanout_local_shards_total"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	c.wantSame(t, f, reqs)
	want("by the worker", 0, 0)
	if _, err := f.EvaluateHere(t.Context(), reqs); err != nil {
		t.Fatal(err)
	}
	want("by choice", 4, 0)
	fleet.proxies["w0"].server.Stop()
	c.wantSame(t, f, reqs)
	want("the worker is gone", 4, 4)
}
