package fanout

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// ErrDeposed means that there is a leader with a newer term: a worker has said so, and Config.Leads.
var ErrDeposed = errors.New("deposed: there is a leader with a newer term")

// What a Config leaves out.
const (
	DefaultDeadline   = 2 * time.Second
	DefaultHedgeAfter = 25 * time.Millisecond
)

// Shards are the coordinator's own tables. They are only read during Evaluate,
// which blocks their only writer.
type Shards interface {
	// NumShards does not change from the first Evaluate on.
	NumShards() int
	// Table is the coordinator's own copy, at the newest generation.
	Table(shard int) *scorer.Table
	// Deltas are those after that generation, up to the table's; false: they are not
	// kept, which they are from the first call on. The messages and the elements of the slice must not change any more,
	// they may be read after Evaluate has returned.
	Deltas(shard int, after uint64) ([]*pb.Delta, bool)
}

// Dial connects to a worker. It should return at once and connect in the
// background.
type Dial func(ctx context.Context, m Member) (pb.WorkerServiceClient, io.Closer, error)

// Config is what a Fanout is made of.
type Config struct {
	Cluster string
	// Term is the leader's fencing number.
	Term   uint64
	Shards Shards
	// Local are workers of this process, which are live beside those of SetMembers.
	Local []Member
	// Replicas is how many workers hold each shard; 0: 1.
	Replicas int
	// Compare has every shard asked of two workers at once, and the own tables where they do not agree, or one
	// does not answer. It needs two replicas.
	Compare bool
	// Leads asks those who elect the leader whether that is still this one: a worker says that it is
	// not. A worker is not believed where they say that it is, or can not be asked; nil: there is nobody
	// to ask, and no worker is believed.
	Leads func(ctx context.Context) (bool, error)
	// Dial; nil: Dialer without TLS, for workers on loopback.
	Dial Dial
	// Deadline is how long a worker that gets snapshots may take beyond what its work is expected to
	// take, before its shards are evaluated here; 0: DefaultDeadline.
	Deadline time.Duration
	// HedgeAfter is how long, beyond what is expected, a shard's next owners wait
	// for the first, at the most; 0: DefaultHedgeAfter. Where there are none the own tables wait ten times as long.
	// Next owners wait less where other workers have answered.
	HedgeAfter time.Duration
	// AuditEvery is one in how many answers is looked at as a whole (verify.go); 0: DefaultAuditEvery,
	// negative: none is. Random is a number from 0 to n-1, from any goroutine; nil: one that nobody can
	// foresee.
	AuditEvery int
	Random     func(n int) int
	// LocalCores is on how many cores the coordinator evaluates by itself; 0: all.
	LocalCores int
	// OnPasses is told, once for each request of an Evaluate, what the plugins did for its
	// class over all shards; nil: nobody. It is called on the goroutine of Evaluate and must
	// not keep the passes.
	OnPasses func(request int, passes []scan.Pass)
	// Clock runs deadlines and measures; nil: the real one.
	Clock clock.Clock
	// Registerer takes the metrics; nil: they are kept nowhere.
	Registerer prometheus.Registerer
}

// withDefaults fills in what c leaves out.
func (c Config) withDefaults() Config {
	c.Replicas = max(c.Replicas, 1)
	if c.Dial == nil {
		c.Dial = Dialer()
	}
	if c.Deadline <= 0 {
		c.Deadline = DefaultDeadline
	}
	if c.HedgeAfter <= 0 {
		c.HedgeAfter = DefaultHedgeAfter
	}
	if c.AuditEvery == 0 {
		c.AuditEvery = DefaultAuditEvery
	}
	if c.Random == nil {
		c.Random = rand.IntN
	}
	if c.OnPasses == nil {
		c.OnPasses = func(int, []scan.Pass) {}
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c
}

// Request asks for one class. Its class stands once in an Evaluate.
type Request struct {
	Class *scorer.Class
	// Candidates is how many a group offers at the most, 1 to 65536.
	Candidates int
	// Diagnose also counts the reasons of the rows that were refused.
	Diagnose bool
	// Steps is how many steps searches for devices may take, of each worker, and of the own tables for what workers leave;
	// 0: any number.
	Steps int64
	// Copies also counts copies, over all rows and by the domains of CopyKeys, at most 16. Not with Diagnose.
	Copies   bool
	CopyKeys []string
}

// Searches is what searches for devices on the own tables have found.
func (f *Fanout) Searches() *scorer.Searches { return f.pool.Searches() }

// Stats are totals since New.
type Stats struct {
	// Rounds to the workers and the own tables, second ones included.
	Rounds uint64
	// SecondRounds are those for classes whose groups overflowed.
	SecondRounds uint64
	// LocalShards counts shards evaluated on the coordinator's own tables.
	LocalShards uint64
	// Hedges are attempts at a shard's next owners because the first was slow.
	Hedges uint64
	// Snapshots sent.
	Snapshots uint64
}

// Fanout asks the workers on behalf of one leader's term. Evaluate, Recycle and Close
// belong to the goroutine that writes the tables; everything else may be called
// by any.
type Fanout struct {
	cfg     Config
	pool    *scan.Pool
	metrics *metrics
	answers scan.Answers
	// hedging belongs to the goroutine of Evaluate.
	hedging hedging
	// rounds numbers the rounds.
	rounds uint64
	// spare are results that were handed back, for their memory.
	spare []*scorer.Result

	// ctx ends with Close, and with it all that Evaluate left under way; running
	// counts that.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	wanted   []Member // by SetMembers, not yet taken over
	changed  bool     // wanted is new
	remap    bool     // owners have to be given out again
	sessions []*session
	owners   [][]int      // per shard, indices of sessions
	holders  [][]*session // the same as of when they were given out
	stats    Stats
	deposed  bool
	own      pace // of the own tables, for one core
	// probes is how many are under way, probeFrom the index of the session that is next.
	probes, probeFrom int
	// numbered is how many sessions there have been.
	numbered uint32
	// quarantines are those of workers by id, over or not.
	quarantines map[string]*quarantine
}

// New makes a Fanout that has the local workers only: without any, until SetMembers names
// some, all is evaluated here.
func New(cfg Config) *Fanout {
	cfg = cfg.withDefaults()
	f := &Fanout{
		cfg: cfg, pool: scan.NewPool(cfg.LocalCores, cfg.Clock), metrics: newMetrics(cfg.Registerer), remap: true,
		quarantines: map[string]*quarantine{},
	}
	f.SetMembers(nil)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}
