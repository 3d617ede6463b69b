package fanout_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	gstatus "google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/internal/testkit/wire"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/worker"
)

// leads is a Config.Leads that always says the same.
func leads(still bool, err error) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return still, err }
}

// liar is a fleet of two workers on a fake clock, of which w0 answers as lie says.
type liar struct {
	fleet *fleet
	c     *cluster
	f     *fanout.Fanout
	clock *clocktesting.FakeClock
	reqs  []fanout.Request
}

// newLiar makes one that has answered honestly once.
func newLiar(t *testing.T, cfg fanout.Config, diagnose bool, queries ...*pb.Query) *liar {
	t.Helper()
	x := &liar{fleet: newFleet(t, 2, worker.Config{}), c: newCluster(8), clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	x.c.addNodes(t, 0, 100)
	cfg.Clock = x.clock
	x.f = x.fleet.fanout(t, x.c, 2, cfg)
	x.reqs = requests(t, 5, diagnose, queries...)
	owned(t, x.c, x.f, 2, x.reqs)
	return x
}

// lies has w0 answer so from now on; nil: honestly.
func (x *liar) lies(lie func(*pb.EvaluateResponse)) {
	x.fleet.proxies["w0"].script(nil, func(resp *pb.EvaluateResponse) {
		if lie != nil && len(resp.GetResults()) > 0 {
			lie(resp)
		}
	})
}

// wantQuarantined checks whether w0 is in quarantine, and that no shard is its own then.
func (x *liar) wantQuarantined(t *testing.T, when string, want bool) {
	t.Helper()
	s := status(t, x.f, "w0")
	if got := s.GetQuarantine() != ""; got != want {
		t.Fatalf("%s: got quarantine %q, want it: %t", when, s.GetQuarantine(), want)
	}
	if err := x.f.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for shard, list := range x.f.ShardOwners() {
		for _, id := range list {
			if want && id == "w0" {
				t.Errorf("%s: shard %d is still the liar's", when, shard)
			}
		}
	}
}

func TestQuarantineLastsTwiceAsLongEachTime(t *testing.T) {
	x := newLiar(t, fanout.Config{}, false, query(1, 100, false))
	x.lies(func(r *pb.EvaluateResponse) { r.Results[0].ClassId = 4000 })
	for i, want := range []time.Duration{30, 60, 120, 240, 480, 600, 600} {
		want *= time.Second
		x.c.wantSame(t, x.f, x.reqs) // the lie
		x.c.wantSame(t, x.f, x.reqs)
		x.wantQuarantined(t, "after a lie", true)
		if got := status(t, x.f, "w0").GetQuarantinedUntil().AsTime().Sub(x.clock.Now()); got != want {
			t.Fatalf("quarantine %d: got %v, want %v", i, got, want)
		}
		local := x.f.Stats().LocalShards
		x.clock.Step(want - 1)
		x.c.wantSame(t, x.f, x.reqs)
		x.wantQuarantined(t, "shortly before its end", true)
		if got := x.f.Stats().LocalShards; got != local {
			t.Errorf("quarantine %d: got %d shards evaluated here, want the other worker to have all", i, got-local)
		}
		x.clock.Step(1)
	}
	// An hour without a lie, and the next one counts as the first.
	x.lies(nil)
	x.c.wantSame(t, x.f, x.reqs)
	x.wantQuarantined(t, "afterwards", false)
	x.clock.Step(time.Hour + 1)
	x.lies(func(r *pb.EvaluateResponse) { r.Results[0].ClassId = 4000 })
	x.c.wantSame(t, x.f, x.reqs)
	if got := status(t, x.f, "w0").GetQuarantinedUntil().AsTime().Sub(x.clock.Now()); got != fanout.MinQuarantine {
		t.Errorf("after an hour: got %v, want %v", got, fanout.MinQuarantine)
	}
}

func TestAWorkerComesBackUnderANewIdOnly(t *testing.T) {
	x := newLiar(t, fanout.Config{}, false, query(1, 100, false))
	x.lies(func(r *pb.EvaluateResponse) { r.Results[0].ClassId = 4000 })
	x.c.wantSame(t, x.f, x.reqs)
	x.wantQuarantined(t, "after the lie", true)
	x.lies(nil)
	again := x.fleet.members(2)
	again[0].Cores++ // another session
	x.f.SetMembers(again[1:])
	x.c.wantSame(t, x.f, x.reqs)
	x.f.SetMembers(again)
	x.c.wantSame(t, x.f, x.reqs)
	x.wantQuarantined(t, "registered again under its id", true)
	x.fleet.proxies["fresh"] = x.fleet.proxies["w0"]
	again[0].ID = "fresh"
	x.f.SetMembers(again)
	x.c.wantSame(t, x.f, x.reqs)
	if s := status(t, x.f, "fresh"); s.GetQuarantine() != "" || s.GetShards() == 0 {
		t.Errorf("under a new id: got %v, want shards and no quarantine", s)
	}
}

func TestAClaimOfANewerTermIsConfirmedFirst(t *testing.T) {
	claim := func(context.Context, *pb.EvaluateRequest) error {
		return gstatus.Error(codes.FailedPrecondition, "term 9 has been here")
	}
	for name, cfg := range map[string]fanout.Config{
		"it still leads":          {Leads: leads(true, nil)},
		"that can not be told":    {Leads: leads(false, errors.New("etcd is away"))},
		"there is nobody to tell": {},
	} {
		t.Run(name, func(t *testing.T) {
			x := newLiar(t, cfg, false, query(1, 100, false))
			x.fleet.proxies["w0"].script(claim, nil)
			x.c.wantSame(t, x.f, x.reqs)
			x.wantQuarantined(t, "after the claim", true)
			x.c.wantSame(t, x.f, x.reqs)
		})
	}
	t.Run("it does not lead any more", func(t *testing.T) {
		x := newLiar(t, fanout.Config{Leads: leads(false, nil)}, false, query(1, 100, false))
		x.fleet.proxies["w0"].script(claim, nil)
		if _, err := x.f.Evaluate(t.Context(), x.reqs); !errors.Is(err, fanout.ErrDeposed) {
			t.Errorf("got %v, want ErrDeposed", err)
		}
	})
}

func TestAWorkerThatAnswersNothingButProbesIsQuarantined(t *testing.T) {
	x := newLiar(t, fanout.Config{}, false, query(1, 100, false))
	x.fleet.proxies["w0"].script(func(_ context.Context, req *pb.EvaluateRequest) error {
		if len(req.GetClasses()) == 0 {
			return nil // a probe
		}
		return gstatus.Error(codes.Internal, "no")
	}, nil)
	for i := range 3 {
		x.wantQuarantined(t, "so far", false)
		x.c.wantSame(t, x.f, x.reqs) // an error
		if i < 2 {
			x.clock.Step(time.Second)
			probed(t, x)
		}
	}
	x.wantQuarantined(t, "after three", true)
}

// probed waits for w0 to be well again.
func probed(t *testing.T, x *liar) {
	t.Helper()
	if err := x.f.Refresh(t.Context()); err != nil { // starts the probe
		t.Fatal(err)
	}
	x.f.Settle()
}

func TestWhatDecidesIsHeldAgainstTheOwnTables(t *testing.T) {
	for name, x := range map[string]struct {
		diagnose bool
		query    *pb.Query
		lie      func(r *wire.Result)
	}{
		"a sum that a filter reads": {false, spreadQuery(1), func(r *wire.Result) { r.Measures[0].Sums[0]++ }},
		"a domain that there is not": {false, spreadQuery(1), func(r *wire.Result) {
			r.Measures[0].Domains[0] = "elsewhere"
		}},
		"nothing passes": {true, query(1, 100, false), func(r *wire.Result) { r.Groups, r.Feasible = nil, 0 }},
		"one row less":   {true, query(1, 100, false), func(r *wire.Result) { r.Groups[0].Rows, r.Feasible = r.Groups[0].Rows-1, r.Feasible-1 }},
		"another key":    {true, query(1, 100, false), func(r *wire.Result) { r.Groups[0].Key[1] += 5 }},
		"none of a group": {true, spreadQuery(1), func(r *wire.Result) {
			r.Groups, r.Feasible = r.Groups[1:], r.Feasible-r.Groups[0].Rows
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t, fanout.Config{AuditEvery: -1}, x.diagnose, x.query)
			l.lies(wire.Changed(func(resp *wire.Response) { x.lie(resp.Results[0]) }))
			l.c.wantSame(t, l.f, l.reqs)
			l.wantQuarantined(t, "after the lie", true)
		})
	}
}

func TestAnAuditFindsEveryLie(t *testing.T) {
	audits := fanout.Config{AuditEvery: 100, Random: func(int) int { return 0 }}
	lies := map[string]func(r *wire.Result){
		"a score":      func(r *wire.Result) { r.Groups[0].CandidateScores[0]++ },
		"a row":        func(r *wire.Result) { r.Groups[0].Rows, r.Feasible = r.Groups[0].Rows-1, r.Feasible-1 },
		"a row twice":  func(r *wire.Result) { r.Groups[0].CandidateRows[1] = r.Groups[0].CandidateRows[0] },
		"a reason":     func(r *wire.Result) { r.Reasons[0].Nodes-- },
		"its text":     func(r *wire.Result) { r.Reasons[0].Reason = "nobody knows" },
		"a group":      func(r *wire.Result) { r.Groups, r.Feasible = r.Groups[1:], r.Feasible-r.Groups[0].Rows },
		"its hopeless": func(r *wire.Result) { r.Hopeless-- },
		"its best row": func(r *wire.Result) { worse(r.Groups[0]) },
		"fewer rows":   func(r *wire.Result) { r.Groups[0].Cut(1); hide(r) },
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			x := newLiar(t, audits, true, query(1, 100, false))
			x.lies(wire.Changed(func(resp *wire.Response) { lie(resp.Results[0]) }))
			x.c.wantSame(t, x.f, x.reqs)
			x.wantQuarantined(t, "after the lie", true)
			if why := status(t, x.f, "w0").GetQuarantine(); !strings.Contains(why, "class 1 of shards") {
				t.Errorf("got reason %q, want one that tells the class and the shards", why)
			}
		})
	}
}

// worse has the second best candidate take the place of the best.
func worse(g *wire.Group) {
	g.Cut(1)
	g.CandidateRows, g.CandidateShards = append(g.CandidateRows, last(g.CandidateRows)), append(g.CandidateShards, last(g.CandidateShards))
	g.CandidateScores = append(g.CandidateScores, last(g.CandidateScores))
}

// hide leaves rows of the first group out that are no candidates.
func hide(r *wire.Result) {
	r.Groups[0].Rows = uint32(len(r.Groups[0].CandidateRows))
	r.Feasible = 0
	for _, g := range r.Groups {
		r.Feasible += g.Rows
	}
}

func TestOneInSoManyAnswersIsAudited(t *testing.T) {
	var asked atomic.Int64
	x := newLiar(t, fanout.Config{AuditEvery: 7, Random: func(n int) int {
		if n != 7 {
			t.Errorf("drawn from %d, want 7", n)
		}
		asked.Add(1)
		return 1
	}}, false, query(1, 100, false), query(2, 200, false))
	before := asked.Load()
	x.lies(wire.Changed(func(r *wire.Response) { r.Results[0].Groups[0].CandidateScores[0]++ }))
	if _, err := x.f.Evaluate(t.Context(), x.reqs); err != nil {
		t.Fatal(err)
	}
	x.wantQuarantined(t, "without an audit", false)
	if n := asked.Load() - before; n != 4 {
		t.Errorf("drawn %d times, want once for each of 2 classes and workers", n)
	}
}

func TestADryRunIsAudited(t *testing.T) {
	fleet := newFleet(t, 1, worker.Config{})
	c := fullCluster(t, 4, 100)
	f := fleet.fanout(t, c, 1, fanout.Config{AuditEvery: 1, Random: func(int) int { return 0 }})
	c.wantSamePreemptions(t, f, 1)
	fleet.proxies["w0"].script(nil, func(resp *pb.EvaluateResponse) {
		for _, p := range resp.GetPreemptions() {
			p.Tried--
		}
	})
	c.wantSamePreemptions(t, f, 1)
	if status(t, f, "w0").GetQuarantine() == "" {
		t.Error("the liar is not in quarantine")
	}
}

func TestTheOneThatHasAnsweredIsBlamed(t *testing.T) {
	x := newLiar(t, fanout.Config{}, false, query(1, 100, false))
	results, err := x.f.Evaluate(t.Context(), x.reqs)
	if err != nil {
		t.Fatal(err)
	}
	owners := x.f.ShardOwners()
	for shard, list := range owners {
		if list[0] == "w0" {
			x.f.Blame(t.Context(), results[0].Witnesses.Of(uint32(shard)), errors.New("a test says so"))
			break
		}
	}
	x.c.wantSame(t, x.f, x.reqs)
	x.wantQuarantined(t, "blamed", true)
	if status(t, x.f, "w1").GetQuarantine() != "" {
		t.Error("the other worker is in quarantine, too")
	}
	here, err := x.f.EvaluateHere(t.Context(), x.reqs)
	if err != nil {
		t.Fatal(err)
	}
	x.c.wantResults(t, here, x.reqs)
	x.f.Blame(t.Context(), here[0].Witnesses.Of(0), errors.New("nobody did"))
	if status(t, x.f, "w1").GetQuarantine() != "" {
		t.Error("what was evaluated here is blamed on a worker")
	}
}

// A lie that no other check sees is found at once where two are asked, and so is one in a dry run.
func TestTwoOwnersAreCompared(t *testing.T) {
	x := newLiar(t, fanout.Config{Replicas: 2, Compare: true, AuditEvery: -1}, false, query(1, 100, false), query(2, 500, true))
	if got := x.f.Stats(); got.LocalShards != 0 {
		t.Fatalf("honest workers: got %d shards evaluated here, want none", got.LocalShards)
	}
	if first, second := status(t, x.f, "w0").GetRows(), status(t, x.f, "w1").GetRows(); first != second || first == 0 {
		t.Errorf("got %d and %d rows looked at, want as many of both", first, second)
	}
	x.lies(wire.Changed(func(r *wire.Response) { worse(r.Results[0].Groups[0]) }))
	x.c.wantSame(t, x.f, x.reqs)
	x.wantQuarantined(t, "after the lie", true)
	before := x.f.Stats().LocalShards
	x.c.wantSame(t, x.f, x.reqs) // nobody confirms what the other worker says
	if got := x.f.Stats().LocalShards - before; got != 2*8 {
		t.Errorf("with one worker left: got %d shards evaluated here in two rounds, want all", got)
	}
	x.wantQuarantined(t, "afterwards", true)
	if s := status(t, x.f, "w1"); s.GetQuarantine() != "" || s.GetFailures() > 0 {
		t.Errorf("the honest one: got %v", s)
	}
}

func TestDryRunsOfTwoOwnersAreCompared(t *testing.T) {
	fleet := newFleet(t, 2, worker.Config{})
	c := fullCluster(t, 4, 100)
	f := fleet.fanout(t, c, 2, fanout.Config{Replicas: 2, Compare: true, AuditEvery: -1})
	c.wantSamePreemptions(t, f, 1)
	if got := f.Stats().LocalShards; got != 0 {
		t.Fatalf("honest workers: got %d shards evaluated here, want none", got)
	}
	fleet.proxies["w1"].script(nil, func(resp *pb.EvaluateResponse) {
		for _, p := range resp.GetPreemptions() {
			p.Candidates = nil
		}
	})
	c.wantSamePreemptions(t, f, 1)
	if status(t, f, "w1").GetQuarantine() == "" || status(t, f, "w0").GetQuarantine() != "" {
		t.Error("want the liar in quarantine, and the other not")
	}
}

// Who does not answer confirms nothing.
func TestAComparedAnswerNeedsBoth(t *testing.T) {
	x := newLiar(t, fanout.Config{Replicas: 2, Compare: true}, false, query(1, 100, false))
	x.fleet.proxies["w0"].script(func(context.Context, *pb.EvaluateRequest) error { return gstatus.Error(codes.Internal, "no") }, nil)
	before := x.f.Stats().LocalShards
	x.c.wantSame(t, x.f, x.reqs)
	if got := x.f.Stats().LocalShards - before; got != 8 {
		t.Errorf("got %d shards evaluated here, want all", got)
	}
}

func TestAWorkersPaceIsOfTheRowsThatItWasAskedFor(t *testing.T) {
	x := newLiar(t, fanout.Config{}, false, query(1, 100, false))
	x.lies(func(r *pb.EvaluateResponse) { r.Results[0].Rows = 1 << 20 })
	x.c.wantSame(t, x.f, x.reqs)
	if got := status(t, x.f, "w0").GetRows(); got == 0 || got > 1000 {
		t.Errorf("got %d rows of the worker, want as many as its shards have", got)
	}
}
