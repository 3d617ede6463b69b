package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// isDeposed says whether an error means that there is a newer leader.
func isDeposed(err error) bool { return errors.Is(err, ErrDeposed) }

// SetMembers names the live workers beside the local ones, whose ids nobody else may have. It
// takes effect at the next Evaluate.
func (f *Fanout) SetMembers(members []Member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted, f.changed = slices.Clone(f.cfg.Local), true
	for _, m := range members {
		if !slices.ContainsFunc(f.cfg.Local, func(l Member) bool { return l.ID == m.ID }) {
			f.wanted = append(f.wanted, m)
		}
	}
}

// Refresh takes over what SetMembers named without evaluating anything, so that
// Workers and ShardOwners tell of them also where there is nothing to schedule. Like
// Evaluate it belongs to the goroutine that writes the tables.
func (f *Fanout) Refresh(ctx context.Context) error {
	if _, _, err := f.plan(ctx); err != nil {
		return fmt.Errorf("refresh workers: %w", err)
	}
	return nil
}

// plan says which shards are asked of whom, and which sessions keep copies of
// shards that others are first for.
func (f *Fanout) plan(ctx context.Context) (primaries, standby []assignment, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deposed {
		return nil, nil, ErrDeposed
	}
	now := f.cfg.Clock.Now()
	f.takeMembers(ctx)
	f.release(ctx, now)
	f.probeSick(ctx, now)
	f.giveOut(now)
	primaries, standby = f.assignments()
	return primaries, standby, nil
}

// replan assigns the shards to workers for a second round: as in the first round,
// without the sessions that failed in it.
func (f *Fanout) replan() []assignment {
	f.mu.Lock()
	defer f.mu.Unlock()
	primaries, _ := f.assignments()
	return primaries
}

// takeMembers opens sessions with new members and closes those of departed ones.
// The caller holds f.mu.
func (f *Fanout) takeMembers(ctx context.Context) {
	if !f.changed {
		return
	}
	f.changed, f.remap = false, true
	logger := klog.FromContext(ctx)
	var kept []*session
	missing := make(map[Member]bool, len(f.wanted))
	for _, m := range f.wanted {
		missing[m] = true
	}
	for _, s := range f.sessions {
		if missing[s.member] {
			delete(missing, s.member)
			kept = append(kept, s)
			continue
		}
		f.tellOf(logger, s.member).Info("Worker left", "worker", s.member.ID)
		f.metrics.drop(s.member.ID)
		if err := s.close(); err != nil {
			logger.Error(err, "Close connection", "worker", s.member.ID)
		}
	}
	for _, m := range f.wanted {
		if !missing[m] {
			continue
		}
		delete(missing, m)
		s, err := newSession(ctx, f.cfg.Dial, m)
		if err != nil {
			logger.Error(err, "A worker can not be used", "worker", m.ID)
			continue
		}
		f.numbered++
		s.number, s.metrics = f.numbered, f.metrics.of(m.ID)
		if q := f.quarantines[m.ID]; q != nil && f.cfg.Clock.Now().Before(q.until) {
			s.bar(q)
		}
		f.tellOf(logger, m).Info("Worker joined", "worker", m.ID, "address", m.Address, "cores", m.Cores, "otherVersion", m.OtherRules)
		kept = append(kept, s)
	}
	slices.SortFunc(kept, func(a, b *session) int { return cmp.Compare(a.member.ID, b.member.ID) })
	f.sessions = kept
	f.metrics.workers.Set(float64(len(kept)))
	f.countQuarantined()
}

// maxProbes is how many probes are under way at a time.
const maxProbes = 16

// probeSick asks sick sessions in turn, in the background, whether they are well again.
// The caller holds f.mu.
func (f *Fanout) probeSick(ctx context.Context, now time.Time) {
	from := f.probeFrom
	for i := range f.sessions {
		if f.probes >= maxProbes {
			return
		}
		f.probeFrom = (from + i + 1) % len(f.sessions)
		s := f.sessions[(from+i)%len(f.sessions)]
		due := false
		if !s.barred() {
			s.withHealth(func(h *health) { due = h.startProbe(now) })
		}
		if !due {
			continue
		}
		f.probes++
		ctx, cancel := f.detached(ctx, f.cfg.Deadline)
		f.running.Go(func() {
			defer cancel()
			f.probed(ctx, s, caught(ctx, func() error { return f.refused(ctx, s, s.probe(ctx, f.cfg.Cluster, f.cfg.Term)) }))
		})
	}
}

// tellOf is the log for what comes and goes. Workers of this process come with each term: that is no news.
func (f *Fanout) tellOf(log klog.Logger, m Member) klog.Logger {
	if slices.Contains(f.cfg.Local, m) {
		return log.V(1)
	}
	return log
}

// probed takes in what came of a probe.
func (f *Fanout) probed(ctx context.Context, s *session, err error) {
	if err != nil {
		f.suspect(ctx, s, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probes--
	now := f.cfg.Clock.Now()
	f.deposed = f.deposed || isDeposed(err)
	s.withHealth(func(h *health) {
		if err != nil {
			h.fail(now)
		} else {
			h.recover()
		}
	})
	if err == nil {
		klog.FromContext(ctx).Info("Worker answers again", "worker", s.member.ID)
	}
}

// giveOut gives the shards to the sessions that are not gone, if that has
// changed. The caller holds f.mu.
func (f *Fanout) giveOut(now time.Time) {
	for _, s := range f.sessions {
		if gone := s.gone(now); gone != s.mappedOut {
			s.mappedOut, f.remap = gone, true
		}
		if s.refusalsChanged(now) {
			f.remap = true
		}
	}
	if !f.remap {
		return
	}
	f.remap = false
	var members []Member
	var index []int
	for i, s := range f.sessions {
		if !s.mappedOut {
			members, index = append(members, s.member), append(index, i)
		}
	}
	f.owners = share(f.cfg.Shards.NumShards(), f.cfg.Replicas, members, func(shard uint32, m int) bool {
		return f.sessions[index[m]].refuses(shard)
	}, f.keptBy(index))
	f.holders = make([][]*session, len(f.owners))
	for shard, list := range f.owners {
		for i := range list {
			list[i] = index[list[i]]
			f.holders[shard] = append(f.holders[shard], f.sessions[list[i]])
		}
	}
}

// keptBy are, for each shard, the sessions to which it was assigned last, as positions in index, which has the numbers
// of sessions; -1: the session is gone. nil: nothing was assigned yet. The caller holds f.mu.
func (f *Fanout) keptBy(index []int) [][]int {
	if f.holders == nil {
		return nil
	}
	at := make(map[*session]int, len(index))
	for m, i := range index {
		at[f.sessions[i]] = m
	}
	out := make([][]int, len(f.holders))
	for shard, list := range f.holders {
		for _, s := range list {
			m, ok := at[s]
			if !ok {
				m = -1
			}
			out[shard] = append(out[shard], m)
		}
	}
	return out
}

// assignments lists, for each session, the shards it is asked for and those it
// stands by for; shards without a session that is well are for the own tables. The
// caller holds f.mu.
func (f *Fanout) assignments() (primaries, standby []assignment) {
	first := make([]assignment, len(f.sessions)+1)
	second := make([]assignment, len(f.sessions))
	here := len(f.sessions)
	well := make([]bool, len(f.sessions))
	for i, s := range f.sessions {
		first[i].session, second[i].session, well[i] = s, s, s.well()
	}
	for shard, list := range f.owners {
		to := here
		for _, i := range list {
			if !well[i] {
				continue
			}
			if to == here && !f.sessions[i].loadsBeside(uint32(shard)) {
				to = i
				continue
			}
			second[i].shards = append(second[i].shards, uint32(shard))
		}
		first[to].shards = append(first[to].shards, uint32(shard))
	}
	empty := func(a assignment) bool { return len(a.shards) == 0 }
	return slices.DeleteFunc(first, empty), slices.DeleteFunc(second, empty)
}

// nextOwners shares out shards that a session does not answer for: each goes to
// its first other owner that is well, or to the own tables.
func (f *Fanout) nextOwners(not *session, shards []uint32) []assignment {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []assignment
	for _, shard := range shards {
		s := f.nextOwner(not, shard)
		i := slices.IndexFunc(out, func(a assignment) bool { return a.session == s })
		if i < 0 {
			i, out = len(out), append(out, assignment{session: s})
		}
		out[i].shards = append(out[i].shards, shard)
	}
	return out
}

// whollyBacked says whether other sessions own all of the shards.
func (f *Fanout) whollyBacked(not *session, shards []uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(shards, func(shard uint32) bool { return f.nextOwner(not, shard) == nil })
}

// nextOwner is the first owner of a shard that is well, may be asked for it and is not that session;
// nil: none. The caller holds f.mu.
func (f *Fanout) nextOwner(not *session, shard uint32) *session {
	for _, i := range f.owners[shard] {
		if s := f.sessions[i]; s != not && s.well() && !s.loadsBeside(shard) {
			return s
		}
	}
	return nil
}

// Workers describes the members, sorted by id.
func (f *Fanout) Workers() []*pb.WorkerStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := make([]uint32, len(f.sessions))
	for _, list := range f.owners {
		if len(list) > 0 {
			first[list[0]]++
		}
	}
	out := make([]*pb.WorkerStatus, len(f.sessions))
	for i, s := range f.sessions {
		out[i] = s.status(first[i])
	}
	return out
}

// ShardOwners names, for each shard, the workers that hold it, first to last; none:
// the coordinator does.
func (f *Fanout) ShardOwners() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([][]string, f.cfg.Shards.NumShards())
	for shard, list := range f.owners {
		for _, i := range list {
			out[shard] = append(out[shard], f.sessions[i].member.ID)
		}
	}
	return out
}

// ShardsHeld tells, for each shard and each of its owners, the generation that the worker has shown to have; 0: none.
func (f *Fanout) ShardsHeld() [][]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([][]uint64, f.cfg.Shards.NumShards())
	for shard, list := range f.owners {
		for _, i := range list {
			generation, _ := f.sessions[i].generation(uint32(shard))
			out[shard] = append(out[shard], generation)
		}
	}
	return out
}

// Stats are the totals so far.
func (f *Fanout) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// Close ends what is under way and closes the connections. Nothing may be called
// afterwards but Workers, ShardOwners and Stats.
func (f *Fanout) Close() {
	f.cancel()
	f.mu.Lock()
	sessions := f.sessions
	f.mu.Unlock()
	for _, s := range sessions {
		// It ends either way, and nobody is left to care how.
		_ = s.close()
	}
	f.running.Wait()
}
