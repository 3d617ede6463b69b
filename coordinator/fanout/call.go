package fanout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

// errRoundOver means that a snapshot is wanted of tables that may no longer be read, or that the call before this one, which the
// worker would wait for, has failed.
var errRoundOver = errors.New("the round is over")

// piece answers some of a question's classes for some of a job's shards.
type piece struct {
	from        int // index of the first class
	results     []*pb.ClassResult
	columns     pb.ResultReader // reads what the results have in columns
	shards      []uint32        // that were asked, in ascending order
	preemptions []*pb.PreemptionResult
}

// gap is what a worker could not answer: it has no room for it, or is past it.
type gap struct {
	shards   []uint32
	from, to int // classes
}

// call carries one job out. It belongs to one goroutine.
type call struct {
	fanout  *Fanout
	session *session
	job     *job
	snap    snapshotter
	record  *Record // nil: nothing is written
	backup  bool
	beside  bool         // of rounds: nobody waits for it
	ahead   bool         // of a round ahead: it can't make snapshots
	turn    uint64       // of the round
	follows *turn        // the call that the worker takes first; nil: there is none under way
	loads   *atomic.Bool // set with the first snapshot; nil: nobody asks

	// sent are the shards that got their snapshot in this call, defined the classes
	// that got their definition.
	sent    map[uint32]bool
	defined map[uint64]bool

	pieces []piece
	gaps   []gap
}

// run asks for everything. pieces and gaps are complete unless it errs.
func (c *call) run(ctx context.Context) error {
	q := c.job.ask
	for i := 0; i < len(c.job.shards); i++ {
		s := &c.job.shards[i]
		var err error
		later := !s.known && !c.beside && c.session.loadsSlowly.Load()
		if later {
			c.session.lost(s.shard, s.target) // so that it gets the snapshot as those do that stand by
		} else if err = c.catchUp(ctx, s); errors.Is(err, errTooLarge) {
			c.refuse(ctx, s, err)
			later = true
		}
		if later {
			c.gaps = append(c.gaps, gap{shards: []uint32{s.shard}, from: 0, to: q.len()})
			c.job.shards = slices.Delete(c.job.shards, i, i+1)
			i--
			continue
		}
		if err != nil {
			return err
		}
	}
	for _, group := range c.job.groups() {
		rows, from := rowsOf(group), 0
		for {
			to := c.job.until(from, rows, func(class uint64) bool { return !c.session.knows(class) })
			if err := c.ask(ctx, group, from, to); err != nil {
				return err
			}
			if from = to; from == q.len() {
				break
			}
		}
	}
	return nil
}

// catchUp sends a shard's snapshot, or as many of its deltas ahead as leave few enough for a request
// that asks.
func (c *call) catchUp(ctx context.Context, s *shardJob) error {
	if !s.known {
		return c.load(ctx, s)
	}
	for s.bytes > deltaBudget {
		n, bytes := 0, 0
		for ; n < len(s.deltas); n++ {
			one := deltaBytes(s.deltas[n])
			if n > 0 && bytes+one > deltaBudget {
				break
			}
			bytes += one
		}
		ahead := &shardJob{shard: s.shard, base: s.base, known: true, target: s.base + uint64(n), deltas: s.deltas[:n]}
		start := c.fanout.cfg.Clock.Now()
		callCtx, written := c.record.open(ctx, c.session, []*shardJob{ahead}, c.backup, start)
		resp, err := c.session.client.Evaluate(callCtx, c.request([]*shardJob{ahead}, 0, 0), c.answerLimit([]*shardJob{ahead}, 0, 0))
		written.answered(resp, err, c.fanout.cfg.Clock.Now())
		if err != nil {
			return err
		}
		if contains(resp.GetNeedSnapshots(), s.shard) {
			// It has not got what they follow, and will say so again when it is asked.
			s.base, s.deltas, s.bytes = s.target, nil, 0
			return nil
		}
		c.session.ack(s.shard, ahead.target)
		s.base, s.deltas, s.bytes = ahead.target, s.deltas[n:], s.bytes-bytes
	}
	return nil
}

// refuse keeps a shard away from the worker for a while.
func (c *call) refuse(ctx context.Context, s *shardJob, why error) {
	klog.FromContext(ctx).Error(why, "A shard can not be sent", "worker", c.session.member.ID)
	c.session.refuse(s.shard, c.fanout.cfg.Clock.Now().Add(refusedFor))
}

// ask asks some shards for the classes from … to-1 until it has the answer,
// sending what the worker says it lacks. Every turn sends something for the first
// time, or leaves a shard out, so the turns come to an end.
func (c *call) ask(ctx context.Context, shards []*shardJob, from, to int) error {
	for len(shards) > 0 {
		req := c.request(shards, from, to)
		start := c.fanout.cfg.Clock.Now()
		callCtx, written := c.record.open(ctx, c.session, shards, c.backup, start)
		resp, err := c.session.client.Evaluate(callCtx, req, c.answerLimit(shards, from, to))
		end := c.fanout.cfg.Clock.Now()
		written.answered(resp, err, end)
		if status.Code(err) == codes.ResourceExhausted {
			return c.halve(ctx, shards, from, to)
		}
		if err != nil {
			return err
		}
		if err := resp.Validate(); err != nil {
			return c.session.untrue("%w", err)
		}
		c.session.answered(resp, rowsOf(shards)*min(len(resp.GetResults()), to-from), end.Sub(c.follows.since(start)))
		c.note(req, shards, resp)
		if len(resp.GetNeedSnapshots())+len(resp.GetNeedClasses()) == 0 {
			return c.take(shards, resp, from, to)
		}
		if shards, err = c.supply(ctx, shards, from, to, resp); err != nil {
			return err
		}
	}
	return nil
}

// request is the message for some shards and the classes from … to-1.
func (c *call) request(shards []*shardJob, from, to int) *pb.EvaluateRequest {
	q := c.job.ask
	req := &pb.EvaluateRequest{
		Cluster: c.job.cluster,
		Term:    c.job.term,
		Rules:   scan.Rules(),
		Shards:  make([]*pb.ShardDeltas, len(shards)),
		Turn:    c.turn,
	}
	if c.follows != nil {
		req.Follows = c.follows.number
	}
	if len(q.preemptions) > 0 {
		req.Preemptions = q.preemptions[from:to]
	} else {
		req.Classes, req.Candidates = q.classes[from:to], c.job.candidates[from:to]
	}
	store := make([]pb.ShardDeltas, len(shards))
	for i, s := range shards {
		d := &store[i]
		d.Shard, d.BaseGeneration, d.Generation, d.Deltas = s.shard, s.base, s.target, s.deltas
		req.Shards[i] = d
	}
	c.addDefinitions(req, from, to)
	return req
}

// addDefinitions defines the classes from … to-1 that the worker does not know. A variant goes by its difference, with its original
// where the worker does not know that either; a variant that the worker has asked for goes as a whole query.
func (c *call) addDefinitions(req *pb.EvaluateRequest, from, to int) {
	for i := from; i < to; i++ {
		class, d := c.job.ask.class(i), &c.job.ask.definitions[i]
		switch wanted := c.defined[class]; {
		case !wanted && c.session.knows(class):
		case wanted || d.original == nil:
			req.Queries = append(req.Queries, d.query)
		default:
			if !c.session.knows(d.original.ClassId) && !slices.Contains(req.Queries, d.original) {
				req.Queries = append(req.Queries, d.original)
			}
			req.Variants = append(req.Variants, d.query.Variant(d.original.ClassId))
		}
	}
}

// answerLimit has no answer read that is larger than what was asked for can be: decoded, one takes a hundred times
// as much.
func (c *call) answerLimit(shards []*shardJob, from, to int) grpc.CallOption {
	return grpc.MaxCallRecvMsgSize(c.job.answerLimit(len(shards), rowsOf(shards), from, to))
}

// note takes in what the answer says of the worker: it has the definitions that
// the request carried, and every shard that it does not miss.
func (c *call) note(req *pb.EvaluateRequest, shards []*shardJob, resp *pb.EvaluateResponse) {
	c.session.defined(req)
	for _, s := range shards {
		if !contains(resp.GetNeedSnapshots(), s.shard) {
			c.session.ack(s.shard, s.target)
			s.reach()
		}
	}
}

// take keeps the results if they are those that were asked for. A class that the worker could not
// evaluate is a gap.
func (c *call) take(shards []*shardJob, resp *pb.EvaluateResponse, from, to int) error {
	q, results, dry := c.job.ask, resp.GetResults(), resp.GetPreemptions()
	if n := len(results) + len(dry) + len(resp.GetFailedClasses()); n != to-from {
		return c.session.untrue("%d results for %d classes", n, to-from)
	}
	columns, asked := resp.Reader(), shardsOf(shards)
	if n := resp.GetGroups().GetShards(); len(resp.GetGroups().GetRowRefs()) > 0 && int(n) != len(asked) {
		return c.session.untrue("rows among %d shards, not %d", n, len(asked))
	}
	for from < to {
		end := from
		for end < to && !slices.Contains(resp.GetFailedClasses(), q.class(end)) {
			end++
		}
		p := piece{from: from}
		if len(q.preemptions) > 0 {
			p.preemptions, dry = head(dry, end-from)
		} else {
			p.results, results = head(results, end-from)
			p.columns, p.shards = columns, asked
			for _, result := range p.results {
				columns.Skip(result)
			}
		}
		if err := c.checkPiece(&p, end-from); err != nil {
			return err
		}
		c.pieces = append(c.pieces, p)
		if from = end; from < to {
			c.gaps = append(c.gaps, gap{shards: asked, from: from, to: from + 1})
			from++
		}
	}
	return nil
}

// head cuts a list after n elements, or at its end.
func head[T any](list []T, n int) (first, rest []T) {
	n = min(n, len(list))
	return list[:n], list[n:]
}

// checkPiece checks that results are those of so many classes.
func (c *call) checkPiece(p *piece, n int) error {
	if len(p.results)+len(p.preemptions) != n {
		return c.session.untrue("%d results for %d classes from class %d on", len(p.results)+len(p.preemptions), n, p.from)
	}
	for i := range n {
		got, want := uint64(0), c.job.ask.class(p.from+i)
		if len(p.preemptions) > 0 {
			got = p.preemptions[i].GetClassId()
		} else {
			got = p.results[i].GetClassId()
		}
		if got != want {
			return c.session.untrue("result %d is for class %x, not %x", p.from+i, got, want)
		}
	}
	return nil
}

// shardsOf are the shards of jobs.
func shardsOf(jobs []*shardJob) []uint32 {
	out := make([]uint32, len(jobs))
	for i, s := range jobs {
		out[i] = s.shard
	}
	return out
}

// rowsOf is how many rows the shards of jobs have.
func rowsOf(jobs []*shardJob) int {
	rows := 0
	for _, s := range jobs {
		rows += s.rows
	}
	return rows
}

// supply sends what the worker lacks and returns the shards to ask again: all but
// those for which it has no room, or of which it has a later generation.
func (c *call) supply(ctx context.Context, shards []*shardJob, from, to int, resp *pb.EvaluateResponse) ([]*shardJob, error) {
	news := false
	for _, class := range resp.GetNeedClasses() {
		news = news || !c.defined[class]
		c.define(class)
	}
	c.session.undefined(resp.GetNeedClasses())
	for i := from; i < to; i++ {
		if original := c.job.ask.definitions[i].original; original != nil && slices.Contains(resp.GetNeedClasses(), c.job.ask.class(i)) {
			c.session.undefined([]uint64{original.ClassId}) // without it the worker could not make the variant
		}
	}
	var again []*shardJob
	full := gap{from: from, to: to}
	for _, s := range shards {
		if !contains(resp.GetNeedSnapshots(), s.shard) {
			again = append(again, s)
			continue
		}
		news = true
		if c.ahead { // a later call may have been faster: the next round finds out
			full.shards = append(full.shards, s.shard)
			continue
		}
		c.session.lost(s.shard, s.base)
		if g, ok := c.session.generation(s.shard); ok && g > s.target || c.session.loadsSlowly.Load() {
			// A later call was faster: the worker is past what this one asks for. Or it gets snapshots beside rounds.
			full.shards = append(full.shards, s.shard)
			continue
		}
		if c.sent[s.shard] {
			c.session.refuse(s.shard, c.fanout.cfg.Clock.Now().Add(refusedFor))
			full.shards = append(full.shards, s.shard)
			continue
		}
		if err := c.load(ctx, s); errors.Is(err, errTooLarge) {
			c.refuse(ctx, s, err)
			full.shards = append(full.shards, s.shard)
			continue
		} else if err != nil {
			return nil, err
		}
		again = append(again, s)
	}
	if !news {
		return nil, c.session.untrue("it asks again for classes that it was sent")
	}
	if len(full.shards) > 0 {
		c.gaps = append(c.gaps, full)
	}
	return again, nil
}

// define has a class defined in all further requests of this call.
func (c *call) define(class uint64) {
	if c.defined == nil {
		c.defined = make(map[uint64]bool)
	}
	c.defined[class] = true
}

// halve asks in two requests what was too large for one. What can not be halved
// any more is a gap.
func (c *call) halve(ctx context.Context, shards []*shardJob, from, to int) error {
	if n := to - from; n > 1 {
		if err := c.ask(ctx, shards, from, from+n/2); err != nil {
			return err
		}
		return c.ask(ctx, shards, from+n/2, to)
	}
	if n := len(shards); n > 1 {
		if err := c.ask(ctx, shards[:n/2], from, to); err != nil {
			return err
		}
		return c.ask(ctx, shards[n/2:], from, to)
	}
	c.gaps = append(c.gaps, gap{shards: []uint32{shards[0].shard}, from: from, to: to})
	return nil
}

// load sends a shard's snapshot.
func (c *call) load(ctx context.Context, s *shardJob) (err error) {
	if c.loads != nil {
		c.loads.Store(true)
	}
	if c.record != nil {
		start := c.fanout.cfg.Clock.Now()
		defer func() { c.record.loads(c, s.shard, start, err) }()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a snapshot that was begun and is not all there
	stream, err := c.session.client.LoadSnapshot(ctx)
	if err != nil {
		return err
	}
	if err := c.snap(s.shard, stream.Send); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	// After io.EOF the cause comes with the answer.
	if _, err := stream.CloseAndRecv(); status.Code(err) == codes.ResourceExhausted {
		return fmt.Errorf("%w: %w", errTooLarge, err)
	} else if err != nil {
		return err
	}
	if c.sent == nil {
		c.sent = make(map[uint32]bool)
	}
	c.sent[s.shard] = true
	c.session.loaded(s.shard, s.target)
	c.fanout.snapshotSent()
	s.reach()
	return nil
}

// contains says whether a short list has x.
func contains(list []uint32, x uint32) bool {
	for _, y := range list {
		if y == x {
			return true
		}
	}
	return false
}

// maxProbeBytes is how large the answer to a probe may be: it says how long the worker took, and nothing else.
const maxProbeBytes = 256

// probe asks nothing, to see whether the worker answers.
func (s *session) probe(ctx context.Context, cluster string, term uint64) error {
	resp, err := s.client.Evaluate(ctx, &pb.EvaluateRequest{Cluster: cluster, Term: term, Rules: scan.Rules()},
		grpc.MaxCallRecvMsgSize(maxProbeBytes))
	if status.Code(err) == codes.ResourceExhausted {
		return s.untrue("more than nothing to a question about nothing: %w", err)
	}
	said := len(resp.GetResults()) + len(resp.GetPreemptions()) + len(resp.GetFailedClasses()) +
		len(resp.GetNeedClasses()) + len(resp.GetNeedSnapshots())
	if said > 0 {
		return s.untrue("%d elements to a question about nothing", said)
	}
	return err
}
