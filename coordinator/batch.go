package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/coordinator/store"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// noNodes is upstream's message where the cluster has no node at all.
const noNodes = "no nodes available to schedule pods"

const (
	// spareCandidates is how many candidates a group offers at the least beyond what the
	// class's own pods can use up: for the rows that other classes of the batch take.
	spareCandidates = 192
	// sharedCandidates is how many the classes of a batch share beyond their own pods'. To
	// name a candidate takes a fraction of what looking at all rows again does.
	sharedCandidates = 8192
	// groupedShare is the part of that for each group of a class whose rows are grouped by
	// domains: they are many, and the other classes' pods take from all of them.
	groupedShare = 3
)

// candidates is how many a group offers for n pods of all in a batch of so many classes. With
// one more than there are pods it can never run out.
func candidates(q *pb.Query, n, all, classes int) int {
	spare := max(spareCandidates, sharedCandidates/classes)
	if len(q.GetDomainKeys()) > 0 {
		spare /= groupedShare
	}
	return min(n+spare, all+1)
}

// maxAsks bounds the rounds for one pod. The second answer is of this very moment,
// so a third says that workers and coordinator disagree.
const maxAsks = 2

// attempt is one popped pod with its class.
type attempt struct {
	pod   *queue.Pod
	prof  *compile.Profile
	class *compile.Class
	// volatile tells that other placements may change what the pod is compiled to, which was
	// of that version of the cluster's storage.
	volatile bool
	storage  uint64
	// failed ends the attempt before any node is looked at.
	failed error
}

// promise is a placement whose bind is not yet reported.
type promise struct {
	// newest is the pod's object where that has changed since; the bind will find
	// out. nil: it has not.
	newest *v1.Pod
}

// schedule decides a batch, pod by pod in queue order.
func (s *Scheduler) schedule(ctx context.Context, pods []*queue.Pod) {
	now := s.cfg.Now()
	s.tally.deciding.start(now)
	s.tally.working.start(now)
	attempts, err := s.prepareAll(pods)
	if err == nil {
		err = s.ask(ctx, attempts)
	}
	if err != nil {
		s.giveBack(ctx, attempts, err)
		return
	}
	for i := range attempts {
		// A pod that an event has brought before this one is to be decided first: the rest
		// of the batch waits for that.
		if !s.queue.Turn(attempts[i].pod) || !s.decide(ctx, &attempts[i]) {
			s.giveBack(ctx, attempts[i:], nil)
			break
		}
	}
	s.dispatch()
	s.metrics.batch(len(attempts), s.cfg.Now().Sub(now))
	s.metrics.sizes(s.queue, s.cache.Cache, s.journal.lag())
}

// sweepEvery is after how many batches counters are looked through that nobody uses.
const sweepEvery = 256

// prepareAll compiles the pods of a batch. Their affinity terms are made known first: one
// that is placed may repel another behind it, as may one that is nominated.
func (s *Scheduler) prepareAll(pods []*queue.Pod) ([]attempt, error) {
	if s.batches++; s.batches%sweepEvery == 0 {
		if err := s.cache.sweep(); err != nil {
			return nil, err
		}
	}
	attempts := make([]attempt, 0, len(pods))
	for _, p := range pods {
		if a, ok := s.admit(p); ok {
			attempts = append(attempts, a)
		}
	}
	s.observeNominated()
	for i := range attempts {
		s.compile(&attempts[i])
	}
	_, err := s.cache.settle()
	return attempts, err
}

// observeNominated makes known what the pods carry that others have to find room beside.
func (s *Scheduler) observeNominated() {
	for _, node := range s.queue.NominatedNodes() {
		for _, p := range s.queue.Nominated(node) {
			s.cache.observe(p.Obj)
		}
	}
}

// admit opens an attempt; false where there is nothing to decide for the pod.
func (s *Scheduler) admit(p *queue.Pod) (attempt, bool) {
	prof := s.cfg.Profiles[p.Obj.Spec.SchedulerName]
	_, node, _ := s.cache.Pod(p.Obj.UID)
	if prof == nil || p.Obj.DeletionTimestamp != nil || node != "" {
		s.queue.Done(p.Obj.UID)
		return attempt{}, false
	}
	delete(s.hopeless, p.Obj.UID)
	s.cache.observe(p.Obj)
	return attempt{pod: p, prof: prof}, true
}

// compile gives an attempt its class.
func (s *Scheduler) compile(a *attempt) {
	a.class, a.failed = s.compiler.Class(a.pod.Obj, a.prof, s.cache)
	a.storage = s.cache.volumes.Version()
	if a.class != nil {
		a.volatile = a.class.Volatile
	} else {
		a.volatile = storage.HasClaims(a.pod.Obj)
	}
}

// renew compiles a pod with claims anew where a placement before it has changed the
// storage: the claim may have got its volume, or a volume may be taken. Its class, if it is
// another one then, is asked for by itself.
func (s *Scheduler) renew(ctx context.Context, a *attempt) error {
	if !a.volatile || a.storage == s.cache.volumes.Version() {
		return nil
	}
	s.compile(a)
	if err := s.settle(); err != nil {
		return err
	}
	if a.failed != nil || a.class.Rejected != nil || s.cache.Nodes() == 0 || s.picks.of[a.class.ID()] != nil {
		return nil
	}
	results, err := s.evaluate(ctx, []fanout.Request{{Class: a.class.Scorer, Candidates: candidates(a.class.Query, 1, s.cfg.BatchSize, sharedCandidates)}})
	if err != nil {
		return err
	}
	s.classes[a.class.ID()] = struct{}{}
	s.picks.open(a.class.Scorer, results[0], len(s.touches.list))
	return nil
}

// settle is the cache's in the middle of a batch: the rows whose counters move are touched.
func (s *Scheduler) settle() error {
	changes, err := s.cache.settle()
	for _, x := range changes {
		if row, ok := s.cache.RowOf(x.Node); ok {
			s.cache.Table(int(row.Shard)).Totals(row.Index, s.touches.add(row))
			s.touches.counted(x.Counters)
		}
	}
	return err
}

// ask sends the classes of a batch to the workers, in one round.
func (s *Scheduler) ask(ctx context.Context, attempts []attempt) error {
	s.picks.reset(s.fanout.Recycle)
	s.touches.reset()
	if s.cache.Nodes() == 0 {
		return nil
	}
	counts := map[uint64]int{}
	var order []*compile.Class
	for i := range attempts {
		c := attempts[i].class
		if attempts[i].failed != nil || c.Rejected != nil {
			continue
		}
		id := c.Scorer.ID()
		if counts[id] == 0 {
			order = append(order, c)
		}
		counts[id]++
	}
	requests := make([]fanout.Request, len(order))
	for i, c := range order {
		requests[i] = fanout.Request{Class: c.Scorer, Candidates: candidates(c.Query, counts[c.Scorer.ID()], len(attempts), len(order))}
		s.classes[c.Scorer.ID()] = struct{}{}
	}
	if len(requests) == 0 {
		return nil
	}
	results, err := s.evaluate(ctx, requests)
	if err != nil {
		return err
	}
	for i, c := range order {
		s.picks.open(c.Scorer, results[i], 0)
	}
	return nil
}

// giveBack returns pods that were popped but not decided. They keep their place.
func (s *Scheduler) giveBack(ctx context.Context, attempts []attempt, err error) {
	if ctx.Err() == nil && err != nil {
		s.fail(err)
	}
	for i := range attempts {
		s.queue.GiveBack(attempts[i].pod)
	}
}

// decide makes one pod's decision; false where the loop has to end.
func (s *Scheduler) decide(ctx context.Context, a *attempt) bool {
	d := &pb.Decision{
		Seq:     s.seq + 1,
		Pod:     a.pod.Obj.Namespace + "/" + a.pod.Obj.Name,
		Uid:     string(a.pod.Obj.UID),
		Profile: a.pod.Obj.Spec.SchedulerName,
		Nodes:   uint32(s.cache.Nodes()),
	}
	if err := s.renew(ctx, a); err != nil {
		if ctx.Err() == nil {
			s.fail(err)
		}
		return false
	}
	var refusedBy []string
	switch {
	case d.Nodes == 0:
		a.failed, d.Message = nil, noNodes
	case a.failed != nil:
		d.Message = a.failed.Error()
	case a.class.Rejected != nil:
		d.Message = fitError(int(d.Nodes), nil) + " " + a.class.Rejected.Message + "."
		refusedBy = a.class.Rejected.Plugins
	default:
		p := s.picks.of[a.class.Scorer.ID()]
		c, v, err := s.choose(ctx, p, a)
		if err != nil {
			if ctx.Err() == nil {
				s.fail(err)
			}
			return false
		}
		d.Feasible = uint32(c.feasible)
		switch {
		case v == nowhere:
			of, instead, err := s.ownReasons(p, a)
			if err != nil {
				s.fail(err)
				return false
			}
			p.countReasons(of, -1)
			p.countReasons(instead, +1)
			d.Message, refusedBy = p.message(int(d.Nodes))
			p.countReasons(instead, -1)
			p.countReasons(of, +1)
		case c.feasible > 1 && a.class.ScoreError != nil:
			// A single node is not scored, so nothing is wrong with it.
			a.failed = a.class.ScoreError
			d.Message = a.failed.Error()
		default:
			return s.place(ctx, a, d, c)
		}
	}
	s.record(d, a.failed != nil)
	s.refuse(ctx, a, d, refusedBy)
	return true
}

// choose repairs a class's answer and takes the best row, asking the workers again
// where the answer is used up, or where the reasons are wanted.
func (s *Scheduler) choose(ctx context.Context, p *pick, a *attempt) (choice, verdict, error) {
	t := tables{s.cache.Cache}
	nominees := s.nominees(a.pod.Obj, a.class)
	for asks := 0; ; asks++ {
		p.liftVetoes()
		p.repair(&s.touches, t, s.eval)
		if !p.veto(nominees, t, s.eval) {
			p.startHere(len(s.touches.list), t, s.eval)
			p.veto(nominees, t, s.eval)
		}
		if c, ok := s.ownNode(p, a.pod.Obj); ok {
			return c, chosen, nil
		}
		c, v := p.best(t)
		if v == chosen || v == nowhere && p.diagnosed {
			c.feasible = p.feasible()
			return c, v, nil
		}
		if asks == maxAsks {
			return choice{}, nowhere, fmt.Errorf("decide pod %s/%s: the answer for class %x does not settle", a.pod.Obj.Namespace, a.pod.Obj.Name, p.class.ID())
		}
		s.tally.requeries++
		s.metrics.requeries.Inc()
		results, err := s.evaluate(ctx, []fanout.Request{{
			Class:      p.class,
			Candidates: min(s.cfg.BatchSize+1, spareCandidates) + len(nominees),
			Diagnose:   v == nowhere,
		}})
		if err != nil {
			return choice{}, nowhere, err
		}
		s.fanout.Recycle(p.result)
		p.start(results[0], len(s.touches.list), v == nowhere)
	}
}

// ownNode is the node that a pod is nominated to, which is tried first and then no other.
func (s *Scheduler) ownNode(p *pick, pod *v1.Pod) (choice, bool) {
	name := pod.Status.NominatedNodeName
	if name == "" {
		return choice{}, false
	}
	row, ok := s.cache.RowOf(name)
	if !ok {
		return choice{}, false
	}
	p.row(row, tables{s.cache.Cache}, s.eval)
	score, ok := p.alone(p.index[row])
	return choice{row: row, score: score, feasible: 1}, ok
}

// place promises the chosen row to a pod and queues its bind.
func (s *Scheduler) place(ctx context.Context, a *attempt, d *pb.Decision, c choice) bool {
	table := s.cache.Table(int(c.row.Shard))
	d.Node, d.Score = table.Name(c.row.Index), c.score
	pod := a.pod.Obj
	var work *volumes.Work
	var err error
	if a.prof.BindsVolumes() {
		work, err = s.cache.volumes.Reserve(pod, s.cache.Node(d.Node))
	}
	if err != nil {
		a.failed = fmt.Errorf("running Reserve plugin %q: %w", "VolumeBinding", err)
		d.Node, d.Score, d.Feasible, d.Message = "", 0, 0, a.failed.Error()
		s.record(d, true)
		s.refuse(ctx, a, d, nil)
		return true
	}
	table.Totals(c.row.Index, s.touches.add(c.row))
	moved, err := s.cache.Assume(pod, d.Node, a.class.Usage, d.Seq)
	if err != nil {
		s.fail(err)
		return false
	}
	s.touches.counted(moved)
	s.record(d, false)
	s.binding[pod.UID] = &promise{}
	s.queue.Done(pod.UID)
	job := bindJob{pod: a.pod, binding: store.Binding{Pod: pod, Node: d.Node}, work: work, patience: a.prof.BindTimeout()}
	if s.cfg.Binder == nil || s.cfg.VolumeWriter == nil {
		for _, obj := range s.cache.volumes.Complete(work) {
			s.clusterSet(obj)
		}
		if err := s.settle(); err != nil {
			s.fail(err)
			return false
		}
		job.work = nil
	}
	klog.FromContext(ctx).V(4).Info("Placed", "pod", klog.KObj(pod), "node", d.Node, "score", d.Score, "feasible", d.Feasible)
	if s.cfg.Binder != nil {
		s.ready = append(s.ready, job)
		return true
	}
	// There is nowhere to write to: it is as good as there.
	s.bound([]bindJob{job}, []error{nil})
	return s.err == nil
}

// record numbers a decision, keeps and logs it.
func (s *Scheduler) record(d *pb.Decision, failed bool) {
	s.seq = d.Seq
	s.decisions[types.UID(d.Uid)] = d
	s.cfg.Decisions.write(d)
	s.metrics.decision(d, failed)
}

// refuse puts a pod without a node back into the queue.
func (s *Scheduler) refuse(ctx context.Context, a *attempt, d *pb.Decision, by []string) {
	log := klog.FromContext(ctx)
	if a.failed != nil {
		log.Error(a.failed, "Attempt ended in an error", "pod", klog.KObj(a.pod.Obj))
		s.queue.Error(a.pod, a.failed)
	} else {
		log.V(2).Info("Unable to schedule pod; no fit; waiting", "pod", klog.KObj(a.pod.Obj), "err", d.Message)
		if a.class != nil {
			a.pod.ClassID = a.class.ID()
		}
		s.queue.Unschedulable(a.pod, by, d.Message)
	}
	if len(by) == 0 {
		s.hopeless[a.pod.Obj.UID] = struct{}{}
	}
	s.journal.put(a.pod.Obj.UID, s.queue.Entry(a.pod))
}

// dispatch hands the batch's placements to the binder.
func (s *Scheduler) dispatch() {
	jobs := s.ready
	s.ready = nil
	if len(jobs) == 0 {
		return
	}
	s.bindings.put(jobs)
}

// bound takes in the outcomes of binds.
func (s *Scheduler) bound(jobs []bindJob, errs []error) {
	now := s.cfg.Now()
	for i, job := range jobs {
		pod := job.binding.Pod
		p := s.binding[pod.UID]
		delete(s.binding, pod.UID)
		err := errs[i]
		switch {
		case err == nil:
			s.committed(job, now)
		case errors.Is(err, store.ErrDeposed):
			s.fail(err)
		default:
			s.takeBack(job, err, p)
		}
	}
}

func (s *Scheduler) committed(job bindJob, now time.Time) {
	uid := job.binding.Pod.UID
	s.tally.bound++
	s.metrics.boundPods.Inc()
	if at, ok := s.arrivals[uid]; ok {
		s.tally.submitToBound.record(now.Sub(at))
		delete(s.arrivals, uid)
	}
	if job.pod.Attempts > 1 {
		// The bind took its entry away, but a write of an earlier attempt may come after.
		s.journal.put(uid, nil)
	}
	if s.cfg.Binder != nil {
		return
	}
	// Nobody will tell of the pod on its node: it is there.
	s.seen(withNode(job.binding.Pod, job.binding.Node))
}

// takeBack forgets a placement that was not committed, and has the pod tried again
// with its newest object, unless it is gone (p is nil then) or on a node already.
func (s *Scheduler) takeBack(job bindJob, err error, p *promise) {
	s.tally.bindFailures++
	s.metrics.bindFailures.Inc()
	uid := job.binding.Pod.UID
	free := s.cache.volumes.Unreserve(job.work)
	forgotten, ferr := s.cache.Forget(job.binding.Pod)
	if ferr != nil {
		s.fail(ferr)
		return
	}
	if forgotten {
		s.queue.Move(queue.AssignedPodDeleted(withNode(job.binding.Pod, job.binding.Node)))
	}
	for _, pv := range free {
		s.queue.Move(queue.VolumeUpdated(pv, pv))
	}
	_, node, _ := s.cache.Pod(uid)
	if p != nil && node == "" && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrAlreadyBound) {
		s.queue.Retry(job.pod, err)
		if p.newest != nil && s.queue.Get(uid) == job.pod {
			s.queue.Update(p.newest)
		}
	} else {
		delete(s.arrivals, uid)
	}
	s.journal.put(uid, s.queue.Entry(job.pod))
}

// withNode is a pod as it would be on a node.
func withNode(p *v1.Pod, nodeName string) *v1.Pod {
	c := *p
	c.Spec.NodeName = nodeName
	return &c
}

var _ fanout.Shards = (*picture)(nil)
