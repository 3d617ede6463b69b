package observe

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// BeingBound is what is told of a pod that has a node and no outcome of its bind.
const BeingBound = "placed but not bound yet: its bind, or that of its volumes, is under way"

// Summary adds up what the scheduler did so far, in steps.
type Summary struct {
	cluster Cluster
	queue   Queue
	totals  func() (out *pb.Summary, binding []*v1.Pod)

	out  *pb.Summary
	uses map[string]*use
	// shards is how many were added up.
	shards int
	// drivers are the devices of each driver, as far as pools were added up; claims counts those without devices, and those with.
	drivers map[string]*pb.DriverDevices
	claims  [2]uint64
	pools   walk[devices.PoolUse]
	having  walk[bool]
	pending walk[*queue.Pod]
	reasons map[string]*pb.PendingReason
	// told are the reasons by what pods were told: of many pods it is the same, and to find the reason in it takes microseconds.
	told map[string]*pb.PendingReason
	pods uint64
}

// NewSummary makes a summary that is to be read. totals is called with the last step: it gives the part of the summary that
// takes one step however much there is, and the pods whose binds are under way.
func NewSummary(c Cluster, q Queue, totals func() (*pb.Summary, []*v1.Pod)) *Summary {
	return &Summary{
		cluster: c, queue: q, totals: totals,
		uses: map[string]*use{}, drivers: map[string]*pb.DriverDevices{}, reasons: map[string]*pb.PendingReason{},
		told: map[string]*pb.PendingReason{},
	}
}

// Read is how the summary is read.
func (x *Summary) Read() Read {
	return Read{Step: x.step, End: func() { x.pools.end(); x.having.end(); x.pending.end() }}
}

// step adds a shard up, or some pending pods, each as it is by then.
func (x *Summary) step() (last bool) {
	if x.shards < x.cluster.NumShards() {
		x.addShard(x.shards)
		x.shards++
		return false
	}
	if c := x.cluster.Claims(); c != nil {
		if !x.pools.some(c.Pools, poolsAtOnce, x.addPool) || !x.having.some(c.HasDevices, claimsAtOnce, x.addClaim) {
			return false
		}
	}
	if !x.pending.some(x.queue.All(), podsAtOnce, x.addQueued) {
		return false
	}
	var binding []*v1.Pod
	x.out, binding = x.totals()
	for _, pod := range binding {
		x.addPending(pod, x.reasonOf(BeingBound))
	}
	return true
}

// Report is the summary, after the last step. It needs no loop.
func (x *Summary) Report() *pb.Summary {
	x.out.Utilisation = x.utilisation()
	for _, driver := range slices.Sorted(maps.Keys(x.drivers)) {
		x.out.Devices = append(x.out.Devices, x.drivers[driver])
	}
	x.out.ClaimsWaiting, x.out.ClaimsAllocated = x.claims[0], x.claims[1]
	x.out.PodsPending = x.pods
	x.out.PendingReasons = slices.SortedFunc(maps.Values(x.reasons), func(a, b *pb.PendingReason) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Reason, b.Reason))
	})
	return x.out
}

// How many pools and claims one step of a summary adds up, of some 100 ns each.
const (
	poolsAtOnce  = 4096
	claimsAtOnce = 16384
)

// addPool adds a pool's devices up.
func (x *Summary) addPool(p devices.PoolUse) {
	d := x.drivers[p.Driver]
	if d == nil {
		d = &pb.DriverDevices{Driver: p.Driver}
		x.drivers[p.Driver] = d
	}
	d.Devices += uint64(p.Devices)
	d.InUse += uint64(p.InUse)
}

func (x *Summary) addClaim(has bool) {
	if has {
		x.claims[1]++
	} else {
		x.claims[0]++
	}
}

// addQueued counts a pod of the queue by what keeps it.
func (x *Summary) addQueued(p *queue.Pod) {
	if p.Gated != "" || p.Message == "" {
		x.addPending(p.Obj, x.reasonOf(pendingText(p)))
		return
	}
	r := x.told[p.Message]
	if r == nil {
		r = x.reasonOf(pendingText(p))
		x.told[p.Message] = r
	}
	x.addPending(p.Obj, r)
}

// reasonOf counts the pods of which a text is told.
func (x *Summary) reasonOf(text string) *pb.PendingReason {
	r := x.reasons[text]
	if r == nil {
		r = &pb.PendingReason{Reason: text}
		x.reasons[text] = r
	}
	return r
}

// addPending counts a pod that has no node yet, or whose bind is under way. The first pod by its name is the example.
func (x *Summary) addPending(pod *v1.Pod, r *pb.PendingReason) {
	x.pods++
	r.Pods++
	if at, rest, ok := strings.Cut(r.Example, "/"); !ok || cmp.Or(cmp.Compare(pod.Namespace, at), cmp.Compare(pod.Name, rest)) < 0 {
		r.Example = pod.Namespace + "/" + pod.Name
	}
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
// node(s) were unschedulable". What PostFilter plugins said behind it follows, as far as it tells anything.
func withoutCounts(message string) string {
	list, said, ok := cutFitError(message)
	if !ok {
		return message
	}
	out := sortedReasons(list)
	if out == "" {
		out = "nodes are refused without a reason"
	}
	if said = saidBeside(said); said != "" {
		out += "; " + said
	}
	return out
}

// cutFitError takes the reasons of a FitError from what PostFilter plugins said behind them; false: it is none. Where nodes were refused
// without a reason, there is only what PostFilter plugins said.
func cutFitError(message string) (list, said string, ok bool) {
	_, list, ok = strings.Cut(message+" ", nodesAvailable) // the space: nothing may follow
	list = strings.TrimSpace(list)
	if strings.HasPrefix(list, noClaims) || strings.HasPrefix(list, "preemption: ") {
		return "", list, ok
	}
	list, said, _ = strings.Cut(list, ". ")
	return strings.TrimSuffix(list, "."), said, ok
}

// noClaims is what DynamicResources always says where it finds nothing.
const noClaims = "no new claims to deallocate"

// saidBeside is what PostFilter plugins said, without what they always say where they find nothing.
func saidBeside(said string) string {
	said = strings.TrimPrefix(strings.TrimSuffix(said, "."), noClaims+", ")
	if said == noClaims {
		return ""
	}
	head, _, ok := strings.Cut(said, nodesAvailable)
	if !ok {
		return said
	}
	// "preemption: 0/3"
	head = strings.TrimSpace(head[:strings.LastIndex(head, " ")+1])
	return strings.TrimSuffix(strings.TrimSuffix(head, "preemption:"), ", ")
}

const nodesAvailable = " nodes are available: "

// sortedReasons sorts a FitError's reasons, each once and without how many nodes it is for.
func sortedReasons(list string) string {
	parts := strings.Split(list, ", ")
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
	u.deciles[decileOf(allocatable, requested)]++
}

// decileOf is in which tenth of what there is the requested share falls.
func decileOf(allocatable, requested int64) int {
	return min(max(int(float64(requested)/float64(allocatable)*10), 0), 9)
}

// addShard adds up every resource that the nodes of a shard have.
func (x *Summary) addShard(i int) {
	x.cluster.Uses(i, func(resource string) func(allocatable, requested int64) {
		u := x.uses[resource]
		if u == nil {
			u = &use{}
			x.uses[resource] = u
		}
		return u.add
	})
}

// utilisation lists the resources, those that all nodes have first.
func (x *Summary) utilisation() []*pb.Utilisation {
	names := slices.SortedFunc(maps.Keys(x.uses), func(a, b string) int {
		return cmp.Or(cmp.Compare(rankOf(a), rankOf(b)), cmp.Compare(a, b))
	})
	out := make([]*pb.Utilisation, 0, len(names))
	for _, name := range names {
		u := x.uses[name]
		if u.allocatable > 0 {
			out = append(out, &pb.Utilisation{Resource: name, Allocatable: u.allocatable, Requested: u.requested,
				NodesByDecile: u.deciles[:]})
		}
	}
	return out
}

// rankOf sorts resources: those that all nodes have first.
func rankOf(resource string) int {
	first := []string{"cpu", "memory", "ephemeral-storage", "pods"}
	if i := slices.Index(first, resource); i >= 0 {
		return i
	}
	return len(first)
}
