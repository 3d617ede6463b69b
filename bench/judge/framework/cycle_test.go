package framework

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	upstreamruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/shardsched/shardsched/coordinator/framework"
)

// nominated are the pods nominated to each node, in views of one side.
type nominated map[string][]fwk.PodInfo

func (n nominated) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n nominated) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (n nominated) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (n nominated) NominatedPodsForNode(node string) []fwk.PodInfo                { return n[node] }

// side is a runtime with one cycle: what a step gives is told as a text.
type side interface {
	preFilter(ctx context.Context) string
	filter(ctx context.Context, node string) string
	filterAsIs(ctx context.Context, node string) string
	remove(ctx context.Context, node string) string
	postFilter(ctx context.Context) string
	preScore(ctx context.Context, nodes []string) string
	score(ctx context.Context, nodes []string) string
	reserve(ctx context.Context, node string) string
	unreserve(ctx context.Context, node string)
	permit(ctx context.Context, node string) string
	handle() fwk.Handle
	waitOnPermit(ctx context.Context) string
	preFlight(ctx context.Context, node string) string
	preBind(ctx context.Context, node string) string
	bind(ctx context.Context, node string) string
	postBind(ctx context.Context, node string)
	skips() string
}

// theirs is upstream's.
type theirs struct {
	fw       upstream.Framework
	state    fwk.CycleState
	pod      *v1.Pod
	snapshot fwk.SharedLister
	statuses *upstream.NodeToStatus
}

func get(t fwk.SharedLister, name string) fwk.NodeInfo {
	n, err := t.NodeInfos().Get(name)
	if err != nil {
		panic(err)
	}
	return n
}

func gets(t fwk.SharedLister, names []string) []fwk.NodeInfo {
	var out []fwk.NodeInfo
	for _, n := range names {
		out = append(out, get(t, n))
	}
	return out
}

// narrowed tells of PreFilter's answer.
func narrowed(r *fwk.PreFilterResult, s *fwk.Status, by string) string {
	nodes := "all"
	if !r.AllNodes() {
		nodes = sorted(r.NodeNames)
	}
	return fmt.Sprintf("%s to %s by %s", text(s), nodes, by)
}

func (u *theirs) preFilter(ctx context.Context) string {
	r, s, by := u.fw.RunPreFilterPlugins(ctx, u.state, u.pod)
	return narrowed(r, s, sorted(by))
}
func (u *theirs) filter(ctx context.Context, node string) string {
	s := u.fw.RunFilterPluginsWithNominatedPods(ctx, u.state, u.pod, get(u.snapshot, node))
	u.statuses.Set(node, s)
	return text(s)
}
func (u *theirs) filterAsIs(ctx context.Context, node string) string {
	return text(u.fw.RunFilterPlugins(ctx, u.state, u.pod, get(u.snapshot, node)))
}
func (u *theirs) remove(ctx context.Context, node string) string {
	n := get(u.snapshot, node).Snapshot()
	if len(n.GetPods()) == 0 {
		return "empty"
	}
	p := n.GetPods()[0]
	if err := n.RemovePod(klog.Background(), p.GetPod()); err != nil {
		return err.Error()
	}
	return text(u.fw.RunPreFilterExtensionRemovePod(ctx, u.state.Clone(), u.pod, p, n))
}
func (u *theirs) postFilter(ctx context.Context) string {
	r, s := u.fw.RunPostFilterPlugins(ctx, u.state, u.pod, u.statuses)
	return nominates(r, s)
}

func nominates(r *fwk.PostFilterResult, s *fwk.Status) string {
	if r == nil {
		return text(s) + " and no result"
	}
	if r.NominatingInfo == nil {
		return text(s) + " and an empty result"
	}
	return fmt.Sprintf("%s and %+v", text(s), *r.NominatingInfo)
}
func (u *theirs) preScore(ctx context.Context, nodes []string) string {
	return text(u.fw.RunPreScorePlugins(ctx, u.state, u.pod, gets(u.snapshot, nodes)))
}
func (u *theirs) score(ctx context.Context, nodes []string) string {
	scores, s := u.fw.RunScorePlugins(ctx, u.state, u.pod, gets(u.snapshot, nodes))
	return fmt.Sprintf("%s: %+v", text(s), scores)
}
func (u *theirs) reserve(ctx context.Context, node string) string {
	return text(u.fw.RunReservePluginsReserve(ctx, u.state, u.pod, node))
}
func (u *theirs) unreserve(ctx context.Context, node string) {
	u.fw.RunReservePluginsUnreserve(ctx, u.state, u.pod, node)
}
func (u *theirs) permit(ctx context.Context, node string) string {
	waits, s := u.fw.RunPermitPlugins(ctx, u.state, u.pod, node)
	if s.IsWait() {
		u.fw.AddWaitingPod(u.pod, waits)
	}
	return fmt.Sprint(text(s), " will wait: ", u.fw.WillWaitOnPermit(ctx, u.pod))
}
func (u *theirs) handle() fwk.Handle { return u.fw }
func (u *theirs) waitOnPermit(ctx context.Context) string {
	return text(u.fw.WaitOnPermit(ctx, u.pod))
}
func (u *theirs) preFlight(ctx context.Context, node string) string {
	return text(u.fw.RunPreBindPreFlights(ctx, u.state, u.pod, node))
}
func (u *theirs) preBind(ctx context.Context, node string) string {
	return text(u.fw.RunPreBindPlugins(ctx, u.state, u.pod, node))
}
func (u *theirs) bind(ctx context.Context, node string) string {
	return text(u.fw.RunBindPlugins(ctx, u.state, u.pod, node))
}
func (u *theirs) postBind(ctx context.Context, node string) {
	u.fw.RunPostBindPlugins(ctx, u.state, u.pod, node)
}
func (u *theirs) skips() string { return marks(u.state) }

func marks(s fwk.CycleState) string {
	return fmt.Sprint(sorted(s.GetSkipFilterPlugins()), sorted(s.GetSkipScorePlugins()), sorted(s.GetSkipPreBindPlugins()), sorted(s.GetParallelPreBindPlugins()))
}

// own is ours.
type own struct {
	*framework.Cycle
	snapshot fwk.SharedLister
	statuses *framework.NodeStatuses
}

func (o *own) preFilter(ctx context.Context) string {
	r, s, by := o.PreFilter(ctx)
	return narrowed(r, s, sorted(by))
}
func (o *own) filter(ctx context.Context, node string) string {
	s := o.Filter(ctx, get(o.snapshot, node))
	o.statuses.Set(node, s)
	return text(s)
}
func (o *own) filterAsIs(ctx context.Context, node string) string {
	return text(o.FilterAsIs(ctx, get(o.snapshot, node)))
}
func (o *own) remove(ctx context.Context, node string) string {
	n := get(o.snapshot, node).Snapshot()
	if len(n.GetPods()) == 0 {
		return "empty"
	}
	p := n.GetPods()[0]
	if err := n.RemovePod(klog.Background(), p.GetPod()); err != nil {
		return err.Error()
	}
	return text(o.Clone().RemovePod(ctx, p, n))
}
func (o *own) postFilter(ctx context.Context) string {
	r, s := o.PostFilter(ctx, func() fwk.NodeToStatusReader { return o.statuses }, nil)
	return nominates(r, s)
}
func (o *own) preScore(ctx context.Context, nodes []string) string {
	return text(o.PreScore(ctx, gets(o.snapshot, nodes)))
}
func (o *own) score(ctx context.Context, nodes []string) string {
	scores, s := o.Score(ctx, gets(o.snapshot, nodes))
	return fmt.Sprintf("%s: %+v", text(s), scores)
}
func (o *own) reserve(ctx context.Context, node string) string { return text(o.Reserve(ctx, node)) }
func (o *own) unreserve(ctx context.Context, node string)      { o.Unreserve(ctx, node) }
func (o *own) permit(ctx context.Context, node string) string {
	return fmt.Sprint(text(o.Permit(ctx, node)), " will wait: ", o.WillWait())
}
func (o *own) handle() fwk.Handle                      { return o.Profile().Handle() }
func (o *own) waitOnPermit(ctx context.Context) string { return text(o.WaitOnPermit(ctx)) }
func (o *own) preFlight(ctx context.Context, node string) string {
	return text(o.PreBindPreFlight(ctx, node))
}
func (o *own) preBind(ctx context.Context, node string) string { return text(o.PreBind(ctx, node)) }
func (o *own) bind(ctx context.Context, node string) string    { return text(o.Bind(ctx, node)) }
func (o *own) postBind(ctx context.Context, node string)       { o.PostBind(ctx, node) }
func (o *own) skips() string                                   { return marks(o.State()) }

// drawnCluster is a few nodes and the pods on them and nominated to them.
type drawnCluster struct {
	names     []string
	nodes     []*v1.Node
	pods      []*v1.Pod
	nominated map[string][]*v1.Pod
}

func drawCluster(r *rand.Rand) *drawnCluster {
	t := &drawnCluster{nominated: map[string][]*v1.Pod{}}
	for i := range 1 + r.IntN(5) {
		name := fmt.Sprintf("n%d", i)
		t.names = append(t.names, name)
		t.nodes = append(t.nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		for range r.IntN(3) {
			p := simplePod(r, len(t.pods))
			p.Spec.NodeName = name
			t.pods = append(t.pods, p)
		}
		for k := range r.IntN(3) {
			t.nominated[name] = append(t.nominated[name], simplePod(r, 100*(i+1)+k))
		}
	}
	return t
}

func simplePod(r *rand.Rand, i int) *v1.Pod {
	priority := int32(r.IntN(3))
	name := fmt.Sprintf("p%d", i)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "x", UID: types.UID(name)},
		Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(int64(r.IntN(900)), resource.DecimalSI)},
		}}}},
	}
}

// TestCyclesRunAsUpstreams runs the same plugins through both runtimes: the same calls in the same
// order, with the same answers.
func TestCyclesRunAsUpstreams(t *testing.T) {
	const rounds = 3000
	told := map[string]int{}
	for seed := range uint64(rounds) {
		playBoth(t, seed, told)
		if t.Failed() {
			return
		}
	}
	for _, want := range texts() {
		if told[want] == 0 {
			t.Errorf("no round came by %q", want)
		}
	}
}

func playBoth(t *testing.T, seed uint64, told map[string]int) {
	r := rand.New(rand.NewPCG(seed, 2))
	drawn := drawCluster(r)
	p := drawProfile(r, false)
	waiting, inPreBind := upstreamruntime.NewWaitingPodsMap(), upstreamruntime.NewPodsInPreBindMap()
	theirSnapshot := internalcache.NewSnapshot(drawn.pods, drawn.nodes)
	ourSnapshot := framework.NewSnapshot(newSource(drawn.nodes, drawn.pods))
	ourSnapshot.Begin()
	defer ourSnapshot.End()
	theirNominator, ourNominator := nominated{}, nominated{}
	for node, pods := range drawn.nominated {
		for _, pod := range pods {
			a, _ := upstream.NewPodInfo(pod)
			b, _ := framework.NewPodInfo(pod)
			theirNominator[node], ourNominator[node] = append(theirNominator[node], a), append(ourNominator[node], b)
		}
	}
	env := &framework.Environment{Snapshot: ourSnapshot, Nominator: ourNominator, Parallelism: 1}
	fw, ours, theirScript, ourScript := p.make(t, seed, drawn.names, env,
		upstreamruntime.WithSnapshotSharedLister(theirSnapshot), upstreamruntime.WithPodNominator(theirNominator),
		upstreamruntime.WithParallelism(1), upstreamruntime.WithWaitingPods(waiting), upstreamruntime.WithPodsInPreBind(inPreBind))
	if fw == nil {
		return
	}
	pod := simplePod(r, 1000)
	a := &theirs{fw: fw, state: upstream.NewCycleState(), pod: pod, snapshot: theirSnapshot, statuses: upstream.NewDefaultNodeToStatus()}
	b := &own{Cycle: ours.NewCycle(pod), snapshot: ourSnapshot, statuses: framework.NewNodeStatuses()}

	both := func(what string, step func(side) string) string {
		t.Helper()
		want, got := step(a), step(b)
		theirCalls, ourCalls := theirScript.taken(), ourScript.taken()
		if ourCalls != theirCalls {
			t.Fatalf("seed %d: %s: calls:\n%s\nupstream's:\n%s\n%s", seed, what, ourCalls, theirCalls, p)
		}
		if got != want {
			t.Fatalf("seed %d: %s:\ngot      %s\nupstream %s\n%s", seed, what, got, want, p)
		}
		note(told, got)
		return got
	}
	play(klog.NewContext(t.Context(), klog.Logger{}), r, drawn.names, both) // upstream logs what fails
}

// texts are what the rounds must have come by for the comparison to be worth anything.
func texts() []string {
	return []string{
		"running PreFilter plugin", "didn't satisfy plugin(s) [", "didn't satisfy plugin ", "filter plugin:", "running AddPod on PreFilter plugin",
		"running RemovePod on PreFilter plugin", "no use, says", "running PreScore plugin", "running Score plugins: plugin", "running Normalize on Score plugins",
		"returns an invalid score", "TotalScore:", "running Reserve plugin", "running Permit plugin", "one or more plugins asked to wait",
		"waiting on permit for pod: out of the way", "not you", "removed", "running PreBindPreFlight", "which is unsupported", "running PreBind plugin", "running Bind plugin",
		"UnschedulableAndUnresolvable by", "Pending by", "NominatingMode:1",
	}
}

// note counts the texts that a round came by.
func note(told map[string]int, got string) {
	for _, w := range texts() {
		if strings.Contains(got, w) {
			told[w]++
		}
	}
}

// play goes through all points, whatever each of them says.
func play(ctx context.Context, r *rand.Rand, names []string, both func(string, func(side) string) string) {
	both("PreFilter", func(s side) string { return s.preFilter(ctx) + s.skips() })
	for _, n := range names {
		both("Filter", func(s side) string { return s.filter(ctx, n) })
		both("Filter as is", func(s side) string { return s.filterAsIs(ctx, n) })
		both("RemovePod", func(s side) string { return s.remove(ctx, n) })
	}
	both("PostFilter", func(s side) string { return s.postFilter(ctx) })
	both("PreScore", func(s side) string { return s.preScore(ctx, names) + s.skips() })
	both("Score", func(s side) string { return s.score(ctx, names) })
	node := names[0]
	both("Reserve", func(s side) string { return s.reserve(ctx, node) })
	waits := strings.Contains(both("Permit", func(s side) string { return s.permit(ctx, node) }), "will wait: true")
	if waits {
		permit(r, both)
	}
	both("WaitOnPermit", func(s side) string { return s.waitOnPermit(ctx) })
	both("nobody waits", func(s side) string { return fmt.Sprint(s.handle().GetWaitingPod("p1000")) })
	both("PreBindPreFlight", func(s side) string { return s.preFlight(ctx, node) + s.skips() })
	both("PreBind", func(s side) string { return s.preBind(ctx, node) })
	both("Bind", func(s side) string { return s.bind(ctx, node) })
	both("PostBind", func(s side) string { s.postBind(ctx, node); return "" })
	both("Unreserve", func(s side) string { s.unreserve(ctx, node); return "" })
}

// permit ends the waiting: by all plugins' leave, or otherwise.
func permit(r *rand.Rand, both func(string, func(side) string) string) {
	pending := func(s side) string {
		list := s.handle().GetWaitingPod("p1000").GetPendingPlugins()
		slices.Sort(list)
		return strings.Join(list, " ")
	}
	each := func(s side) fwk.WaitingPod {
		var one fwk.WaitingPod
		s.handle().IterateOverWaitingPods(func(w fwk.WaitingPod) { one = w })
		return one
	}
	for list := strings.Fields(both("pending", pending)); ; list = strings.Fields(both("pending", pending)) {
		plugin := "stranger"
		if len(list) > 0 {
			plugin = list[r.IntN(len(list))]
		}
		how := r.IntN(8)
		both(fmt.Sprint("permit ", how), func(s side) string {
			switch how {
			case 0:
				return fmt.Sprint(each(s).Reject(plugin, "not you"))
			case 1:
				return fmt.Sprint(each(s).Preempt(plugin, "out of the way"))
			case 2:
				return fmt.Sprint(s.handle().RejectWaitingPod("p1000"), s.handle().RejectWaitingPod("nobody"))
			default:
				each(s).Allow(plugin)
				return "allowed"
			}
		})
		if how < 3 || len(list) <= 1 && plugin != "stranger" {
			break
		}
	}
	// It is over.
	both("too late", func(s side) string {
		return fmt.Sprint(each(s).Reject("A", "too late"), each(s).Preempt("A", "too late"))
	})
}
