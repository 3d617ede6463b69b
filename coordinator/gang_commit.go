package coordinator

import (
	"context"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/bind"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/journal"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// The members of a pod group are bound one by one. If the leader ends in between, the next one goes on: the journal keeps the commit,
// which tells where each member goes, from before the first bind until the last has an outcome.
//
//	commitGang ── keepCommit ── dispatch ──> journal.Gangs: written ──> the members are bound ── all outcomes ──> deleted
//	                                              │ the leader ends
//	                                              v
//	LoadCommits: members that are pending are nominated to their nodes ── before all others ──> keepPromise
//	     ┌─ all that are left fit there, and are enough ─> commitGang
//	     └─ else ─> the nominations end, and they are decided as any others, in the domain of those that are bound
//
// Where nothing is kept (there is no journal, or etcd does not answer in time) members are bound all the same, and the next leader decides
// those anew that are not bound.
//
// Differs from upstream: nothing is kept there. A scheduler that takes over decides the members that are not bound among all other pods.

// gangBinds are members of a pod group that are being bound, and the commits that tell of them.
type gangBinds struct {
	left    int
	commits []*journal.Commit
}

// gangJobs are the binds of a pod group that wait until its commit is kept.
type gangJobs struct {
	commit *journal.Commit
	jobs   []bind.Job
}

// keepCommit has the binds of a pod group, which are ready from an index on, wait for its commit. One alone needs none.
func (s *Scheduler) keepCommit(o *gangOutcome, from int, earlier []*journal.Commit) {
	jobs := slices.Clone(s.binds.ready[from:])
	if !s.gangs.Keeps() || len(jobs) == 0 {
		s.gangs.Delete(earlier...)
		return
	}
	b := &gangBinds{left: len(jobs), commits: earlier}
	for i := range jobs {
		s.binds.pending[jobs[i].Binding.Pod.UID].gang = b
	}
	if len(jobs) == 1 {
		return
	}
	clear(s.binds.ready[from:])
	s.binds.ready = s.binds.ready[:from]
	c := &journal.Commit{PodGroup: o.group.Name(), Term: s.cfg.Term, Seq: s.binds.pending[jobs[0].Binding.Pod.UID].decision.Seq}
	for i := range jobs {
		c.Members = append(c.Members, &pb.GangMember{Uid: string(jobs[i].Binding.Pod.UID), Node: jobs[i].Binding.Node})
	}
	b.commits = append(slices.Clip(b.commits), c)
	s.binds.gangs = append(s.binds.gangs, gangJobs{c, jobs})
}

// dispatchGang has a pod group bound once its commit is kept, or can't be. A leader that is deposed binds none.
func (s *Scheduler) dispatchGang(g gangJobs) {
	s.gangs.Put(g.commit, func(err error) {
		if errors.Is(err, lease.ErrDeposed) {
			s.inbox.put(func() { s.fail(err) })
			return
		}
		s.cycles.Put(g.jobs)
	})
}

// endGangBind notes that a bind has an outcome: with the last of its pod group the commits end.
func (s *Scheduler) endGangBind(p *pendingBind, err error) {
	if p.gang == nil || errors.Is(err, lease.ErrDeposed) {
		return
	}
	if p.gang.left--; p.gang.left == 0 {
		s.gangs.Delete(p.gang.commits...)
	}
}

// promises are the commits of earlier leaders whose members are not all bound.
type promises struct {
	of map[types.NamespacedName]*promise
	// first are those that have to be decided before anything else, in the order of their decisions.
	first []types.NamespacedName
}

// promise is where the members of a pod group go that are not bound.
type promise struct {
	commit journal.Commit
	nodes  map[*queue.Pod]string
}

// LoadCommits takes in what earlier leaders have kept of pod groups that they were binding. It is to be called after Load, before Run.
func (s *Scheduler) LoadCommits(parts map[string]*pb.GangCommit) {
	s.promises.of = map[types.NamespacedName]*promise{}
	for _, c := range journal.Commits(parts) {
		p := &promise{commit: c, nodes: map[*queue.Pod]string{}}
		for _, m := range c.Members {
			pod := s.queue.Get(types.UID(m.GetUid()))
			if pod == nil || pod.Group == nil || pod.Group.Name() != c.PodGroup {
				continue // it is bound or gone, or another pod has its name
			}
			p.nodes[pod] = m.GetNode()
			s.queue.Nominate(pod, m.GetNode())
			s.cfg.Recorder.Nominated(pod.Obj.UID, m.GetNode())
		}
		if len(p.nodes) == 0 {
			s.gangs.Delete(&p.commit)
			continue
		}
		klog.FromContext(s.life).Info("Goes on with a pod group that an earlier leader was binding", "podGroup", c.PodGroup,
			"term", c.Term, "members", len(c.Members), "pending", len(p.nodes))
		s.promises.of[c.PodGroup] = p
		s.promises.first = append(s.promises.first, c.PodGroup)
	}
}

// popPromised pops the next pod group that an earlier leader was binding. One that waits for something else than its turn waits on: its
// nominations hold the room.
func (s *Scheduler) popPromised(into []*queue.Pod) []*queue.Pod {
	list := &s.promises
	for len(list.first) > 0 {
		name := list.first[0]
		g := s.queue.GroupOf(name)
		if list.of[name] != nil && g != nil && !slices.ContainsFunc(g.Pods(), awaits) {
			if into = s.queue.PopGroup(g, into); len(into) > 0 {
				return into
			}
			g = nil // all are gated: they can't be bound as they were
		}
		list.first = list.first[1:]
		if g == nil {
			s.breakPromise(list.of[name])
			s.gangs.Delete(list.end(s.queue, name)...)
		}
	}
	return into
}

// awaits tells whether a pod waits for what its attempt needs first.
func awaits(p *queue.Pod) bool { return p.Aside != 0 || p.Place() == queue.InFlight }

// end ends what is promised to a pod group, and returns the commits that tell of it.
func (x *promises) end(q *queue.Queue, name types.NamespacedName) []*journal.Commit {
	p := x.of[name]
	if p == nil {
		return nil
	}
	delete(x.of, name)
	p.release(q)
	return []*journal.Commit{&p.commit}
}

// release gives the room to others that was held.
func (p *promise) release(q *queue.Queue) {
	for pod := range p.nodes {
		q.Unnominate(pod)
	}
	clear(p.nodes)
}

// breakPromise gives the room to others that was held, before anything else is decided.
func (s *Scheduler) breakPromise(p *promise) {
	if p == nil {
		return
	}
	pods := slices.Collect(maps.Keys(p.nodes))
	p.release(s.queue)
	for _, pod := range pods {
		s.cfg.Recorder.Nominated(pod.Obj.UID, pod.NominatedNode)
	}
}

// keepPromise places the members of a pod group where an earlier leader has placed them, if all of them fit there and are enough; their
// mates are decided after them. nil: it is to be decided as any other.
func (s *Scheduler) keepPromise(ctx context.Context, g *groups.Group, attempts []attempt) *gangOutcome {
	p := s.promises.of[g.Name()]
	if p == nil || len(p.nodes) == 0 || refusedGang(g, attempts) != nil {
		return nil
	}
	rank := func(a *attempt) int {
		if p.nodes[a.Pod] != "" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(attempts, func(a, b attempt) int { return rank(&a) - rank(&b) })
	n := 0
	for n < len(attempts) && rank(&attempts[n]) == 0 {
		if n++; !attempts[n-1].Extenders.Answered() && attempts[n-1].Extenders != nil {
			return nil // the pod group is parked until they have answered
		}
	}
	if n == 0 {
		s.breakPromise(p)
		return nil
	}
	o := s.tryGang(ctx, g, attempts[:n], unasked)
	switch {
	case o.broken != nil || o.invalid || o.aside != nil:
		return o
	case o.code == gangFits && !slices.ContainsFunc(o.members, func(m member) bool { return m.node != p.nodes[m.Pod] }):
		s.giveBack(ctx, attempts[n:], nil)
		return o
	}
	o.undo(ctx)
	s.breakPromise(p)
	return nil
}
