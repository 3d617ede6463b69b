package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/nominees"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// defaultTop is how many nodes an explanation shows where none are asked for.
const defaultTop = 5

// beingBound is what is told of a pod that has a node and no outcome of its bind.
const beingBound = "placed but not bound yet: its bind, or that of its volumes, is under way"

// Explain judges a pod against the cluster as it is now, without the pod itself, on
// the coordinator's own tables. Where there are many nodes it takes several turns of the loop: each node is judged
// as it is by then.
func (s *Scheduler) Explain(ctx context.Context, req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	e := explanation{req: req}
	waits := func() bool { return e.waits && s.cache.counting.isBusy() && !s.draining }
	if err := s.serve(read{ctx: ctx, step: func() bool { return s.explain(&e) }, waits: waits}); err != nil {
		return nil, err
	}
	return e.answer()
}

// maxRestarts is how often an explanation begins anew, because nodes come and go or the pod changes, until it is
// given up.
const maxRestarts = 8

// explanation is a call of Explain on its way.
type explanation struct {
	req    *pb.ExplainRequest
	out    *pb.ExplainResponse
	err    error
	search search
	// x judges rows; nil: none yet.
	x        *explainer
	restarts int
	waits    bool // for counters that are not filled yet
}

// answer is the explanation, after the last step. It needs no loop.
func (e *explanation) answer() (*pb.ExplainResponse, error) {
	if e.out != nil && e.x != nil && e.x.told {
		e.x.verdicts.tell(e.out)
	}
	return e.out, e.err
}

// explain takes the next step of an explanation; true: it was the last.
func (s *Scheduler) explain(e *explanation) (last bool) {
	pod, out, last := s.find(&e.search, e.req.Namespace, e.req.Name)
	if !last {
		return false
	}
	if pod == nil {
		e.out, e.err = s.explainStranger(e.req)
		return true
	}
	e.out = out
	out.Nodes = uint32(s.cache.Nodes())
	s.noteQuarantined(out, pod)
	out.History = s.history.Past(pod.UID)
	if len(out.History) > 0 {
		out.Decision = out.History[0].Decision
	}
	prof := s.cfg.Profiles[pod.Spec.SchedulerName]
	if prof == nil {
		note(out, s.notOurs(pod))
		return true
	}
	// The pod is taken from its node for the while of the judgement, so that the node is
	// judged as it was offered.
	var put func() error
	err := s.caught(func() (err error) { put, err = s.cache.Without(pod); return err })
	if err == nil {
		last, e.err = s.explainCaught(pod, prof, e)
	}
	if put != nil {
		err = errors.Join(err, s.caught(put))
	}
	if err != nil {
		s.keepRoomOf(pod, out.Node, err)
		last, e.err = true, err
	}
	if e.err != nil {
		if _, told := status.FromError(e.err); !told {
			e.err = status.Errorf(codes.Internal, "explain pod %s/%s: %v", e.req.Namespace, e.req.Name, e.err)
		}
		e.out = nil
	}
	return last
}

// keepRoomOf has nobody placed on the room of a pod that an explanation could not take from its node, or put back there.
// A read does not end a term: the row is made anew, or the node is left out until there is news of the pod.
func (s *Scheduler) keepRoomOf(pod *v1.Pod, node string, why error) {
	if now, _, _ := s.cache.Pod(pod.UID); now == pod {
		s.mend(node, why)
		return
	}
	on := *pod // one that is only promised to the node does not name it
	on.Spec.NodeName = node
	s.keepRoom(&on, node, why)
}

// explainCaught is explainFor that notes a panic.
func (s *Scheduler) explainCaught(pod *v1.Pod, prof *compile.Profile, e *explanation) (last bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.answers.Recovered()
			note(e.out, s.bugs.Met(whileReading, 0, pod.UID, v).Error())
			last = true
		}
	}()
	return s.explainFor(pod, prof, e)
}

// explainFor takes a step for a pod that is on no node.
func (s *Scheduler) explainFor(pod *v1.Pod, prof *compile.Profile, e *explanation) (last bool, err error) {
	out := e.out
	bare := *pod
	bare.Spec.NodeName = ""
	endObserving := s.cache.beginObserving()
	s.observe(&bare, batchTerms)
	s.observeNominated()
	endObserving()
	class, err := s.classOf(&bare, prof)
	if err != nil {
		note(out, err.Error())
		return true, nil
	}
	if err := s.cache.settle(); err != nil {
		return true, err
	}
	if e.waits = s.cache.awaits(class); e.waits {
		s.cache.open(class)
		s.cache.forgetPostponed()
		return false, nil
	}
	if class.Rejected != nil {
		note(out, class.Rejected.Message)
		return true, nil
	}
	list := s.nominees.Of(&bare, class)
	if x := e.x; x == nil || !x.serves(class, pod, list, out.Node) {
		if e.restarts++; e.restarts > maxRestarts {
			return true, status.Errorf(codes.Aborted, "explain pod %s/%s: nodes come and go too fast: ask again", e.req.Namespace, e.req.Name)
		}
		e.x = s.newExplainer(class, pod, list, e.req, out.Node)
	}
	if !e.x.judge(rowsAtOnce, list) {
		return false, nil
	}
	if others := s.notAsked(&bare); len(others) > 0 {
		note(out, "nodes and scores are those of the built-in plugins; "+strings.Join(others, ", ")+" have a say too and are not asked for an explanation: the decisions tell what they said")
	}
	x := e.x
	x.out = out
	x.judgeOwn()
	x.rank()
	x.report()
	x.told = true
	return true, nil
}

// notAsked names the out-of-tree plugins and extenders that have a say in a pod's node. They may keep count of what
// they are asked, so that an explanation asks none of them.
func (s *Scheduler) notAsked(p *v1.Pod) []string {
	var names []string
	for _, name := range s.outOfTree.Choosing(p) {
		names = append(names, "plugin "+name)
	}
	for _, e := range s.extenders.Interested(p) {
		names = append(names, "extender "+e.Label())
	}
	return names
}

// search is how far a pod on a node was looked for.
type search struct {
	uid types.UID // empty: not found yet
	// left is how many pods of the namespace are not looked at yet; 0: all, or none.
	left   int
	rounds int
}

// step looks at some pods of a namespace; true: there are no more to look at, or the pod is found. One that is placed anew
// meanwhile may be passed over, so that a search of several steps is made twice.
func (x *search) step(c *state, namespace, name string) (last bool) {
	if x.uid != "" {
		if pod, _, _ := c.Pod(x.uid); pod != nil {
			return true
		}
		*x = search{}
	}
	begins := x.left == 0
	if begins {
		x.left = math.MaxInt
		x.rounds++
	}
	x.uid, x.left = c.Find(namespace, name, x.left, soughtAtOnce)
	return x.uid != "" || x.left == 0 && (begins || x.rounds == 2)
}

// find looks a pod up in the queue, then on the nodes; false: there are more to look at.
func (s *Scheduler) find(x *search, namespace, name string) (found *v1.Pod, out *pb.ExplainResponse, last bool) {
	if p := s.queue.Find(namespace, name); p != nil {
		out := &pb.ExplainResponse{Queue: p.Place().String(), Attempts: uint32(p.Attempts)}
		// Where the last decision was a refusal, it tells the message itself.
		out.Waits = waits(s.queue.Waits(p))
		if d := s.history.Last(p.Obj.UID); p.Gated != "" || d == nil || d.Node != "" {
			out.Note = p.Message
		}
		noteCost(out, p)
		return p.Obj, out, true
	}
	if !x.step(s.cache, namespace, name) {
		return nil, nil, false
	}
	if pod, node, _ := s.cache.Pod(x.uid); pod != nil {
		out := &pb.ExplainResponse{Node: node}
		if _, ok := s.binding[pod.UID]; ok {
			note(out, beingBound)
		}
		if why := s.whyLeaving[pod.UID]; why != "" {
			note(out, why)
		}
		if s.cache.Node(node) == nil {
			note(out, "node "+node+" does not exist (any more)")
		}
		return pod, out, true
	}
	return nil, nil, true
}

// explainStranger tells why a pod is neither on a node that it takes room on nor in the queue.
func (s *Scheduler) explainStranger(req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	var pod *v1.Pod
	if s.cfg.PodNamed != nil {
		pod = s.cfg.PodNamed(req.Namespace, req.Name)
	}
	if pod == nil {
		return nil, status.Errorf(codes.NotFound, "pod %s/%s is not known: there is none of that name, or it has ended", req.Namespace, req.Name)
	}
	out := &pb.ExplainResponse{Node: pod.Spec.NodeName, Nodes: uint32(s.cache.Nodes()), History: s.history.Past(pod.UID)}
	if len(out.History) > 0 {
		out.Decision = out.History[0].Decision
	}
	if s.cfg.Profiles[pod.Spec.SchedulerName] == nil {
		note(out, s.notOurs(pod))
	} else if s.noteQuarantined(out, pod); out.Note == "" {
		note(out, "news of it is on its way to the scheduler: ask again")
	}
	return out, nil
}

// notOurs says whose a pod is.
func (s *Scheduler) notOurs(pod *v1.Pod) string {
	ours := strings.Join(slices.Sorted(maps.Keys(s.cfg.Profiles)), ", ")
	return fmt.Sprintf("its schedulerName is %s, and this scheduler's are %s: only that one can tell why it is where it is", pod.Spec.SchedulerName, ours)
}

// note adds a remark to an explanation.
func note(out *pb.ExplainResponse, text string) {
	if out.Note != "" {
		text = out.Note + "; " + text
	}
	out.Note = text
}

// explainer judges every row for one pod, some at a time.
type explainer struct {
	s     *Scheduler
	class *compile.Class
	pod   *v1.Pod
	out   *pb.ExplainResponse
	top   int
	at    string
	all   scorer.Result
	// rows is the scheduler's of when it began, and left the rows that are not judged yet.
	rows uint64
	left []cache.Row
	// apart are the rows that other pods or this one are nominated to. They are judged last, all at once.
	apart map[cache.Row]bool
	// answer holds the rows that other pods are nominated to, and the standing of all.
	answer *answers.Answer
	// own is the node that the pod is nominated to, where that takes it.
	own     answers.Choice
	takes   bool
	grouped []answers.Ranked
	// feasible are the best rows of so many that there are; here is the one that the pod is on, nil: it is none of them.
	feasible []answers.Ranked
	many     uint32
	here     *answers.Ranked
	reasons  map[answers.Reason]uint32
	closest  []refusalAt
	verdicts *verdicts
	told     bool // all rows are judged, and the rest of the answer is written
}

type refusalAt struct {
	stage   int
	missing float64 // as a share of what is asked for, summed over the resources
	node    *pb.RefusedNode
}

// newExplainer begins to judge a pod. What is pinned stays so until all rows are judged.
func (s *Scheduler) newExplainer(class *compile.Class, pod *v1.Pod, list nominees.List, req *pb.ExplainRequest, at string) *explainer {
	pinned := *class
	pinned.Scorer = s.answers.Pinned(class.Scorer)
	x := &explainer{
		s: s, class: &pinned, pod: pod, top: int(cmp.Or(req.Top, defaultTop)), at: at, rows: s.rows,
		apart: map[cache.Row]bool{}, reasons: map[answers.Reason]uint32{}, verdicts: newVerdicts(req), left: make([]cache.Row, 0, s.cache.Nodes()),
	}
	for i := range list {
		x.apart[list[i].Row] = true
	}
	if row, ok := s.cache.RowOf(x.nomination()); ok {
		x.apart[row] = true
	}
	for i := range s.cache.NumShards() {
		for row := range s.cache.Table(i).All() {
			x.left = append(x.left, cache.Row{Shard: uint32(i), Index: row})
		}
	}
	x.all.Reset(class.ID(), 0)
	return x
}

// serves tells whether what was judged so far is of the same pod, class and rows, and whether the rows that pods
// are nominated to now are still to be judged, should they not have been all.
func (x *explainer) serves(class *compile.Class, pod *v1.Pod, list nominees.List, at string) bool {
	if x.class.ID() != class.ID() || x.pod.UID != pod.UID || x.rows != x.s.rows || x.at != at {
		return false
	}
	x.pod = pod
	if x.answer != nil {
		return true
	}
	own, nominated := x.s.cache.RowOf(x.nomination())
	return (!nominated || x.apart[own]) && !slices.ContainsFunc(list, func(n *nominees.Nominee) bool { return !x.apart[n.Row] })
}

// judge judges so many rows more; true: all are, those that wait for other pods both with these and without. Rows in
// groups are looked at twice: what becomes of them depends on the other rows.
func (x *explainer) judge(rows int, list nominees.List) (all bool) {
	n := min(rows, len(x.left))
	for _, row := range x.left[:n] {
		if !x.apart[row] {
			x.judgeRow(row)
		}
	}
	if x.left = x.left[n:]; len(x.left) > 0 {
		return false
	}
	if x.answer == nil {
		x.judgeApart(list)
	}
	n = min(rows-n, len(x.grouped))
	for _, g := range x.grouped[:n] {
		x.judgeGrouped(g)
	}
	x.grouped = x.grouped[n:]
	return len(x.grouped) == 0
}

// judgeRow sorts a row into its group. What is refused at once is taken in.
func (x *explainer) judgeRow(row cache.Row) {
	t := x.s.cache.Table(int(row.Shard))
	if g := x.groupOf(t, row); g.Group >= 0 {
		x.grouped = append(x.grouped, g)
	} else {
		_, reasons := x.s.eval().Reasons(t, row.Index, nil, x.class.Scorer)
		x.refuse(t, row.Index, reasons)
	}
}

// groupOf counts a row into its group; below 0: it has none.
func (x *explainer) groupOf(t *scorer.Table, row cache.Row) answers.Ranked {
	var v scorer.Verdict
	x.s.eval().Row(t, row.Index, nil, x.class.Scorer, true, &v)
	return answers.Ranked{Candidate: t.Candidate(row.Index, v.Local), Group: x.all.Move(x.class.Scorer, &v, +1)}
}

// judgeApart judges the rows that pods are nominated to, with what is known of the others.
func (x *explainer) judgeApart(list nominees.List) {
	awaiting := map[cache.Row]bool{}
	for i := range list {
		awaiting[list[i].Row] = true
	}
	for row := range x.apart {
		if awaiting[row] {
			x.groupOf(x.s.cache.Table(int(row.Shard)), row)
		} else {
			x.judgeRow(row)
		}
	}
	x.answer = x.s.answers.Explain(x.class.Scorer, &x.all, list.ForEngine())
	for i := range list {
		x.judgeAwaiting(list[i].Row)
	}
	x.own, x.takes = x.s.answers.OwnNode(x.answer, x.nomination())
}

// nomination is the node that the pod is nominated to, or "".
func (x *explainer) nomination() string {
	if pending := x.s.queue.Get(x.pod.UID); pending != nil {
		return pending.Nomination()
	}
	return x.pod.Status.NominatedNodeName
}

// judgeAwaiting judges a row that waits for other pods.
func (x *explainer) judgeAwaiting(row cache.Row) {
	t := x.s.cache.Table(int(row.Shard))
	if rows := x.answer.RowsAmong([]cache.Row{row}); len(rows) > 0 {
		x.accept(x.answer.Rank(rows[0]))
	} else {
		x.refuse(t, row.Index, x.answer.WhyRefused(row))
	}
}

func (x *explainer) judgeGrouped(g answers.Ranked) {
	standing := x.answer.Standing()
	if standing.Groups[g.Group].Feasible {
		g.Score += standing.Groups[g.Group].Score
		x.accept(g)
		return
	}
	_, reasons := x.class.Scorer.GroupReasons(&x.all, standing, g.Group)
	x.refuse(x.s.cache.Table(int(g.Shard)), g.Row, reasons)
}

// judgeOwn tells of the node that the pod is nominated to.
func (x *explainer) judgeOwn() {
	if x.takes && x.at == "" {
		note(x.out, "nominated to node "+x.s.cache.Table(int(x.own.Row.Shard)).Name(x.own.Row.Index)+", which takes it: no other is tried")
	}
}

// keptBeside is how many rows more than are shown are kept until they are sorted, and the worst go.
const keptBeside = 1024

// accept takes in a row that passes every filter.
func (x *explainer) accept(g answers.Ranked) {
	x.many++
	node := x.name(g.Candidate)
	if node == x.at && x.at != "" {
		x.here = &g
	}
	if named, asked := x.verdicts.asked(node); asked {
		scored := &pb.ScoredNode{Node: node, Score: g.Score, Chosen: node == x.at}
		if named {
			scored = x.scored(&g, node)
		}
		x.verdicts.add(&pb.NodeVerdict{Node: node, Scored: scored})
	}
	if x.feasible = append(x.feasible, g); len(x.feasible) >= x.top+keptBeside {
		x.rankFeasible()
	}
}

// refuse takes in why a row is refused.
func (x *explainer) refuse(t *scorer.Table, row uint32, reasons []scorer.Reason) {
	refused := &pb.RefusedNode{Node: t.Name(row)}
	for _, r := range reasons {
		x.reasons[answers.Reason{Plugin: r.Plugin, Text: r.Text, Unresolvable: r.Unresolvable}]++
		refused.Plugin = r.Plugin
		refused.Reasons = append(refused.Reasons, r.Text)
	}
	x.verdicts.refuse(refused)
	missing := 0.0
	for _, short := range x.s.eval().Shortfalls(t, row, nil, x.class.Scorer) {
		refused.Shortfalls = append(refused.Shortfalls, short.Text)
		missing += short.Share
	}
	refused.Shortfalls = append(refused.Shortfalls, x.expressionFailures(t, row, refused.Plugin)...)
	x.closest = append(x.closest, refusalAt{
		stage:   slices.IndexFunc(x.class.Query.Filters, func(f pb.Plugin) bool { return scorer.PluginName(f) == refused.Plugin }),
		missing: missing,
		node:    refused,
	})
	if len(x.closest) >= x.top+keptBeside {
		x.trim()
	}
}

// trim keeps the refused nodes that came closest: those refused by the latest
// filter, and among them those that lack the least.
func (x *explainer) trim() {
	slices.SortFunc(x.closest, func(a, b refusalAt) int {
		return cmp.Or(cmp.Compare(b.stage, a.stage), cmp.Compare(a.missing, b.missing), cmp.Compare(a.node.Node, b.node.Node))
	})
	x.closest = x.closest[:min(len(x.closest), x.top)]
}

func (x *explainer) rank() {
	x.rankFeasible()
	x.trim()
}

// rankFeasible keeps the best rows, best first.
func (x *explainer) rankFeasible() {
	answers.SortRanked(x.feasible)
	x.feasible = x.feasible[:min(len(x.feasible), x.top)]
}

func (x *explainer) report() {
	x.out.Feasible = x.many
	if err := x.class.ScoreError; err != nil && x.many > 1 {
		note(x.out, err.Error())
	}
	listed := false
	for i := range x.feasible {
		node := x.name(x.feasible[i].Candidate)
		listed = listed || node == x.at
		x.out.Top = append(x.out.Top, x.scored(&x.feasible[i], node))
	}
	if x.here != nil && !listed {
		x.out.Top = append(x.out.Top, x.scored(x.here, x.at))
	}
	keys := slices.SortedFunc(maps.Keys(x.reasons), func(a, b answers.Reason) int {
		return cmp.Or(cmp.Compare(x.reasons[b], x.reasons[a]), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Text, b.Text))
	})
	for _, r := range keys {
		x.out.Reasons = append(x.out.Reasons, &pb.ReasonCount{Plugin: r.Plugin, Reason: r.Text, Nodes: x.reasons[r], Unresolvable: r.Unresolvable})
	}
	for _, c := range x.closest {
		x.out.Closest = append(x.out.Closest, c.node)
	}
}

func (x *explainer) name(c scorer.Candidate) string {
	return x.s.cache.Table(int(c.Shard)).Name(c.Row)
}

// scored spells a node's score out, plugin by plugin.
func (x *explainer) scored(f *answers.Ranked, node string) *pb.ScoredNode {
	out := x.s.scored(x.class, x.answer.Result(), x.answer.Standing(), f, node)
	out.Chosen = node == x.at
	return out
}

// scored spells the score of a row of an answer's groups out, plugin by plugin.
func (s *Scheduler) scored(class *compile.Class, result *scorer.Result, standing *scorer.Standing, f *answers.Ranked, node string) *pb.ScoredNode {
	out := &pb.ScoredNode{Node: node, Score: f.Score}
	own := map[pb.Plugin]*pb.PluginScore{}
	t := s.cache.Table(int(f.Shard))
	for _, p := range s.eval().Scores(t, f.Row, nil, class.Scorer) {
		own[p.Plugin] = &pb.PluginScore{Plugin: p.Name(), Raw: p.Raw, Normalised: p.Raw, Weight: p.Weight}
	}
	for _, p := range class.Scorer.GroupScores(result, standing, f.Group) {
		own[p.Plugin] = &pb.PluginScore{Plugin: scorer.PluginName(p.Plugin), Raw: p.Raw, Normalised: p.Normalised, Weight: p.Weight}
	}
	for _, w := range class.Query.Scores {
		if p := own[w.Plugin]; p != nil {
			out.Plugins = append(out.Plugins, p)
		}
	}
	return out
}
