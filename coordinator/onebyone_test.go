package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/state"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// oneByOne decides pods as upstream does: one at a time, each on every node as it is then.
// It shares the judgement of a single row and the settling of groups with the scheduler, and
// nothing else: no batches, candidates, shards or repairs. Pods that are nominated to a node
// are put there while it is looked at for the first time.
type oneByOne struct {
	t        rapid.TB
	state    *state.State
	compiler *compile.Compiler
	eval     *scorer.Evaluator
	profile  *compile.Profile
	seq      uint64
	others   map[objects.Ref]objects.Object
	// nominated are the pods that wait and are nominated to a node.
	nominated map[types.UID]*v1.Pod
	// placed are the decisions by which pods have their nodes.
	placed map[types.UID]uint64
	// told is the node that somebody else has chosen for the pod at hand, which it gets if it may; "": the best.
	told string
	// besides changes what look sees of a row; nil: nothing.
	besides func(row uint32, v *scorer.Verdict)
}

func newOneByOne(t rapid.TB, nodes []*v1.Node, present []*v1.Pod, others ...objects.Object) *oneByOne {
	o := &oneByOne{
		t: t, state: state.New(1), compiler: compile.New(), eval: scorer.NewEvaluator(nil),
		profile:   rules.DefaultProfile(v1.DefaultSchedulerName),
		others:    map[objects.Ref]objects.Object{},
		nominated: map[types.UID]*v1.Pod{},
		placed:    map[types.UID]uint64{},
	}
	o.state.OpenDevices(devices.Config{Now: time.Now, NewUID: uuid.NewUUID})
	for _, obj := range others {
		o.set(obj)
	}
	for _, n := range nodes {
		o.must(o.state.SetNode(n))
	}
	for _, p := range present {
		o.must(o.state.SetPod(p))
	}
	return o
}

func (o *oneByOne) must(_ any, err error) {
	if err != nil {
		o.t.Fatal(err)
	}
}

// set takes in an object that is neither node nor pod.
func (o *oneByOne) set(obj objects.Object) {
	ref := objects.RefOf(obj)
	old := o.others[ref]
	o.others[ref] = obj
	o.must(nil, o.state.Change(old, obj))
}

// nominate takes in which of the pods that wait are nominated.
func (o *oneByOne) nominate(pending []*v1.Pod) {
	for _, p := range pending {
		if p.Status.NominatedNodeName != "" {
			o.nominated[p.UID] = p
		}
	}
}

// decide decides one pod and promises it its node.
func (o *oneByOne) decide(p *v1.Pod) observe.DecisionLine {
	o.seq++
	d := observe.DecisionLine{
		Seq: o.seq, Pod: p.Namespace + "/" + p.Name, UID: string(p.UID),
		Profile: p.Spec.SchedulerName, Nodes: uint32(o.state.Nodes()),
	}
	class, err := o.compile(p)
	switch {
	case d.Nodes == 0:
		d.Message = "no nodes available to schedule pods"
		delete(o.nominated, p.UID)
	case err != nil:
		o.fails(&d, p, err)
	case class.Rejected != nil:
		d.Message = fmt.Sprintf("0/%d nodes are available: %s.", d.Nodes, class.Rejected.Message)
	default:
		o.choose(p, &d)
	}
	return d
}

// fails ends an attempt in an error.
func (o *oneByOne) fails(d *observe.DecisionLine, p *v1.Pod, err error) {
	delete(o.nominated, p.UID)
	d.Node, d.Score, d.Message = "", 0, err.Error()
}

func (o *oneByOne) compile(p *v1.Pod) (*compile.Class, error) {
	class, err := o.compiler.Class(p, o.profile, o.state)
	o.must(nil, o.state.Settle())
	return class, err
}

// choose looks at the node that the pod is nominated to, or at all.
func (o *oneByOne) choose(p *v1.Pod, d *observe.DecisionLine) {
	kept := o.keptFrom(p)
	class, err := o.compile(p)
	o.must(nil, err)
	if row, ok := o.state.RowOf(p.Status.NominatedNodeName); ok {
		if s := o.look(class, kept, func(r uint32) bool { return r == row.Index }); s.feasible > 0 {
			d.Feasible = 1
			o.place(p, class, s.best, d)
			return
		}
	}
	s := o.look(class, kept, func(uint32) bool { return true })
	d.Feasible = uint32(s.feasible)
	_, allowed := s.all[o.told]
	switch {
	case s.failing != nil && !allowed: // whoever has told may have left the row out that fails the pod
		o.fails(d, p, fmt.Errorf("running %q filter plugin: %s", rules.DynamicResources, o.fatal(p, class, s.failing)))
	case s.feasible == 0:
		d.Message = s.message(d.Nodes)
	case s.feasible > 1 && class.ScoreError != nil:
		o.fails(d, p, class.ScoreError)
	default:
		if c, ok := s.all[o.told]; ok {
			s.best = c
		}
		o.place(p, class, s.best, d)
	}
}

func (o *oneByOne) place(p *v1.Pod, class *compile.Class, best scorer.Candidate, d *observe.DecisionLine) {
	d.Node, d.Score = best.Name, best.Score
	work, err := o.state.Storage().Reserve(p, o.state.Node(d.Node))
	if err != nil {
		d.Feasible = 0
		o.fails(d, p, fmt.Errorf("running Reserve plugin %q: %w", "VolumeBinding", err))
		return
	}
	if class.Claims && !o.placeClaims(p, class, d) {
		return
	}
	o.must(nil, o.state.Assume(p, d.Node, class.Usage, d.Seq))
	for _, obj := range o.state.Storage().Complete(work) {
		o.set(obj)
	}
	delete(o.nominated, p.UID)
	o.placed[p.UID] = d.Seq
}

// placeClaims gives the devices of a pod's node to its claims; false: that fails.
func (o *oneByOne) placeClaims(p *v1.Pod, class *compile.Class, d *observe.DecisionLine) bool {
	row, _ := o.state.RowOf(d.Node)
	work, err := o.state.ReserveDevices(p, class, row, d.Node, o.eval)
	if err != nil {
		d.Feasible = 0
		o.fails(d, p, fmt.Errorf("running Reserve plugin %q: %w", rules.DynamicResources, err))
		return false
	}
	for _, c := range work.Allocated() {
		d.Claims = append(d.Claims, observe.ClaimLine{Claim: c.GetClaim(), Devices: c.GetDevices()})
	}
	claims, _, err := o.state.CompleteDevices(p, work)
	o.must(nil, err)
	for _, c := range claims {
		o.others[objects.RefOf(c)] = c
	}
	return true
}

// fatal is the text of a row that fails a pod.
func (o *oneByOne) fatal(p *v1.Pod, class *compile.Class, c *scorer.Candidate) string {
	names := o.state.Claims().ClaimNames(p)
	return o.eval.Allocate(o.state.Table(0), c.Row, class.Scorer).Fatal.In(func(i int32) (string, string) {
		if int(i) >= len(names) {
			return p.Namespace, ""
		}
		return names[i].Namespace, names[i].Name
	})
}

// keptFrom are the rows that pods which come before this one keep from it, with the
// reasons.
func (o *oneByOne) keptFrom(p *v1.Pod) map[uint32][]string {
	out := map[uint32][]string{}
	byNode := map[string][]*v1.Pod{}
	for _, uid := range slices.Sorted(maps.Keys(o.nominated)) {
		n := o.nominated[uid]
		if uid != p.UID && compile.Priority(n) >= compile.Priority(p) {
			byNode[n.Status.NominatedNodeName] = append(byNode[n.Status.NominatedNodeName], n)
		}
	}
	for node, pods := range byNode {
		row, ok := o.state.RowOf(node)
		if !ok {
			continue
		}
		before, err := o.compile(p)
		o.must(nil, err)
		var now scorer.Verdict
		o.eval.Row(o.state.Table(0), row.Index, nil, before.Scorer, true, &now)
		for _, n := range pods {
			o.must(o.state.SetPod(o.asSeen(withNode(n, node), p, before)))
		}
		class, err := o.compile(p)
		o.must(nil, err)
		// VolumeRestrictions, which skips without disks, does not see their claims.
		o.besides = func(r uint32, v *scorer.Verdict) {
			if r == row.Index {
				for i, m := range class.Query.GetVolumeRestrictions().GetClaims() {
					v.Measured[m].Value = now.Measured[before.Query.GetVolumeRestrictions().GetClaims()[i]].Value
				}
				o.correct(v, p, class, pods)
			}
		}
		if s := o.look(class, nil, func(r uint32) bool { return r == row.Index }); s.feasible == 0 {
			out[row.Index] = s.why[row.Index]
		}
		o.besides = nil
		for _, n := range pods {
			_, _, err := o.state.RemovePod(n)
			o.must(nil, err)
		}
	}
	return out
}

// asSeen is a nominated pod as the plugins see it that look at it for another pod: not
// being deleted, for PodTopologySpread counts it all the same, and repelling nobody where
// InterPodAffinity had nothing to do without it.
func (o *oneByOne) asSeen(n, p *v1.Pod, before *compile.Class) *v1.Pod {
	n = n.DeepCopy()
	n.DeletionTimestamp = nil
	if hasRequiredTerms(p) || n.Spec.Affinity == nil || n.Spec.Affinity.PodAntiAffinity == nil || before.Scorer.Repelled(o.state.Table(0)) {
		return n
	}
	n.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	return n
}

func hasRequiredTerms(p *v1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0)
}

// correct adds what a nominated pod counts for beyond what it counts for once it is on its
// node: a selector of everything selects it.
func (o *oneByOne) correct(v *scorer.Verdict, p *v1.Pod, class *compile.Class, pods []*v1.Pod) {
	for i, s := range class.HardSelectors {
		place := class.Query.Spread.Hard[i].Place
		for _, n := range pods {
			if !s.Empty() || n.Namespace != p.Namespace || !v.Measured[place.Measure].Included {
				continue
			}
			v.Measured[place.Measure].Value++
			if in, ok := place.In.(*pb.Place_RowValue); ok && v.Passed {
				v.Key.Values[in.RowValue]++
			}
		}
	}
}

// sight is what looking at rows has shown.
type sight struct {
	feasible int
	best     scorer.Candidate
	failing  *scorer.Candidate           // the best that fails the pod; nil: none does
	all      map[string]scorer.Candidate // by name
	why      map[uint32][]string         // of the rows that are not feasible
}

// look looks at some of the rows that are not kept from the pod; what is measured over the
// cluster is measured over all.
func (o *oneByOne) look(class *compile.Class, kept map[uint32][]string, at func(row uint32) bool) sight {
	table := o.state.Table(0)
	scores := class.Scorer.Pin(slices.Values([]*scorer.Table{table}))
	out := sight{why: map[uint32][]string{}, all: map[string]scorer.Candidate{}}
	var all scorer.Result
	all.Reset(class.ID(), 0)
	groups, locals := map[uint32]int{}, map[uint32]int64{}
	for row := range table.All() {
		var v scorer.Verdict
		o.eval.Row(table, row, nil, scores, true, &v)
		if o.besides != nil {
			o.besides(row, &v)
		}
		_, isKept := kept[row]
		passed := v.Passed
		v.Passed = passed && !isKept && at(row)
		group := all.Move(scores, &v, +1)
		switch {
		case !at(row):
		case isKept:
			out.why[row] = kept[row]
		case passed:
			groups[row], locals[row] = group, v.Local
		default:
			_, why := o.eval.Reasons(table, row, nil, scores)
			out.why[row] = texts(why)
		}
	}
	var s scorer.Standing
	scores.Settle(&all, &s)
	found := false
	for row, group := range groups {
		if s.Groups[group].Failing {
			c := table.Candidate(row, locals[row]+s.Groups[group].Score)
			if out.failing == nil || scorer.Before(c, *out.failing) {
				out.failing = &c
			}
			continue
		}
		if !s.Groups[group].Feasible {
			_, why := scores.GroupReasons(&all, &s, group)
			out.why[row] = texts(why)
			continue
		}
		c := table.Candidate(row, locals[row]+s.Groups[group].Score)
		out.all[c.Name] = c
		if !found || scorer.Before(c, out.best) {
			out.best, found = c, true
		}
	}
	out.feasible = s.Feasible
	return out
}

func texts(reasons []scorer.Reason) []string {
	var out []string
	for _, r := range reasons {
		out = append(out, r.Text)
	}
	return out
}

func (s *sight) message(nodes uint32) string {
	counts := map[string]int{}
	for _, why := range s.why {
		for _, text := range why {
			counts[text]++
		}
	}
	var parts []string
	for text, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, text))
	}
	slices.Sort(parts)
	return fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(parts, ", "))
}
