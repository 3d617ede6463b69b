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
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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

	groups  map[groupKey]*pendingGroup
	total   uint64
	words   rules.Dictionary
	census  *census.Census
	watched int // groups whose asks the census knows
	pods    walk[*queue.Pod]
	counted walk[*v1.Node]
	order   []*pendingGroup // those that are not worded yet
	out     []*pb.PendingGroup
}

// groupKey tells groups apart: a workload, and why its pods wait, without numbers.
type groupKey struct{ kind, namespace, name, text string }

// pendingGroup is the pods of a key; example is the oldest, with the message and the plugins of its last attempt.
type pendingGroup struct {
	groupKey
	pods       uint64
	oldest     time.Time
	example    *v1.Pod
	message    string
	gated      string
	rejectedBy []string
}

// NewPending makes a list that is to be read. What it is given is read on the loop. The error is that of a selector that is none.
func NewPending(req *pb.ListPendingRequest, q Queue, nodes iter.Seq[*v1.Node], c rules.Cluster, profiles map[string]*compile.Profile,
	binding func() []*v1.Pod) (*Pending, error) {
	selector, err := labels.Parse(req.GetLabelSelector())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "label_selector: %v", err)
	}
	return &Pending{
		req: req, labels: selector, queue: q, nodes: nodes, cluster: c, profiles: profiles, binding: binding, words: rules.NewDictionary(),
		groups: map[groupKey]*pendingGroup{},
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
		x.out = append(x.out, x.word(g))
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
	if g := x.group(p.Obj, text, since); g != nil {
		g.message, g.gated, g.rejectedBy = p.Message, p.Gated, p.RejectedBy
	}
}

func (x *Pending) addBinding() {
	for _, p := range x.binding() {
		if g := x.group(p, BeingBound, p.CreationTimestamp.Time); g != nil {
			g.message, g.gated, g.rejectedBy = BeingBound, "", nil
		}
	}
}

// group counts a pod in its group; nil: it is not the group's example, or is not asked for.
func (x *Pending) group(p *v1.Pod, text string, since time.Time) *pendingGroup {
	if ns := x.req.GetNamespace(); ns != "" && p.Namespace != ns || !x.labels.Matches(labels.Set(p.Labels)) {
		return nil
	}
	x.total++
	kind, name := WorkloadOf(p)
	key := groupKey{kind, p.Namespace, name, text}
	for _, wider := range []groupKey{{text: text}, {}} {
		if x.groups[key] == nil && len(x.groups) >= maxGroups {
			key = wider
		}
	}
	g := x.groups[key]
	if g == nil {
		g = &pendingGroup{groupKey: key}
		x.groups[key] = g
	}
	g.pods++
	if g.example != nil && (since.After(g.oldest) || since.Equal(g.oldest) && p.Name >= g.example.Name) {
		return nil
	}
	g.example, g.oldest = p, since
	return g
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
		Oldest: timestamppb.New(g.oldest),
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
	out := &pb.ListPendingResponse{Pods: x.total, Nodes: uint32(x.census.Nodes())}
	size := 0
	for i, g := range x.out {
		if size += proto.Size(g) + 8; size > maxPendingBytes {
			for _, left := range x.out[i:] {
				out.PodsLeftOut += left.Pods
			}
			break
		}
		out.Groups = append(out.Groups, g)
	}
	return out
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
