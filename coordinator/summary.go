package coordinator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Summary tells what the scheduler did so far.
func (s *Scheduler) Summary(ctx context.Context) (*pb.Summary, error) {
	x := s.newSummary()
	if err := s.serve(read{ctx: ctx, step: x.step, end: x.pending.end}); err != nil {
		return nil, err
	}
	return x.report(), nil
}

// summary is a call of Summary on its way.
type summary struct {
	s    *Scheduler
	out  *pb.Summary
	uses map[string]*use
	// shards is how many were added up.
	shards  int
	pending walk[*queue.Pod]
	reasons map[string]*pb.PendingReason
	pods    uint64
}

func (s *Scheduler) newSummary() *summary {
	return &summary{s: s, uses: map[string]*use{}, reasons: map[string]*pb.PendingReason{}}
}

// step adds a shard up, or some pending pods, each as it is by then.
func (x *summary) step() (last bool) {
	if x.shards < x.s.cache.NumShards() {
		x.addShard(x.s.cache.Table(x.shards))
		x.shards++
		return false
	}
	if !x.pending.some(x.s.queue.All(), podsAtOnce, func(p *queue.Pod) { x.addPending(p.Obj, pendingText(p)) }) {
		return false
	}
	x.out = x.s.summarise()
	for uid := range x.s.binding {
		if pod, _, assumed := x.s.cache.Pod(uid); assumed {
			x.addPending(pod, beingBound)
		}
	}
	return true
}

// report is the summary, after the last step. It needs no loop.
func (x *summary) report() *pb.Summary {
	x.out.Utilisation = x.utilisation()
	x.out.PodsPending = x.pods
	x.out.PendingReasons = slices.SortedFunc(maps.Values(x.reasons), func(a, b *pb.PendingReason) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Reason, b.Reason))
	})
	return x.out
}

// addPending counts a pod of the queue, or one whose bind is under way, by what keeps it.
func (x *summary) addPending(pod *v1.Pod, text string) {
	x.pods++
	r := x.reasons[text]
	if r == nil {
		r = &pb.PendingReason{Reason: text}
		x.reasons[text] = r
	}
	name := pod.Namespace + "/" + pod.Name
	if r.Pods++; r.Example == "" || name < r.Example {
		r.Example = name
	}
}

// Workers tells the live workers and what they did.
func (s *Scheduler) Workers(context.Context) ([]*pb.WorkerStatus, error) {
	return s.fanout.Workers(), nil
}

// Shards tells the shards and who holds them.
func (s *Scheduler) Shards(ctx context.Context) ([]*pb.ShardStatus, error) {
	var out []*pb.ShardStatus
	err := s.call(ctx, func() {
		owners := s.fanout.ShardOwners()
		for i := range s.cache.NumShards() {
			t := s.cache.Table(i)
			out = append(out, &pb.ShardStatus{
				Shard: uint32(i), Nodes: uint32(t.Nodes()), Generation: t.Generation(), Workers: owners[i],
			})
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Progress is the part of the summary that costs nothing to tell: how many pods are
// bound and how many wait.
func (s *Scheduler) Progress(ctx context.Context) (*pb.Summary, error) {
	out := &pb.Summary{}
	err := s.call(ctx, func() {
		out.Nodes, out.Decisions, out.PodsBound = uint64(s.cache.Nodes()), s.seq, s.metrics.PodsBound()
		out.PodsPending = uint64(s.queue.Len(queue.Unschedulable) + s.queue.Len(queue.Gated))
		out.Idle = s.idle()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// summarise is the part of a summary that takes one step, however much there is.
func (s *Scheduler) summarise() *pb.Summary {
	out := s.metrics.Summary(s.cfg.Now(), s.seq)
	stats := s.fanout.Stats()
	out.Nodes, out.Shards, out.Idle = uint64(s.cache.Nodes()), uint32(s.cache.NumShards()), s.idle()
	out.Workers, out.Rounds, out.LocalEvaluations = s.fanout.Workers(), stats.Rounds, stats.LocalShards
	out.Classes = uint64(s.answers.Asked())
	return out
}

func pendingText(p *queue.Pod) string {
	switch {
	case p.Gated != "":
		return "waiting for scheduling gates"
	case p.Message == "":
		return "not tried yet"
	default:
		return withoutCounts(p.Message)
	}
}

// withoutCounts strips a FitError of its numbers: "0/3 nodes are available: 1
// Insufficient cpu, 2 node(s) were unschedulable." gives "Insufficient cpu,
// node(s) were unschedulable". What PostFilter plugins said behind it follows, likewise.
func withoutCounts(message string) string {
	_, list, ok := strings.Cut(message, nodesAvailable)
	if !ok {
		return message
	}
	list, said, _ := strings.Cut(list, ". ")
	out := sortedReasons(list)
	if head, list, ok := strings.Cut(said, nodesAvailable); ok {
		// "…preemption: 0/3"
		out += "; " + head[:strings.LastIndex(head, " ")+1] + sortedReasons(list)
	} else if said != "" {
		out += "; " + strings.TrimSuffix(said, ".")
	}
	return out
}

const nodesAvailable = " nodes are available: "

// sortedReasons sorts a FitError's reasons, each once and without how many nodes it is for.
func sortedReasons(list string) string {
	parts := strings.Split(strings.TrimSuffix(list, "."), ", ")
	for i, part := range parts {
		if count, rest, ok := strings.Cut(part, " "); ok && strings.Trim(count, "0123456789") == "" {
			parts[i] = rest
		}
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ", ")
}

// use is one resource added up over the nodes.
type use struct {
	allocatable, requested int64
	deciles                [10]uint32
}

func (u *use) add(allocatable, requested int64) {
	if allocatable <= 0 {
		return
	}
	u.allocatable += allocatable
	u.requested += requested
	u.deciles[min(max(int(float64(requested)/float64(allocatable)*10), 0), 9)]++
}

// addShard adds up every resource that the nodes of a shard have.
func (x *summary) addShard(t *scorer.Table) {
	t.Uses(func(resource string) func(allocatable, requested int64) {
		u := x.uses[resource]
		if u == nil {
			u = &use{}
			x.uses[resource] = u
		}
		return u.add
	})
}

// utilisation lists the resources, those that all nodes have first.
func (x *summary) utilisation() []*pb.Utilisation {
	first := []string{"cpu", "memory", "ephemeral-storage", "pods"}
	rank := func(name string) int {
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	names := slices.SortedFunc(maps.Keys(x.uses), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	out := make([]*pb.Utilisation, 0, len(names))
	for _, name := range names {
		u := x.uses[name]
		if u.allocatable > 0 {
			out = append(out, &pb.Utilisation{Resource: name, Allocatable: u.allocatable, Requested: u.requested, NodesByDecile: u.deciles[:]})
		}
	}
	return out
}
