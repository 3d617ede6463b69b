package observe

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/census"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// maxGroups is how many groups pending pods are told in; pods beyond are told together, by their reasons where such a group is there.
	maxGroups = 2048
	// countedAtOnce is how many nodes one step counts, of up to 15 µs each; wordedAtOnce how many groups it reads or words, of some 10.
	countedAtOnce, wordedAtOnce = 256, 64
	// wordedBytesAtOnce is how large the groups' examples are that one step reads or words; one may be larger.
	wordedBytesAtOnce = 256 << 10
	// maxNamedPods is how many pods are named in all groups together.
	maxNamedPods = 16384
	// maxGates is how many scheduling gates are told apart.
	maxGates = 256
	// maxPendingBytes is what the groups take at the most: a message has 4 MiB.
	maxPendingBytes = 3 << 20
)

// Pending groups the pods that wait by workload and by what they want, in steps: the pods, then the nodes, then the words.
//
//	pods ──> groups: workload, reasons ──an example of each──> census of the nodes ──> causes
//
// No node is judged: the causes are worded of the last attempt's reasons, and of what all nodes add up to.
type Pending struct {
	req      *pb.ListPendingRequest
	labels   labels.Selector
	queue    Queue
	nodes    iter.Seq[*v1.Node]
	cluster  rules.Cluster
	profiles map[string]*compile.Profile
	// binding gives the pods whose binds are under way.
	binding func() []*v1.Pod
	now     time.Time

	groups map[groupKey]*pendingGroup
	total  uint64
	// Of all pods: where they are, how old, and what gates hold them back.
	queues  pb.QueueCounts
	ages    []uint64
	gates   map[gateKey]*pb.GateCount
	named   int // pods that are named
	words   rules.Dictionary
	census  *census.Census
	watched int // groups whose asks the census knows
	pods    walk[*queue.Pod]
	counted walk[*v1.Node]
	order   []*pendingGroup // those that are not worded yet
	out     []wordedGroup
}

// wordedGroup is a group, and its pods that are named.
type wordedGroup struct {
	*pb.PendingGroup
	named []namedPod
}

// groupKey tells groups apart: a workload, and why its pods wait, without numbers.
type groupKey struct{ kind, namespace, name, text string }

// pendingGroup is the pods of a key; example is the oldest, with the message and the plugins of its last attempt.
type pendingGroup struct {
	groupKey
	queues     pb.QueueCounts
	ages       []uint64
	named      []namedPod // the oldest first
	pods       uint64
	oldest     time.Time
	example    *v1.Pod
	message    string
	gated      string
	rejectedBy []string
}

// gateKey tells gates apart; name is empty where the plugin knows none.
type gateKey struct{ plugin, name string }

// namedPod is a pod that is told by its name.
type namedPod struct {
	name     types.NamespacedName
	since    time.Time
	queue    string
	attempts int
	backoff  time.Time // zero: it does not back off
	gated    string
	node     string // that it is nominated to
}

func (p namedPod) compare(o namedPod) int {
	return cmp.Or(p.since.Compare(o.since), strings.Compare(p.name.Name, o.name.Name), strings.Compare(p.name.Namespace, o.name.Namespace))
}

// ageBins are the ages by which pods that wait are counted.
func ageBins() []time.Duration {
	return []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 24 * time.Hour}
}

// NewPending makes a list that is to be read. What it is given is read on the loop. The error is that of a selector that is none.
func NewPending(req *pb.ListPendingRequest, q Queue, nodes iter.Seq[*v1.Node], c rules.Cluster, profiles map[string]*compile.Profile,
	binding func() []*v1.Pod, now time.Time) (*Pending, error) {
	selector, err := labels.Parse(req.GetLabelSelector())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "label_selector: %v", err)
	}
	return &Pending{
		req: req, labels: selector, queue: q, nodes: nodes, cluster: c, profiles: profiles, binding: binding, words: rules.NewDictionary(),
		groups: map[groupKey]*pendingGroup{}, now: now, ages: make([]uint64, len(ageBins())+1), gates: map[gateKey]*pb.GateCount{},
	}, nil
}

// Read is how the list is read.
func (x *Pending) Read() Read {
	return Read{Step: x.step, End: func() { x.pods.end(); x.counted.end() }}
}

func (x *Pending) step() (last bool) {
	if x.census == nil {
		if x.pods.some(x.queue.All(), podsAtOnce, x.add) {
			x.addBinding()
			x.beginCensus()
		}
		return false
	}
	if x.watched < len(x.order) && len(x.out) == 0 {
		n := someGroups(x.order[x.watched:])
		for _, g := range x.order[x.watched : x.watched+n] {
			rules.Watch(x.census, g.example, x.profiles[g.example.Spec.SchedulerName])
		}
		x.watched += n
		return false
	}
	if !x.counted.some(x.nodes, countedAtOnce, x.census.Add) {
		return false
	}
	n := someGroups(x.order)
	for _, g := range x.order[:n] {
		x.out = append(x.out, wordedGroup{x.word(g), g.named})
	}
	x.order = x.order[n:]
	return len(x.order) == 0
}

// someGroups is how many groups one step reads or words: the first at any rate.
func someGroups(list []*pendingGroup) (n int) {
	for size := 0; n < min(wordedAtOnce, len(list)) && size < wordedBytesAtOnce; n++ {
		size += list[n].example.Size()
	}
	return n
}

// add counts a pod of the queue.
func (x *Pending) add(p *queue.Pod) {
	text := pendingText(p)
	if p.Gated != "" {
		text = p.Message
	}
	since := p.Obj.CreationTimestamp.Time
	if since.IsZero() {
		since = p.Timestamp
	}
	g, oldest := x.group(p.Obj, text, since)
	if g == nil {
		return
	}
	if oldest {
		g.message, g.gated, g.rejectedBy = p.Message, p.Gated, p.RejectedBy
	}
	place := p.Place()
	x.count(g, since, func(c *pb.QueueCounts) *uint64 { return countOf(c, place) })
	x.countGates(p, since)
	named := namedPod{
		name: types.NamespacedName{Namespace: p.Obj.Namespace, Name: p.Obj.Name}, since: since, queue: place.String(), attempts: p.Attempts,
		gated: p.Gated, node: p.Nomination(),
	}
	if place == queue.Backoff || place == queue.ErrorBackoff {
		named.backoff = p.BackoffUntil
	}
	x.name(g, named)
}

// countOf is the count of a place.
func countOf(c *pb.QueueCounts, place queue.Place) *uint64 {
	switch place {
	case queue.Active:
		return &c.Active
	case queue.Backoff, queue.ErrorBackoff:
		return &c.Backoff
	case queue.Gated:
		return &c.Gated
	case queue.InFlight:
		return &c.InFlight
	}
	return &c.Unschedulable
}

// count counts a pod of a group by where it is, and by its age.
func (x *Pending) count(g *pendingGroup, since time.Time, of func(*pb.QueueCounts) *uint64) {
	*of(&g.queues)++
	*of(&x.queues)++
	age, bins := x.now.Sub(since), ageBins()
	i := slices.IndexFunc(bins, func(b time.Duration) bool { return age < b })
	if i < 0 {
		i = len(bins)
	}
	if g.ages == nil {
		g.ages = make([]uint64, len(bins)+1)
	}
	g.ages[i]++
	x.ages[i]++
}

// countGates counts a pod at each gate that holds it back.
func (x *Pending) countGates(p *queue.Pod, since time.Time) {
	if p.Gated == "" {
		return
	}
	names := []string{""}
	if gates := p.Obj.Spec.SchedulingGates; p.Gated == rules.SchedulingGates && len(gates) > 0 {
		names = names[:0]
		for i := range gates {
			names = append(names, gates[i].Name)
		}
	}
	for _, name := range names {
		key := gateKey{p.Gated, name}
		if x.gates[key] == nil && len(x.gates) >= maxGates {
			key.name = ""
		}
		c := x.gates[key]
		if c == nil {
			c = &pb.GateCount{Plugin: key.plugin, Gate: key.name}
			x.gates[key] = c
		}
		if c.Pods++; c.Oldest == nil || since.Before(c.Oldest.AsTime()) {
			c.Oldest = timestamppb.New(since)
		}
	}
}

// name keeps a pod, if it is among the oldest of its group that are asked for, and there is room.
func (x *Pending) name(g *pendingGroup, p namedPod) {
	most := int(x.req.GetPodsOfGroup())
	if x.named >= maxNamedPods {
		most = min(most, len(g.named))
	}
	at, _ := slices.BinarySearchFunc(g.named, p, namedPod.compare)
	if at >= most {
		return
	}
	if len(g.named) == most {
		g.named = g.named[:most-1]
		x.named--
	}
	g.named = slices.Insert(g.named, at, p)
	x.named++
}

func (x *Pending) addBinding() {
	for _, p := range x.binding() {
		since := p.CreationTimestamp.Time
		g, oldest := x.group(p, BeingBound, since)
		if g == nil {
			continue
		}
		if oldest {
			g.message, g.gated, g.rejectedBy = BeingBound, "", nil
		}
		x.count(g, since, func(c *pb.QueueCounts) *uint64 { return &c.Binding })
		x.name(g, namedPod{name: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, since: since, queue: "binding"})
	}
}

// group counts a pod in its group, and tells whether it is the oldest so far, which is the group's example; nil: it is not asked for.
func (x *Pending) group(p *v1.Pod, text string, since time.Time) (g *pendingGroup, oldest bool) {
	if ns := x.req.GetNamespace(); ns != "" && p.Namespace != ns || !x.labels.Matches(labels.Set(p.Labels)) {
		return nil, false
	}
	x.total++
	kind, name := WorkloadOf(p)
	key := groupKey{kind, p.Namespace, name, text}
	for _, wider := range []groupKey{{text: text}, {}} {
		if x.groups[key] == nil && len(x.groups) >= maxGroups {
			key = wider
		}
	}
	g = x.groups[key]
	if g == nil {
		g = &pendingGroup{groupKey: key}
		x.groups[key] = g
	}
	g.pods++
	if g.example != nil && (since.After(g.oldest) || since.Equal(g.oldest) && p.Name >= g.example.Name) {
		return g, false
	}
	g.example, g.oldest = p, since
	return g, true
}

// beginCensus begins to count the nodes, by what the groups ask: those of most pods first.
func (x *Pending) beginCensus() {
	x.census = census.New()
	x.order = slices.SortedFunc(maps.Values(x.groups), func(a, b *pendingGroup) int {
		return cmp.Or(cmp.Compare(b.pods, a.pods), strings.Compare(a.namespace, b.namespace), strings.Compare(a.kind, b.kind),
			strings.Compare(a.name, b.name), strings.Compare(a.text, b.text))
	})
}

// word words a group.
func (x *Pending) word(g *pendingGroup) *pb.PendingGroup {
	out := &pb.PendingGroup{
		Kind: g.kind, Namespace: g.namespace, Name: g.name, Pods: g.pods, Example: g.example.Namespace + "/" + g.example.Name,
		Oldest: timestamppb.New(g.oldest), Queues: &g.queues, Ages: g.ages,
	}
	asked := rules.Asked{Pod: g.example, Profile: x.profiles[g.example.Spec.SchedulerName], Nodes: x.census, Cluster: x.cluster}
	reasons, isFitError := fitReasons(g.message)
	switch {
	case g.gated != "":
		asked.Reasons = []string{g.message}
		out.Causes = wanted(g.gated, x.words.Of(g.gated), &asked)
	case g.message == "":
		out.Causes = []*pb.Cause{{Cause: "not tried yet", Help: "nothing: its turn comes"}}
	case g.message == BeingBound:
		out.Causes = []*pb.Cause{{Cause: BeingBound, Help: "nothing: its bind, its volumes or its devices are waited for"}}
	case x.census.Nodes() == 0:
		out.Causes = []*pb.Cause{{Cause: "the cluster has no nodes", Help: "nodes"}}
	case !isFitError && slices.Equal(g.rejectedBy, []string{queue.GangScheduling}):
		asked.Reasons = []string{g.message}
		out.Causes = wanted(queue.GangScheduling, x.words.Of(queue.GangScheduling), &asked)
	case !isFitError && slices.Contains(g.rejectedBy, rules.TopologyPlacementGenerator):
		out.Causes = []*pb.Cause{{Plugin: rules.TopologyPlacementGenerator, Cause: g.message,
			Help: "nodes in a domain that takes its pod group: explain podgroup tells what that waits for"}}
	case !isFitError:
		out.Causes = []*pb.Cause{{Cause: g.message, Help: "nothing: an attempt that failed is repeated"}}
	default:
		out.Causes = causesOf(x.words, reasons, g.rejectedBy, &asked)
	}
	return out
}

// Refusers finds the plugins of FitErrors that tell none.
type Refusers struct {
	words rules.Dictionary
	names []string
}

// NewRefusers makes one for the built-in plugins.
func NewRefusers() *Refusers {
	words := rules.NewDictionary()
	return &Refusers{words, slices.Sorted(maps.Keys(words))}
}

// Of are the built-in plugins that give a FitError's reasons, sorted; none where it is no FitError, or its reasons are others'.
func (x *Refusers) Of(message string) (names []string) {
	reasons, _ := fitReasons(message)
	for _, r := range reasons {
		if _, name := x.words.Speaker(r.text, x.names); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// countedReason is a reason with the number of nodes that were refused for it; 0: all, before any was looked at.
type countedReason struct {
	text  string
	nodes uint32
}

// fitReasons takes a FitError apart; false: it is none. It has no reasons where all nodes were refused without one. A reason may have
// commas in it: a part without a number goes on with the one before.
func fitReasons(message string) (out []countedReason, isFitError bool) {
	list, _, ok := cutFitError(message)
	if !ok {
		return nil, false
	}
	for _, part := range strings.Split(list, ", ") {
		count, rest, ok := strings.Cut(part, " ")
		if n, err := strconv.ParseUint(count, 10, 32); ok && err == nil {
			out = append(out, countedReason{rest, uint32(n)})
		} else if len(out) > 0 {
			out[len(out)-1].text += ", " + part
		} else if part != "" {
			out = append(out, countedReason{part, 0})
		}
	}
	return out, true
}

// spoken are reasons that are told together, with how many nodes are refused for them: refused at the most, nodes at the least.
type spoken struct {
	words          *rules.Words
	plugin         string
	reasons        []string
	nodes, refused uint32
}

// causesOf words reasons that some plugins have given: the one of most nodes first. A reason that no plugin has words for is put down to
// the plugins that gave none of the other reasons.
func causesOf(d rules.Dictionary, reasons []countedReason, plugins []string, asked *rules.Asked) (out []*pb.Cause) {
	var list []*spoken
	silent := slices.Clone(plugins)
	for _, r := range reasons {
		w, plugin := d.Speaker(r.text, plugins)
		silent = slices.DeleteFunc(silent, func(name string) bool { return name == plugin })
		at := slices.IndexFunc(list, func(s *spoken) bool { return w != nil && w.Together && s.plugin == plugin })
		if at < 0 {
			list = append(list, &spoken{w, plugin, []string{r.text}, r.nodes, r.nodes})
			continue
		}
		s := list[at]
		s.reasons, s.nodes, s.refused = append(s.reasons, r.text), max(s.nodes, r.nodes), s.refused+r.nodes
	}
	// A built-in plugin has words for all of its reasons, but CELFilter, whose expressions have messages of their own.
	silent = slices.DeleteFunc(silent, func(name string) bool { return d[name] != nil && name != rules.CELFilter })
	untold := len(silent) > 0 && !slices.Contains(silent, rules.CELFilter) || len(reasons) == 0
	for _, s := range list {
		untold = untold && s.words != nil
		asked.Reasons, asked.Refused = s.reasons, int(s.refused)
		for _, c := range s.causes(d, silent, asked) {
			c.Nodes = s.nodes
			out = addCause(out, c)
		}
	}
	if untold {
		out = append(out, unsaid(silent, asked))
	}
	slices.SortStableFunc(out, func(a, b *pb.Cause) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return out[:min(len(out), maxCauses)]
}

// causes words the reasons. silent are the plugins that may have given those that no plugin has words for.
func (s *spoken) causes(d rules.Dictionary, silent []string, asked *rules.Asked) []*pb.Cause {
	if s.words == nil && len(silent) == 1 {
		s.words, s.plugin = d[silent[0]], silent[0]
	}
	out := wanted(s.plugin, s.words, asked)
	for _, c := range out {
		if s.words == nil {
			c.Help = "nodes that " + whoever(silent, asked) + " takes"
		}
	}
	return out
}

// unsaid tells of plugins and extenders that refuse nodes, and give no reason.
func unsaid(silent []string, asked *rules.Asked) *pb.Cause {
	who := whoever(silent, asked)
	c := &pb.Cause{Cause: who + " refuses nodes, without a reason", Help: "nodes that " + who + " takes"}
	if len(silent) == 1 {
		c.Plugin = silent[0]
	}
	return c
}

// whoever names plugins and extenders of which one has refused nodes.
func whoever(silent []string, asked *rules.Asked) string {
	if names := asked.Cluster.Refusers(asked.Pod, silent); len(names) > 0 {
		return strings.Join(names, " or ")
	}
	return "a plugin or an extender"
}

// Answer is the list, after the last step. It needs no loop.
func (x *Pending) Answer() *pb.ListPendingResponse {
	out := &pb.ListPendingResponse{Pods: x.total, Nodes: uint32(x.census.Nodes()), Queues: &x.queues, Ages: x.ages}
	for _, b := range ageBins() {
		out.AgeBins = append(out.AgeBins, durationpb.New(b))
	}
	out.Gates = slices.SortedFunc(maps.Values(x.gates), func(a, b *pb.GateCount) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), strings.Compare(a.Plugin, b.Plugin), strings.Compare(a.Gate, b.Gate))
	})
	size := proto.Size(out)
	for i, g := range x.out {
		g.OldestPods = make([]*pb.PendingPod, 0, len(g.named))
		for k := range g.named {
			g.OldestPods = append(g.OldestPods, g.named[k].proto())
		}
		if size += proto.Size(g.PendingGroup) + 8; size > maxPendingBytes {
			for _, left := range x.out[i:] {
				out.PodsLeftOut += left.Pods
			}
			break
		}
		out.Groups = append(out.Groups, g.PendingGroup)
	}
	return out
}

func (p *namedPod) proto() *pb.PendingPod {
	return &pb.PendingPod{
		Pod: p.name.String(), Created: instant(p.since), Queue: p.queue, Attempts: uint32(p.attempts), BackoffUntil: instant(p.backoff),
		GatedBy: p.gated, Nominated: p.node,
	}
}

// WorkloadOf is the workload that a pod is of: its controller, of a Deployment's ReplicaSet the Deployment; else the pod itself.
func WorkloadOf(p *v1.Pod) (kind, name string) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return "Pod", p.Name
	}
	if hash := p.Labels["pod-template-hash"]; owner.Kind == "ReplicaSet" && hash != "" {
		if deployment, ok := strings.CutSuffix(owner.Name, "-"+hash); ok && deployment != "" {
			return "Deployment", deployment
		}
	}
	return owner.Kind, owner.Name
}
