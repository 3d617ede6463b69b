package fanout

import (
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// How messages are kept below MaxMessageBytes. Requests are filled up to a sum of
// estimates that leaves room for what the estimates miss; a message that is too
// large all the same is refused by gRPC, and the request is then halved.
const (
	deltaBudget  = 2 << 20 // of one request
	queryBudget  = 1 << 20 // of one request
	answerBudget = 3 << 20 // of one response, estimated
	chunkBudget  = 1 << 20 // of one chunk of a snapshot
	// pinnedBudget is how many pinned sums a class may have, of some 20 bytes: with more it is not asked of
	// workers.
	pinnedBudget = queryBudget / 20
	// snapshotOver is the size of a shard's deltas up to which they are always sent. Of a large shard
	// they are up to a quarter of a snapshot, whose rows take some 250 bytes.
	snapshotOver     = 1 << 20
	deltaBytesPerRow = 64
)

// shardJob is one shard of a job.
type shardJob struct {
	shard uint32
	// base is what the worker is known to have; without it, it gets a snapshot.
	base  uint64
	known bool
	// target is the generation to answer at.
	target uint64
	// deltas lead from base to target.
	deltas []*pb.Delta
	bytes  int // of the deltas, estimated
	rows   int
}

// reach notes that the worker is at the target now.
func (j *shardJob) reach() {
	j.base, j.known, j.deltas, j.bytes = j.target, true, nil, 0
}

// skip leaves the deltas out up to a generation that the worker has got meanwhile.
func (j *shardJob) skip(generation uint64) {
	n := generation - j.base
	for _, d := range j.deltas[:n] {
		j.bytes -= deltaBytes(d)
	}
	j.base, j.deltas = generation, j.deltas[n:]
}

// job is what an attempt asks of a session. It is prepared while the tables may
// be read, and carried out without them.
type job struct {
	cluster string
	term    uint64
	shards  []shardJob
	ask     *question
	// candidates are how many a group offers in the answer to each class of ask.
	candidates []uint32
}

// question is what a round asks of everybody: shared, and not changed. It asks for
// classes, or for dry runs of preemption, which are called classes here too. Without
// either it only brings shards up to date.
type question struct {
	classes     []*pb.ClassRequest
	preemptions []*pb.PreemptionRequest
	definitions []definition // of the class with the same index
}

// definition is what a worker has to know of a class.
type definition struct {
	query    *pb.Query
	original *pb.Query // that of the class of which it is a variant; nil: of none
	bytes    int       // of query, on the wire
}

func define(c *scorer.Class) definition {
	d := definition{query: c.Query(), bytes: proto.Size(c.Query())}
	if c.Original() != nil {
		d.original = c.Original().Query()
	}
	return d
}

// len is how many classes there are.
func (q *question) len() int { return len(q.classes) + len(q.preemptions) }

// class is the id of a class.
func (q *question) class(i int) uint64 {
	if len(q.preemptions) > 0 {
		return q.preemptions[i].GetClassId()
	}
	return q.classes[i].GetClassId()
}

// newDryRuns makes the question of a round of dry runs.
func newDryRuns(asks []scan.PreemptAsk) *question {
	q := &question{}
	for i := range asks {
		p := asks[i].Preemption.Proto(asks[i].Class.ID())
		p.Pins = asks[i].Class.PinnedSums()
		q.preemptions = append(q.preemptions, p)
		q.definitions = append(q.definitions, define(asks[i].Class))
	}
	return q
}

// newQuestion makes the question of a round.
func newQuestion(asks []scan.Ask, record *Record) *question {
	q := &question{classes: make([]*pb.ClassRequest, len(asks)), definitions: make([]definition, len(asks))}
	store := make([]pb.ClassRequest, len(asks))
	for i := range asks {
		c := &store[i]
		c.ClassId = asks[i].Class.ID()
		c.Diagnose = asks[i].Options.Diagnose
		c.Normalise = asks[i].Options.Normalise
		c.Extrema = asks[i].Options.Extrema
		c.Trace = record.traces(c.ClassId)
		c.Pins = asks[i].Class.PinnedSums()
		c.SearchSteps = uint32(asks[i].Options.Steps)
		c.Copies, c.CopyKeys = asks[i].Options.Copies, asks[i].Options.CopyKeys
		q.classes[i], q.definitions[i] = c, define(asks[i].Class)
	}
	return q
}

// newJob prepares a job for shards, in ascending order.
func (f *Fanout) newJob(s *session, shards []uint32, q *question, candidates []uint32) *job {
	j := &job{cluster: f.cfg.Cluster, term: f.cfg.Term, ask: q, candidates: candidates, shards: make([]shardJob, len(shards))}
	behind := uint64(0)
	for i, shard := range shards {
		j.shards[i] = f.newShardJob(s, shard)
		if x := &j.shards[i]; x.known {
			behind = max(behind, x.target-x.base)
		}
	}
	s.metrics.behind(behind)
	return j
}

// newShardJob finds what a session lacks of a shard.
func (f *Fanout) newShardJob(s *session, shard uint32) shardJob {
	table := f.cfg.Shards.Table(int(shard))
	j := shardJob{shard: shard, target: table.Generation(), rows: table.Rows()}
	base, known := s.generation(shard)
	deltas, kept := f.cfg.Shards.Deltas(int(shard), base) // also where nothing is known: they are kept from now on
	if !known {
		return j
	}
	if base == j.target {
		j.base, j.known = base, true
		return j
	}
	if !kept || uint64(len(deltas)) != j.target-base {
		return j
	}
	bytes, limit := 0, max(snapshotOver, deltaBytesPerRow*j.rows)
	for _, d := range deltas {
		one := deltaBytes(d)
		if bytes += one; bytes > limit || one > deltaBudget {
			return j
		}
	}
	j.base, j.known, j.deltas, j.bytes = base, true, deltas, bytes
	return j
}

// snapshotRows is how many rows the job's snapshots hold; what deltas there are counts as a tenth
// as many.
func (j *job) snapshotRows() int {
	rows := 0
	for i := range j.shards {
		if !j.shards[i].known {
			rows += j.shards[i].rows
		} else {
			rows += len(j.shards[i].deltas) / 10
		}
	}
	return rows
}

// lacksShards tells whether the job sends snapshots.
func (j *job) lacksShards() bool {
	return slices.ContainsFunc(j.shards, func(s shardJob) bool { return !s.known })
}

// work is how many row evaluations the job asks for.
func (j *job) work() int {
	rows := 0
	for i := range j.shards {
		rows += j.shards[i].rows
	}
	return rows * (len(j.ask.classes) + dryRunWork*len(j.ask.preemptions))
}

// dryRunWork is about how many times the work of an evaluation a dry run is.
const dryRunWork = 20

// deltaBytes is about the size of a delta on the wire; it does not fall short.
// The frequent kinds are not measured but bounded.
func deltaBytes(d *pb.Delta) int {
	const usageBytes = 96
	var use *pb.PodUsage
	switch c := d.GetChange().(type) {
	case *pb.Delta_AddPod:
		use = c.AddPod
	case *pb.Delta_RemovePod:
		use = c.RemovePod
	default:
		return proto.Size(d) + 8
	}
	n := usageBytes
	if p := d.GetPod(); p != nil {
		const podBytes, idBytes, countBytes = 32, 6, 18
		n += podBytes + idBytes*len(p.GetBudgets()) + countBytes*(len(p.GetLeaving())+len(p.GetShared()))
	}
	n += 16 * len(use.GetCounters())
	for _, s := range use.GetRequests().GetScalars() {
		n += len(s.GetName()) + 20
	}
	for _, p := range use.GetHostPorts() {
		n += len(p.GetIp()) + 20
	}
	return n
}

// groups cuts the job's shards so that the deltas of each group fit a request.
func (j *job) groups() [][]*shardJob {
	var out [][]*shardJob
	var group []*shardJob
	bytes := 0
	for i := range j.shards {
		s := &j.shards[i]
		if len(group) > 0 && bytes+s.bytes > deltaBudget {
			out, group, bytes = append(out, group), nil, 0
		}
		group = append(group, s)
		bytes += s.bytes
	}
	if len(group) > 0 {
		out = append(out, group)
	}
	return out
}

// until is the end of the longest run of classes from the given one on whose
// definitions fit a request and whose answers should fit a response. new says
// whether a class has to be defined.
func (j *job) until(from int, rows int, new func(class uint64) bool) int {
	q, queries, answers := j.ask, 0, 0
	to := from
	for ; to < q.len(); to++ {
		if new(q.class(to)) {
			queries += q.definitions[to].bytes
		}
		if len(q.preemptions) > 0 {
			queries += proto.Size(q.preemptions[to])
			answers += victimBytes * min(rows, int(q.preemptions[to].GetCandidates()))
		} else {
			answers += answerBytes(int(j.candidates[to]), rows) + domainBytes*copyDomains(q.classes[to], rows)
			if len(q.classes[to].GetPins()) > 0 {
				queries += proto.Size(q.classes[to])
			}
		}
		if to > from && (queries > queryBudget || answers > answerBudget) {
			return to
		}
	}
	return to
}

// answerLimit is how large the answer for some classes and so many shards and rows may be. A row is a candidate once
// and in one group, and adds at most a value to each key, and to each measure.
func (j *job) answerLimit(shards, rows, from, to int) int {
	const (
		fixed, shardBytes, classBytes, reasonBytes          = 4 << 10, 8, 4 << 10, 16 << 10
		candidateBytes, groupBytes, valueBytes, dryRunBytes = 24, 128, 128, 4 << 10
	)
	q, limit := j.ask, fixed+shardBytes*shards
	for i := from; i < to && limit < MaxMessageBytes; i++ {
		query := q.definitions[i].query
		limit += classBytes + 2*q.definitions[i].bytes // reasons name the resources that it asks for
		if len(q.preemptions) > 0 {
			limit += reasonBytes + dryRunBytes*min(rows, int(q.preemptions[i].GetCandidates()))
			continue
		}
		if q.classes[i].GetDiagnose() {
			limit += reasonBytes
		}
		limit += valueBytes * copyDomains(q.classes[i], rows)
		if values := len(query.GetDomainKeys()) + len(query.GetRowValues()) + len(query.GetMeasures()); values > 0 {
			limit += rows * (candidateBytes + groupBytes + values*valueBytes)
		} else {
			limit += scorer.MaxGroups*groupBytes + candidateBytes*min(rows, scorer.MaxGroups*int(j.candidates[i]))
		}
	}
	return min(limit, MaxMessageBytes)
}

// domainBytes is what the copies of a domain should take.
const domainBytes = 24

// copyDomains is of how many domains copies may be told.
func copyDomains(c *pb.ClassRequest, rows int) int {
	return len(c.GetCopyKeys()) * min(rows, pb.MaxCopyDomains)
}

// victimBytes is what a candidate of preemption should take, with a dozen victims.
const victimBytes = 96

// answerBytes is what the answer for one class should take: a few full groups,
// and the reasons.
func answerBytes(candidates, rows int) int {
	const candidateBytes, fixed, fullGroups = 8, 512, 3
	return fixed + candidateBytes*min(rows, fullGroups*candidates)
}
