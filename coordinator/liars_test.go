package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/internal/testkit/wire"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/worker"
)

// liar is a worker, reached without a network, that lies in so many of 100 answers: as a worker would that
// somebody has taken over, or whose memory is broken.
type liar struct {
	worker *worker.Server
	often  int           // of 100
	dry    bool          // it lies in dry runs alone
	takes  time.Duration // for each answer

	mu   sync.Mutex
	rand *rand.Rand
	// old are answers of before, by class, of dry runs by its complement.
	old  map[uint64]*pb.EvaluateResponse
	told map[string]int // lies
}

// newLiars makes a fleet for a scheduler's Fanout: as many workers as there are numbers, which say how often
// each lies.
func newLiars(seed uint64, often ...int) (liars []*liar, members []fanout.Member, dial fanout.Dial) {
	byID := map[string]*liar{}
	for i, n := range often {
		x := &liar{
			worker: worker.New(worker.Config{Cluster: "test", Cores: 1}), often: n,
			rand: rand.New(rand.NewPCG(seed, uint64(i))), old: map[uint64]*pb.EvaluateResponse{}, told: map[string]int{},
		}
		id := fmt.Sprintf("w%d", i)
		byID[id] = x
		liars, members = append(liars, x), append(members, fanout.Member{ID: id, Address: id + ":1", Cores: 1})
	}
	return liars, members, func(_ context.Context, m fanout.Member) (pb.WorkerServiceClient, io.Closer, error) {
		return byID[m.ID], byID[m.ID], nil
	}
}

func (x *liar) Close() error { return nil }

// Evaluate answers as the worker would, or lies.
func (x *liar) Evaluate(ctx context.Context, req *pb.EvaluateRequest, _ ...grpc.CallOption) (*pb.EvaluateResponse, error) {
	resp, err := x.worker.Evaluate(ctx, proto.CloneOf(req))
	if err != nil {
		return nil, err
	}
	time.Sleep(x.takes) // synctest's clock
	if resp, err = x.answer(ctx, req, resp); errors.Is(err, errHang) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return resp, err
}

// count adds the lies that it has told.
func (x *liar) count(into map[string]int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, n := range x.told {
		into[name] += n
	}
}

// errHang has the caller wait in vain.
var errHang = errors.New("hang")

// answer is what the worker says, or a lie.
func (x *liar) answer(ctx context.Context, req *pb.EvaluateRequest, resp *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.rand.IntN(100) >= x.often || x.dry && len(resp.GetPreemptions()) == 0 {
		x.remember(resp)
		return resp, nil
	}
	return x.lie(ctx, req, proto.CloneOf(resp))
}

// remember keeps an answer, to give it again when it is old.
func (x *liar) remember(resp *pb.EvaluateResponse) {
	for _, r := range resp.GetResults() {
		x.old[r.GetClassId()] = resp
	}
	for _, r := range resp.GetPreemptions() {
		x.old[^r.GetClassId()] = resp
	}
}

// LoadSnapshot hands the chunks to the worker.
func (x *liar) LoadSnapshot(ctx context.Context, _ ...grpc.CallOption) (grpc.ClientStreamingClient[pb.LoadSnapshotRequest, pb.LoadSnapshotResponse], error) {
	return &snapshotStream{ctx: ctx, worker: x.worker}, nil
}

// snapshotStream is both ends of a snapshot's stream.
type snapshotStream struct {
	grpc.ClientStream
	ctx    context.Context
	worker *worker.Server
	chunks []*pb.LoadSnapshotRequest
}

func (s *snapshotStream) Send(chunk *pb.LoadSnapshotRequest) error {
	s.chunks = append(s.chunks, proto.CloneOf(chunk))
	return nil
}

func (s *snapshotStream) CloseAndRecv() (*pb.LoadSnapshotResponse, error) {
	end := &snapshotEnd{from: s}
	err := s.worker.LoadSnapshot(end)
	return end.resp, err
}

// snapshotEnd is the worker's.
type snapshotEnd struct {
	grpc.ServerStream
	from *snapshotStream
	resp *pb.LoadSnapshotResponse
}

func (s *snapshotEnd) Context() context.Context { return s.from.ctx }

func (s *snapshotEnd) Recv() (*pb.LoadSnapshotRequest, error) {
	if len(s.from.chunks) == 0 {
		return nil, io.EOF
	}
	chunk := s.from.chunks[0]
	s.from.chunks = s.from.chunks[1:]
	return chunk, nil
}

func (s *snapshotEnd) SendAndClose(resp *pb.LoadSnapshotResponse) error {
	s.resp = resp
	return nil
}

// lie makes something else of an answer.
func (x *liar) lie(ctx context.Context, req *pb.EvaluateRequest, resp *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
	all := lies
	switch { // most of the time it has something to say
	case x.dry:
		all = liesOfDryRuns
	case len(resp.GetResults()) > 0:
		all = slices.Concat(all, liesOfResults, liesOfResults)
	case len(resp.GetPreemptions()) > 0:
		all = slices.Concat(all, liesOfDryRuns, liesOfDryRuns)
	}
	l := all[x.rand.IntN(len(all))]
	x.told[l.name]++
	return l.tell(x, ctx, req, resp)
}

// lying is one way to lie.
type lying struct {
	name string
	tell func(x *liar, ctx context.Context, req *pb.EvaluateRequest, resp *pb.EvaluateResponse) (*pb.EvaluateResponse, error)
}

// lies need no result.
var lies = []lying{
	{"an error", func(x *liar, _ context.Context, _ *pb.EvaluateRequest, _ *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
		return nil, status.Error(codes.Code(1+x.rand.IntN(16)), "a lie")
	}},
	{"a newer term", func(*liar, context.Context, *pb.EvaluateRequest, *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
		return nil, status.Error(codes.FailedPrecondition, "term 99 has been here")
	}},
	{"nothing until it is too late", func(*liar, context.Context, *pb.EvaluateRequest, *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
		return nil, errHang
	}},
	{"it lacks what it has", func(x *liar, _ context.Context, req *pb.EvaluateRequest, _ *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
		out := &pb.EvaluateResponse{}
		for _, s := range req.GetShards() {
			if x.rand.IntN(2) == 0 {
				out.NeedSnapshots = append(out.NeedSnapshots, s.GetShard())
			}
		}
		for _, c := range req.GetClasses() {
			if x.rand.IntN(2) == 0 {
				out.NeedClasses = append(out.NeedClasses, c.GetClassId())
			}
		}
		return out, nil
	}},
	{"it has what it lacks", func(_ *liar, _ context.Context, req *pb.EvaluateRequest, _ *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
		out := &pb.EvaluateResponse{}
		for _, c := range req.GetClasses() {
			out.Results = append(out.Results, &pb.ClassResult{ClassId: c.GetClassId()})
		}
		return out, nil
	}},
	{"garbage", func(x *liar, _ context.Context, _ *pb.EvaluateRequest, resp *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
		bytes, err := proto.Marshal(resp)
		for range 1 + x.rand.IntN(4) {
			if len(bytes) > 0 {
				bytes[x.rand.IntN(len(bytes))] = byte(x.rand.IntN(256))
			}
		}
		out := &pb.EvaluateResponse{}
		if err == nil {
			err = proto.Unmarshal(bytes, out)
		}
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error()) // as gRPC does
		}
		return out, nil
	}},
	{"what was true before", func(x *liar, _ context.Context, req *pb.EvaluateRequest, resp *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
		var old *pb.EvaluateResponse
		for _, c := range req.GetClasses() {
			old = cmp.Or(old, x.old[c.GetClassId()])
		}
		for _, p := range req.GetPreemptions() {
			old = cmp.Or(old, x.old[^p.GetClassId()])
		}
		return proto.CloneOf(cmp.Or(old, resp)), nil
	}},
}

// ofResults is a lie about some of the results.
func ofResults(name string, change func(r *rand.Rand, shards []*pb.ShardDeltas, result *wire.Result)) lying {
	return lying{name, func(x *liar, _ context.Context, req *pb.EvaluateRequest, resp *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
		open := wire.Open(resp)
		one := x.rand.IntN(len(open.Results) + 1) // this one, or all
		for i, r := range open.Results {
			if i == one || one == len(open.Results) {
				change(x.rand, req.GetShards(), r)
			}
		}
		open.Close()
		return resp, nil
	}}
}

// ofGroups is a lie about a group.
func ofGroups(name string, change func(r *rand.Rand, shards []*pb.ShardDeltas, g *wire.Group)) lying {
	return ofResults(name, func(r *rand.Rand, shards []*pb.ShardDeltas, result *wire.Result) {
		for _, g := range result.Groups {
			if r.IntN(2) == 0 {
				change(r, shards, g)
			}
		}
		add(result)
	})
}

// add makes an answer's number of feasible rows what its groups add up to, so that it is not seen at once.
func add(result *wire.Result) {
	if result.GetOverflow() {
		return
	}
	result.Feasible = 0
	for _, g := range result.Groups {
		result.Feasible += g.Rows
	}
	result.Feasible = min(result.Feasible, result.GetRows())
}

var liesOfResults = []lying{
	ofGroups("scores", func(r *rand.Rand, _ []*pb.ShardDeltas, g *wire.Group) {
		for i := range g.CandidateScores {
			g.CandidateScores[i] += int64(r.IntN(201) - 100)
		}
	}),
	ofGroups("other rows", func(r *rand.Rand, shards []*pb.ShardDeltas, g *wire.Group) {
		for i := range g.CandidateRows {
			g.CandidateShards[i], g.CandidateRows[i] = uint32(r.IntN(len(shards))), uint32(r.IntN(12))
		}
	}),
	ofGroups("rows left out", func(r *rand.Rand, _ []*pb.ShardDeltas, g *wire.Group) {
		n := r.IntN(len(g.CandidateRows) + 1)
		g.Cut(n)
		g.Rows -= min(g.Rows, uint32(n))
	}),
	ofGroups("rows twice", func(r *rand.Rand, _ []*pb.ShardDeltas, g *wire.Group) {
		for i := range g.CandidateRows {
			from := r.IntN(len(g.CandidateRows))
			g.CandidateShards[i], g.CandidateRows[i] = g.CandidateShards[from], g.CandidateRows[from]
		}
	}),
	ofGroups("counts", func(r *rand.Rand, _ []*pb.ShardDeltas, g *wire.Group) { g.Rows = uint32(r.IntN(20)) }),
	ofGroups("keys", func(r *rand.Rand, _ []*pb.ShardDeltas, g *wire.Group) {
		for i := range g.Key {
			g.Key[i] += int64(r.IntN(21))
		}
		for i := range g.RowValues {
			g.RowValues[i] = int64(r.IntN(3))
		}
	}),
	ofGroups("filters that refuse later", func(r *rand.Rand, _ []*pb.ShardDeltas, g *wire.Group) {
		g.LateFilter, g.LateReasons = uint32(r.IntN(20)), 1<<r.IntN(4)
	}),
	ofGroups("domains", func(r *rand.Rand, _ []*pb.ShardDeltas, g *wire.Group) {
		for i := range g.Domains {
			g.Domains[i] = fmt.Sprintf("zone-%d", r.IntN(3))
		}
	}),
	ofResults("measures", func(r *rand.Rand, _ []*pb.ShardDeltas, result *wire.Result) {
		for _, m := range result.GetMeasures() {
			for i := range m.GetSums() {
				m.Sums[i] = int64(r.IntN(4))
			}
			for i := range m.GetDomains() {
				m.Domains[i] += string(rune('a' + r.IntN(3)))
			}
			for i := range m.GetValues() {
				m.Values[i] = int64(r.IntN(3))
			}
		}
	}),
	ofResults("nothing is feasible", func(_ *rand.Rand, _ []*pb.ShardDeltas, result *wire.Result) {
		result.Groups, result.Feasible, result.Overflow, result.Extrema = nil, 0, false, nil
	}),
	ofResults("groups left out", func(r *rand.Rand, _ []*pb.ShardDeltas, result *wire.Result) {
		result.Groups = result.Groups[r.IntN(len(result.Groups)+1):]
		add(result)
	}),
	ofResults("groups twice", func(r *rand.Rand, _ []*pb.ShardDeltas, result *wire.Result) {
		if n := len(result.Groups); n > 0 {
			result.Groups = append(result.Groups, result.Groups[r.IntN(n)].Clone())
			add(result)
		}
	}),
	ofResults("another class", func(r *rand.Rand, _ []*pb.ShardDeltas, result *wire.Result) { result.ClassId = r.Uint64() }),
	ofResults("reasons", func(r *rand.Rand, _ []*pb.ShardDeltas, result *wire.Result) {
		for _, x := range result.GetReasons() {
			x.Nodes, x.Reason = uint32(r.IntN(9)), "a lie"
		}
		result.Hopeless = uint32(r.IntN(int(result.GetRows()) + 1))
	}),
	ofResults("overflow", func(r *rand.Rand, _ []*pb.ShardDeltas, result *wire.Result) {
		result.Overflow = !result.GetOverflow()
		if result.Groups = nil; result.Overflow {
			result.Extrema = []int64{int64(r.IntN(9)), int64(r.IntN(9))}
		}
	}),
}

var liesOfDryRuns = []lying{
	ofDryRuns("victims", func(r *rand.Rand, p *pb.PreemptionResult) {
		for _, c := range p.GetCandidates() {
			if c.Victims = c.GetVictims()[:max(1, len(c.GetVictims())/2)]; r.IntN(2) == 0 {
				c.Victims[0] = uint64(1 + r.IntN(30))
			}
		}
	}),
	ofDryRuns("victims' nodes", func(r *rand.Rand, p *pb.PreemptionResult) {
		for _, c := range p.GetCandidates() {
			c.Row = uint32(r.IntN(12))
		}
	}),
	ofDryRuns("what victims cost", func(r *rand.Rand, p *pb.PreemptionResult) {
		for _, c := range p.GetCandidates() {
			c.Violations, c.TopPriority, c.PrioritySum, c.EarliestStart = uint32(r.IntN(3)), int32(r.IntN(40)), r.Uint64(), r.Int64N(9)
		}
	}),
	ofDryRuns("candidates left out", func(r *rand.Rand, p *pb.PreemptionResult) {
		p.Candidates = p.GetCandidates()[r.IntN(len(p.GetCandidates())+1):]
	}),
	ofDryRuns("candidates twice", func(r *rand.Rand, p *pb.PreemptionResult) {
		if n := len(p.GetCandidates()); n > 0 {
			p.Candidates[r.IntN(n)] = proto.CloneOf(p.Candidates[r.IntN(n)])
		}
	}),
	ofDryRuns("no candidate", func(r *rand.Rand, p *pb.PreemptionResult) {
		p.Candidates = nil
		if p.Tried = uint32(r.IntN(int(p.GetTried()) + 1)); r.IntN(2) == 0 {
			p.Reasons = []*pb.ReasonCount{{Reason: "a lie", Nodes: p.Tried}}
		}
	}),
}

// ofDryRuns is a lie about dry runs of preemption.
func ofDryRuns(name string, change func(r *rand.Rand, p *pb.PreemptionResult)) lying {
	return lying{name, func(x *liar, _ context.Context, _ *pb.EvaluateRequest, resp *pb.EvaluateResponse) (*pb.EvaluateResponse, error) {
		for _, p := range resp.GetPreemptions() {
			change(x.rand, p)
		}
		return resp, nil
	}}
}
