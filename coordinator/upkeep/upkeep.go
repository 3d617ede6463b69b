package upkeep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// DefaultInterval is kube-apiserver's, too.
	DefaultInterval = 5 * time.Minute
	// MinInterval leaves watches the time to go on where they were after a disconnect.
	MinInterval = time.Minute
	// every is how often etcd is looked at.
	every = 15 * time.Second
	// patience bounds each request of a look.
	patience = 10 * time.Second
	// maxMarks bounds what is known of the past where nobody compacts: a day.
	maxMarks = 24 * 60 * 4
)

// Config says which etcd to look after. Registerer may be nil.
type Config struct {
	Client *clientv3.Client
	// Key is one that the client's user may read: revisions are asked for by it. It need not exist.
	Key string
	// Interval is how often history is compacted, and how much of it is kept then; 0: others compact.
	Interval time.Duration
	// Registerer takes the metrics.
	Registerer prometheus.Registerer
	// Clock tells when to look; nil: the real one.
	Clock clock.WithTicker
}

// mark is how far etcd was.
type mark struct {
	at       time.Time
	revision int64
}

// Upkeep looks after one etcd.
type Upkeep struct {
	cfg       Config
	metrics   *metrics
	allowed   bool      // etcd has let this user compact
	due       time.Time // when to compact next
	compacted mark      // all revisions before it are gone, or were there before the first look
	marks     []mark    // since then, one a look, the oldest first
	sizeless  bool      // the log has said that sizes are not told
}

// New does not talk to etcd yet.
func New(cfg Config) *Upkeep {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	u := &Upkeep{cfg: cfg, metrics: newMetrics(cfg.Registerer), due: cfg.Clock.Now().Add(cfg.Interval)}
	u.compact(mark{at: cfg.Clock.Now()})
	return u
}

// Run looks after etcd until ctx ends. It returns an error where etcd lets this user not compact, though it is to.
func (u *Upkeep) Run(ctx context.Context) error {
	tick := u.cfg.Clock.NewTicker(every)
	defer tick.Stop()
	for {
		if err := u.permission(ctx); err != nil {
			return err
		}
		u.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
	}
}

// permission asks for a compaction at a revision that etcd will never have, until it has told once whether this user may ask.
func (u *Upkeep) permission(ctx context.Context) error {
	if u.allowed || u.cfg.Interval == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := u.cfg.Client.Compact(ctx, math.MaxInt64)
	switch codeOf(err) {
	case codes.OutOfRange:
		u.allowed = true
	case codes.PermissionDenied, codes.Unimplemented:
		return fmt.Errorf("etcd does not let this user compact its history, and without that it fills up: have etcd compact by itself "+
			"(--auto-compaction-mode periodic --auto-compaction-retention 5m), and start with --etcd-compaction-interval 0: %w", err)
	}
	return nil
}

// look is everything that is done each time. What etcd does not answer is asked again the next time.
func (u *Upkeep) look(ctx context.Context) {
	log := klog.FromContext(ctx)
	if err := u.history(ctx); err != nil && ctx.Err() == nil {
		log.Error(err, "etcd's history is not compacted", "since", u.compacted.at)
	}
	if err := u.alarms(ctx); err != nil && ctx.Err() == nil {
		log.Info("etcd's alarms are not known", "cause", err.Error())
	}
	u.sizes(ctx)
}

// history marks how far etcd is, compacts, and finds out what is compacted.
func (u *Upkeep) history(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := u.cfg.Clock.Now()
	read, err := u.cfg.Client.Get(ctx, u.cfg.Key, clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("revision of etcd: %w", err)
	}
	if n := len(u.marks); n > 0 && u.marks[n-1].revision > read.Header.Revision {
		u.marks = nil // it is another etcd, or was restored
	}
	u.note(mark{now, read.Header.Revision})
	if u.cfg.Interval == 0 {
		return u.compactedByOthers(ctx)
	}
	if now.Before(u.due) {
		return nil
	}
	newer := slices.IndexFunc(u.marks, func(m mark) bool { return now.Sub(m.at) < u.cfg.Interval })
	if newer == 0 {
		return nil
	}
	m := u.marks[newer-1] // the one of now is newer than any interval
	if _, err := u.cfg.Client.Compact(ctx, m.revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact revision %d: %w", m.revision, err)
	}
	u.compact(m)
	u.due = now.Add(u.cfg.Interval)
	return nil
}

// note keeps a mark. Where there are too many, every second one goes.
func (u *Upkeep) note(m mark) {
	u.marks = append(u.marks, m)
	if len(u.marks) <= maxMarks {
		return
	}
	kept := u.marks[:0]
	for i := 0; i < len(u.marks); i += 2 {
		kept = append(kept, u.marks[i])
	}
	u.marks = kept
}

// compactedByOthers asks for the revision before each mark, the oldest first, until it is there.
func (u *Upkeep) compactedByOthers(ctx context.Context) error {
	for _, m := range u.marks {
		if before := m.revision - 1; before > 0 && m.revision != u.compacted.revision {
			_, err := u.cfg.Client.Get(ctx, u.cfg.Key, clientv3.WithKeysOnly(), clientv3.WithRev(before))
			if err == nil {
				return nil
			}
			if !errors.Is(err, rpctypes.ErrCompacted) {
				return fmt.Errorf("history of etcd: %w", err)
			}
		}
		u.compact(m)
	}
	return nil
}

// compact notes that all before m is gone.
func (u *Upkeep) compact(m mark) {
	u.compacted = m
	for len(u.marks) > 0 && !u.marks[0].at.After(m.at) {
		u.marks = u.marks[1:]
	}
	u.metrics.compaction.Set(float64(m.at.UnixNano()) / float64(time.Second))
}

// alarms tells which alarms etcd has raised.
func (u *Upkeep) alarms(ctx context.Context) error {
	bound, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := u.cfg.Client.AlarmList(bound)
	if err != nil {
		return err
	}
	raised := map[etcdserverpb.AlarmType]int{}
	for _, a := range list.Alarms {
		raised[a.Alarm]++
	}
	for kind, name := range etcdserverpb.AlarmType_name {
		if kind := etcdserverpb.AlarmType(kind); kind != etcdserverpb.AlarmType_NONE {
			u.metrics.alarms.WithLabelValues(name).Set(float64(raised[kind]))
		}
	}
	log := klog.FromContext(ctx)
	if raised[etcdserverpb.AlarmType_NOSPACE] > 0 {
		log.Error(errNoSpace, "etcd takes no writes: no coordinator or worker can join, and no journal or object is written, until an "+
			"operator has compacted, defragmented and disarmed the alarm (docs/etcd.md, \"When it is full\")")
	}
	if raised[etcdserverpb.AlarmType_CORRUPT] > 0 {
		log.Error(errCorrupt, "etcd's members do not hold the same data: remove the one that is wrong (etcd's documentation, "+
			"\"Data corruption\")")
	}
	return nil
}

var (
	errNoSpace = errors.New("etcd has raised the alarm NOSPACE")
	errCorrupt = errors.New("etcd has raised the alarm CORRUPT")
)

// sizes tells how large the largest member's database is, and the smallest quota. An etcd with users tells them to root only.
func (u *Upkeep) sizes(ctx context.Context) {
	var size, quota int64
	var last error
	for _, endpoint := range u.cfg.Client.Endpoints() {
		s, err := u.status(ctx, endpoint)
		if err != nil {
			last = err
			continue
		}
		size = max(size, s.DbSize)
		if q := s.DbSizeQuota; q > 0 && (quota == 0 || q < quota) { // etcd before 3.6 does not tell
			quota = q
		}
	}
	if size == 0 && last != nil && !u.sizeless && ctx.Err() == nil {
		u.sizeless = true
		klog.FromContext(ctx).Info("etcd does not tell its size, see its own metrics", "cause", last.Error())
	}
	set(u.metrics.size, size)
	set(u.metrics.quota, quota)
}

func (u *Upkeep) status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return u.cfg.Client.Status(ctx, endpoint)
}

// codeOf finds the gRPC code in an error of etcd's client, which has types of its own.
func codeOf(err error) codes.Code {
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		return etcd.Code()
	}
	return status.Code(err)
}
