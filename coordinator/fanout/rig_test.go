package fanout_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/test/bufconn"

	"github.com/cespare/xxhash/v2"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/worker"
)

const gib = 1 << 30

// cluster is a coordinator's tables in some number of shards, and beside them one
// table of all nodes, which nobody shards.
type cluster struct {
	tables []*scorer.Table
	logs   [][]*pb.Delta
	kept   int // deltas that a shard keeps
	whole  *scorer.Table
	rows   map[uint32][2]uint32 // row of whole: shard, row
	used   []uint32             // rows of each shard
	pods   map[uint32][]uint64  // row of whole: numbers of the pods of 100m there
	tick   uint64               // decisions so far, and numbers of pods
}

func newCluster(shards int) *cluster {
	c := &cluster{
		tables: make([]*scorer.Table, shards), logs: make([][]*pb.Delta, shards), kept: 1 << 30,
		whole: scorer.NewTable(0), rows: map[uint32][2]uint32{}, used: make([]uint32, shards), pods: map[uint32][]uint64{},
	}
	for i := range c.tables {
		c.tables[i] = scorer.NewTable(uint32(i))
	}
	return c
}

func (c *cluster) NumShards() int                { return len(c.tables) }
func (c *cluster) Table(shard int) *scorer.Table { return c.tables[shard] }

func (c *cluster) Deltas(shard int, after uint64) ([]*pb.Delta, bool) {
	log := c.logs[shard]
	if after > uint64(len(log)) || len(log)-int(after) > c.kept {
		return nil, false
	}
	return log[after:], true
}

// apply changes a node, named by its row in the whole table, in both pictures.
func (c *cluster) apply(t testing.TB, row uint32, name string, d *pb.Delta) {
	t.Helper()
	at, ok := c.rows[row]
	if !ok {
		shard := uint32(xxhash.Sum64String(name) % uint64(len(c.tables)))
		at = [2]uint32{shard, c.used[shard]}
		c.used[shard]++
		c.rows[row] = at
	}
	mine := &pb.Delta{Row: at[1], Change: d.GetChange(), Decision: d.GetDecision(), Pod: d.GetPod()}
	whole := &pb.Delta{Row: row, Change: d.GetChange(), Decision: d.GetDecision(), Pod: d.GetPod()}
	if err := c.tables[at[0]].Apply(mine); err != nil {
		t.Fatalf("apply to shard %d: %v", at[0], err)
	}
	if err := c.whole.Apply(whole); err != nil {
		t.Fatalf("apply to the whole table: %v", err)
	}
	c.logs[at[0]] = append(c.logs[at[0]], mine)
}

// node is a node of the given number: sizes, zones and taints vary.
func node(i int) *pb.Node {
	n := &pb.Node{
		Name:        fmt.Sprintf("node-%05d", i),
		Labels:      []*pb.Label{{Key: "tier", Value: fmt.Sprintf("t%d", i%11)}, {Key: "zone", Value: fmt.Sprintf("z%d", i%3)}},
		Allocatable: &pb.Resources{MilliCpu: int64(2000 + 1000*(i%5)), MemoryBytes: int64(4+i%7) * gib},
		AllowedPods: 110,
	}
	if i%7 == 0 {
		n.Taints = []*pb.Taint{{Key: "old", Effect: pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE}}
	}
	if i%13 == 0 {
		n.Taints = append(n.Taints, &pb.Taint{Key: "down", Effect: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE})
	}
	return n
}

// addNodes makes nodes from … to-1.
func (c *cluster) addNodes(t testing.TB, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		n := node(i)
		c.apply(t, uint32(i), n.GetName(), &pb.Delta{Change: &pb.Delta_SetNode{SetNode: n}})
	}
}

// usage is a pod of 100m that counter 1 counts.
func usage() *pb.PodUsage {
	return &pb.PodUsage{
		Requests:        &pb.Resources{MilliCpu: 100, MemoryBytes: gib / 10},
		NonZeroMilliCpu: 100, NonZeroMemoryBytes: gib / 10,
		Counters: []*pb.CounterValue{{Counter: 1, Value: 1}},
	}
}

// churn makes n random changes: pods come and go, nodes change.
func (c *cluster) churn(t testing.TB, rng *rand.Rand, n int) {
	t.Helper()
	if len(c.rows) == 0 {
		return
	}
	for range n {
		row := uint32(rng.IntN(len(c.rows)))
		name := fmt.Sprintf("node-%05d", row)
		switch x := rng.IntN(10); {
		case x < 6:
			c.tick++
			c.pods[row] = append(c.pods[row], c.tick)
			p := &pb.PlacedPod{Number: c.tick, Priority: int32(rng.IntN(4)), StartMicros: rng.Int64N(5)}
			if rng.IntN(3) == 0 {
				p.Budgets = []uint32{1}
			}
			c.apply(t, row, name, &pb.Delta{Change: &pb.Delta_AddPod{AddPod: usage()}, Decision: c.tick, Pod: p})
		case x < 8 && len(c.pods[row]) > 0:
			number := c.pods[row][0]
			c.pods[row] = c.pods[row][1:]
			c.apply(t, row, name, &pb.Delta{Change: &pb.Delta_RemovePod{RemovePod: usage()}, Pod: &pb.PlacedPod{Number: number}})
		default:
			changed := node(int(row))
			changed.Unschedulable = rng.IntN(2) == 0
			c.apply(t, row, name, &pb.Delta{Change: &pb.Delta_SetNode{SetNode: changed}})
		}
	}
}

// query is a class that asks for cpu, prefers zones, and with keys more than
// MaxGroups rows differ in.
func query(id uint64, milliCPU int64, manyKeys bool) *pb.Query {
	scored := []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: milliCPU}, {Name: "memory", Weight: 1, Request: gib}}
	q := &pb.Query{
		ClassId: id,
		Filters: []pb.Plugin{
			pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE, pb.Plugin_PLUGIN_TAINT_TOLERATION,
			pb.Plugin_PLUGIN_NODE_AFFINITY, pb.Plugin_PLUGIN_NODE_RESOURCES_FIT,
		},
		Scores: []*pb.ScoreWeight{
			{Plugin: pb.Plugin_PLUGIN_TAINT_TOLERATION, Weight: 3},
			{Plugin: pb.Plugin_PLUGIN_NODE_AFFINITY, Weight: 2},
			{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, Weight: 1},
			{Plugin: pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION, Weight: 1},
		},
		NodeAffinity: &pb.NodeAffinityQuery{Preferred: []*pb.PreferredTerm{prefer(10, "zone", "z1"), prefer(3, "zone", "z2")}},
		Fit: &pb.FitQuery{
			Requests:    &pb.Resources{MilliCpu: milliCPU, MemoryBytes: gib},
			ScoringType: pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED,
			Scored:      scored,
		},
		Balanced: &pb.BalancedQuery{Scored: scored},
	}
	for i := 0; manyKeys && i < 11; i++ {
		q.NodeAffinity.Preferred = append(q.NodeAffinity.Preferred, prefer(int32(4+7*i), "tier", fmt.Sprintf("t%d", i)))
	}
	return q
}

// spreadQuery is a class with a group part: spread over zones, and over nodes as one by
// one, ahead of the filter for resources.
func spreadQuery(id uint64) *pb.Query {
	q := query(id, 100, false)
	count := []*pb.CounterTerm{{Counter: 1, Weight: 1}}
	q.Filters = slices.Insert(q.Filters, 2, pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD)
	q.DomainKeys = []string{"zone"}
	q.RowValues = []*pb.RowValue{{TopologyKey: "tier", Counters: count}}
	q.Measures = []*pb.Measure{
		{By: pb.Breakdown_BREAKDOWN_DOMAIN, TopologyKey: "zone", Counters: count, Inclusion: &pb.Inclusion{HonourTaints: true}},
		{By: pb.Breakdown_BREAKDOWN_VALUE, Counters: count},
		{By: pb.Breakdown_BREAKDOWN_TOTAL, Counters: count},
	}
	q.Spread = &pb.SpreadQuery{Hard: []*pb.HardConstraint{
		{Place: &pb.Place{In: &pb.Place_Domain{}}, MaxSkew: 1, MinDomains: 1, SelfMatch: true},
		{Place: &pb.Place{In: &pb.Place_RowValue{}, Measure: 1}, MaxSkew: 2, MinDomains: 1, SelfMatch: true},
	}}
	return q
}

// pinnedQuery is a class with pinned sums: of pods that would keep it from their tiers, and of pods that it is
// scored by in zones and tiers.
func pinnedQuery(id uint64) *pb.Query {
	q := query(id, 1900, false)
	q.Filters = slices.Insert(q.Filters, 2, pb.Plugin_PLUGIN_INTER_POD_AFFINITY)
	q.Scores = append(q.Scores, &pb.ScoreWeight{Plugin: pb.Plugin_PLUGIN_INTER_POD_AFFINITY, Weight: 2})
	terms := func(key string, weight int64) *pb.PinnedTerms {
		return &pb.PinnedTerms{TopologyKey: key, Counters: []*pb.CounterTerm{{Counter: 1, Weight: weight}}}
	}
	q.RowValues = []*pb.RowValue{
		{Pinned: []*pb.PinnedTerms{terms("tier", 1)}, Clamp: true, Forbids: true},
		{Pinned: []*pb.PinnedTerms{terms("tier", -3), terms("zone", 2)}},
	}
	q.InterPodAffinity = &pb.InterPodAffinityQuery{
		ExistingAnti: []*pb.Place{{In: &pb.Place_RowValue{}}}, Preferred: []*pb.Place{{In: &pb.Place_RowValue{RowValue: 1}}},
	}
	return q
}

func prefer(weight int32, key, value string) *pb.PreferredTerm {
	return &pb.PreferredTerm{Weight: weight, Term: &pb.SelectorTerm{Labels: []*pb.LabelRequirement{
		{Key: key, Operator: pb.SelectorOperator_SELECTOR_OPERATOR_IN, Values: []string{value}},
	}}}
}

// requests are one request for each query, which pins nothing.
func requests(t testing.TB, candidates int, diagnose bool, queries ...*pb.Query) []fanout.Request {
	t.Helper()
	return newCluster(0).requests(t, candidates, diagnose, queries...)
}

// requests are one request for each query, pinned.
func (c *cluster) requests(t testing.TB, candidates int, diagnose bool, queries ...*pb.Query) []fanout.Request {
	t.Helper()
	out := make([]fanout.Request, len(queries))
	for i, q := range queries {
		class, err := scorer.NewClass(q)
		if err != nil {
			t.Fatalf("class: %v", err)
		}
		class = class.Pin(slices.Values(c.tables))
		out[i] = fanout.Request{Class: class, Candidates: candidates, Diagnose: diagnose}
	}
	return out
}

// answer is a result with rows told by their nodes' names, so that it does not
// matter how they are sharded.
type answer struct {
	Rows, Feasible int
	Normalised     bool
	Groups         []answerGroup
	Measures       []scorer.MeasureResult
	Reasons        []scorer.ReasonCount
}

type answerGroup struct {
	Key   scorer.Key
	Rows  int
	Nodes []string // "name score", best first
}

func answerOf(r *scorer.Result, table func(shard uint32) *scorer.Table) answer {
	a := answer{
		Rows: r.Rows, Feasible: r.Feasible, Normalised: r.Normalised,
		Measures: append([]scorer.MeasureResult(nil), r.Measures...),
		Reasons:  append([]scorer.ReasonCount(nil), r.Reasons...),
	}
	for i := range a.Measures {
		if m := &a.Measures[i]; len(m.Cells) == 0 {
			m.By = 0 // a message does not tell
		}
	}
	for _, g := range r.Groups {
		x := answerGroup{Key: g.Key, Rows: g.Rows}
		for _, c := range g.Candidates {
			x.Nodes = append(x.Nodes, fmt.Sprintf("%s %d", table(c.Shard).Name(c.Row), c.Score))
		}
		a.Groups = append(a.Groups, x)
	}
	return a
}

// cutAs cuts groups after as many candidates as another answer has: parts name their shares, so that fewer than all that are
// wanted may come out. Half of them are there in any case.
func (a *answer) cutAs(o *answer) {
	for i := range min(len(a.Groups), len(o.Groups)) {
		if n, all := len(o.Groups[i].Nodes), len(a.Groups[i].Nodes); n < all && 2*n >= all {
			a.Groups[i].Nodes = a.Groups[i].Nodes[:n]
		}
	}
}

// want evaluates the whole table directly, in two rounds where groups overflow.
func (c *cluster) want(reqs []fanout.Request) []answer {
	out := make([]answer, len(reqs))
	e := scorer.NewEvaluator(nil)
	for i, q := range reqs {
		o := scorer.Options{Candidates: q.Candidates, Diagnose: q.Diagnose}
		var r scorer.Result
		r.Reset(q.Class.ID(), q.Candidates)
		e.Evaluate(c.whole, q.Class, o, &r)
		if r.Overflow {
			reasons := r.Reasons
			o.Diagnose, o.Normalise, o.Extrema = false, true, slices.Clone(r.Extrema)
			var second scorer.Result
			second.Reset(q.Class.ID(), q.Candidates)
			e.Evaluate(c.whole, q.Class, o, &second)
			r = second
			r.Reasons, r.Normalised = reasons, true
		}
		out[i] = answerOf(&r, func(uint32) *scorer.Table { return c.whole })
	}
	return out
}

// wantSame evaluates through f and directly, and compares.
func (c *cluster) wantSame(t testing.TB, f *fanout.Fanout, reqs []fanout.Request) {
	t.Helper()
	results, err := f.Evaluate(t.Context(), reqs)
	if err != nil {
		t.Fatalf("evaluate: %v", err)
	}
	c.wantResults(t, results, reqs)
}

// wantResults compares what f answered.
func (c *cluster) wantResults(t testing.TB, results []*scorer.Result, reqs []fanout.Request) {
	t.Helper()
	got := make([]answer, len(results))
	for i, r := range results {
		got[i] = answerOf(r, func(shard uint32) *scorer.Table { return c.tables[shard] })
	}
	want := c.want(reqs)
	for i := range want {
		want[i].cutAs(&got[i])
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("answers (-one table, directly +shards and workers):\n%s", diff)
	}
}

// proxy stands before a worker: the worker behind it can be exchanged, and
// requests can be looked at and held up.
type proxy struct {
	pb.UnimplementedWorkerServiceServer
	listener *bufconn.Listener
	server   *grpc.Server

	mu     sync.Mutex
	worker *worker.Server
	load   func(ctx context.Context) // before each LoadSnapshot; nil: nothing
	before func(ctx context.Context, req *pb.EvaluateRequest) error
	after  func(resp *pb.EvaluateResponse)
}

func (p *proxy) Evaluate(ctx context.Context, req *pb.EvaluateRequest) (*pb.EvaluateResponse, error) {
	p.mu.Lock()
	w, before, after := p.worker, p.before, p.after
	p.mu.Unlock()
	if before != nil {
		if err := before(ctx, req); err != nil {
			return nil, err
		}
	}
	resp, err := w.Evaluate(ctx, req)
	if after != nil && err == nil {
		after(resp)
	}
	return resp, err
}

func (p *proxy) LoadSnapshot(s grpc.ClientStreamingServer[pb.LoadSnapshotRequest, pb.LoadSnapshotResponse]) error {
	p.mu.Lock()
	w, load := p.worker, p.load
	p.mu.Unlock()
	if load != nil {
		load(s.Context())
	}
	return w.LoadSnapshot(s)
}

// script sets what happens before and after each Evaluate of the worker.
func (p *proxy) script(before func(ctx context.Context, req *pb.EvaluateRequest) error, after func(resp *pb.EvaluateResponse)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.after = before, after
}

// restart exchanges the worker for an empty one.
func (p *proxy) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worker = worker.New(worker.Config{Cluster: "blue", Cores: 1})
}

// fleet is some workers, by id.
type fleet struct {
	t       testing.TB
	proxies map[string]*proxy
	stats   stats.Handler // of clients; nil: none
}

// newFleet starts workers named w0, w1 and so on; each has a registry of its own.
func newFleet(t testing.TB, n int, cfg worker.Config, options ...grpc.ServerOption) *fleet {
	t.Helper()
	f := &fleet{t: t, proxies: map[string]*proxy{}}
	for i := range n {
		cfg := cfg
		cfg.Cluster, cfg.Cores = cmp.Or(cfg.Cluster, "blue"), max(cfg.Cores, 1)
		cfg.Registerer = prometheus.NewRegistry()
		p := &proxy{listener: bufconn.Listen(1 << 20), server: grpc.NewServer(options...), worker: worker.New(cfg)}
		pb.RegisterWorkerServiceServer(p.server, p)
		served := make(chan error, 1)
		go func() { served <- p.server.Serve(p.listener) }()
		t.Cleanup(func() {
			p.server.Stop()
			<-served
		})
		f.proxies[fmt.Sprintf("w%d", i)] = p
	}
	return f
}

// members describes the first n workers.
func (f *fleet) members(n int) []fanout.Member {
	out := make([]fanout.Member, 0, n)
	for i := range n {
		id := fmt.Sprintf("w%d", i)
		out = append(out, fanout.Member{ID: id, Address: id, Cores: 1})
	}
	return out
}

// dial reaches the fleet's workers by their ids.
func (f *fleet) dial(ctx context.Context, m fanout.Member) (pb.WorkerServiceClient, io.Closer, error) {
	p := f.proxies[m.ID]
	options := []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return p.listener.DialContext(ctx)
	})}
	if f.stats != nil {
		options = append(options, grpc.WithStatsHandler(f.stats))
	}
	return fanout.Dialer(options...)(ctx, m)
}

// fanout makes a Fanout of the first n workers for a cluster.
func (f *fleet) fanout(t testing.TB, c *cluster, n int, cfg fanout.Config) *fanout.Fanout {
	t.Helper()
	cfg.Cluster, cfg.Shards, cfg.Dial = cmp.Or(cfg.Cluster, "blue"), c, f.dial
	cfg.Term = cmp.Or(cfg.Term, 1)
	// However loaded the machine is that runs the test, only the script makes a
	// worker slow.
	cfg.Deadline, cfg.HedgeAfter = cmp.Or(cfg.Deadline, time.Hour), cmp.Or(cfg.HedgeAfter, time.Hour)
	x := fanout.New(cfg)
	t.Cleanup(x.Close)
	x.SetMembers(f.members(n))
	return x
}

// status finds a worker's.
func status(t testing.TB, f *fanout.Fanout, id string) *pb.WorkerStatus {
	t.Helper()
	list := f.Workers()
	i := slices.IndexFunc(list, func(s *pb.WorkerStatus) bool { return s.GetId() == id })
	if i < 0 {
		t.Fatalf("worker %s is not among %v", id, list)
	}
	return list[i]
}
