package observe

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/census"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

const (
	// defaultTop is how many nodes an explanation shows where none are asked for.
	defaultTop = 5
	// rowsAtOnce is how many rows one step of an explanation judges, of a few microseconds each, and searchAtOnce how many steps
	// of 50 ns it takes to tell why they have no devices.
	rowsAtOnce   = 2048
	searchAtOnce = 1 << 18
	// maxRestarts is how often an explanation begins anew, because nodes come and go or the pod changes, until it is
	// given up.
	maxRestarts = 8
	// keptBeside is how many rows more than are shown are kept until they are sorted, and the worst go.
	keptBeside = 1024
)

// Question is a pod that is judged, as the loop knows it when a step begins. The pod itself is not on its node then.
type Question struct {
	Pod types.UID
	// Bare is the pod without a node.
	Bare    *v1.Pod
	Profile *compile.Profile
	Class   *compile.Class
	// Cluster is what words about the pod tell beside nodes.
	Cluster rules.Cluster
	// Node is the node that the pod is on, Nomination the one that it is nominated to; empty: none.
	Node, Nomination string
	// Nominees are the nodes to which pods that come before this pod are nominated.
	Nominees []*answers.Nominee
	// Rows counts how often a row came or went.
	Rows uint64
	// Claims are the claims of the pod that have no devices yet, in the order of the class; Allocated those that have.
	Claims, Allocated []types.NamespacedName
	// User tells who uses a device; "": nobody.
	User func(driver, pool, device string) string
	// Next is who has to do what about a pod that is rejected; "": there is nothing to tell.
	Next string
}

// judging judges every row for one pod, in steps.
type judging struct {
	req      *pb.ExplainRequest
	x        *explainer // nil: none yet
	restarts int
	// onto is given what becomes of the pod on each row, and nothing else is told; nil: all is told.
	onto *nodeCells
}

// step judges some rows more; true: all are, or it is given up. Where nodes come and go, or the pod changes, it begins anew.
func (j *judging) step(r answers.Reader, q *Question) (last bool, err error) {
	if j.x == nil || !j.x.serves(q) {
		if j.restarts++; j.restarts > maxRestarts {
			return true, status.Errorf(codes.Aborted, "explain pod %s/%s: nodes come and go too fast: ask again", j.req.Namespace,
				j.req.Name)
		}
		j.x = newExplainer(r, q, j.req)
		if j.x.onto = j.onto; j.onto != nil {
			j.onto.reset()
		}
	}
	return j.x.judge(rowsAtOnce), nil
}

// finish writes what was judged, after the last step.
func (j *judging) finish(out *pb.ExplainResponse) {
	j.x.out = out
	j.x.judgeOwn()
	if j.onto == nil {
		j.x.feasible.trim()
		j.x.closest.trim()
		j.x.report()
	}
	j.x.told = true
}

// tellVerdicts writes the nodes that were asked for, after finish; else there are none. It needs no loop.
func (j *judging) tellVerdicts() {
	if j.x != nil && j.x.told {
		j.x.verdicts.tell(j.x.out)
	}
}

// explainer judges every row for one pod, some at a time.
type explainer struct {
	answers.Reader
	// q is as of the last step. at is the node that the pod was on when it began, class its class then, pinned until all
	// rows are judged, and rows the count of rows.
	q     *Question
	class *compile.Class
	at    string
	rows  uint64
	out   *pb.ExplainResponse
	all   scorer.Result
	// left are the rows that are not judged yet.
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
	feasible bestOf[answers.Ranked]
	many     uint32
	here     *answers.Ranked
	reasons  map[answers.Reason]uint32
	closest  bestOf[refusalAt]
	// census counts the nodes by what the pod asks of them, causes those that are refused; words are those of plugins.
	census *census.Census
	causes map[causeKey]*causeCount
	words  rules.Dictionary
	// shortages are why rows have no devices.
	shortages shortages
	verdicts  *verdicts
	told      bool       // all rows are judged, and the rest of the answer is written
	onto      *nodeCells // of judging
}

type refusalAt struct {
	stage   int
	stays   bool    // nobody's leaving helps
	missing float64 // as a share of what is asked for, summed over the resources
	node    *pb.RefusedNode
	row     cache.Row
	group   int                    // -1: none
	devices *scorer.DeviceShortage // nil: it is not refused for devices
}

// newExplainer begins to judge a pod.
func newExplainer(r answers.Reader, q *Question, req *pb.ExplainRequest) *explainer {
	pinned := *q.Class
	pinned.Scorer = r.Pinned(q.Class.Scorer)
	x := &explainer{
		Reader: r, q: q, class: &pinned, at: q.Node, rows: q.Rows,
		apart: map[cache.Row]bool{}, reasons: map[answers.Reason]uint32{}, verdicts: newVerdicts(req),
		left: make([]cache.Row, 0, r.Nodes()), shortages: newShortages(),
		census: census.New(), causes: map[causeKey]*causeCount{}, words: rules.NewDictionary(),
	}
	rules.Watch(x.census, q.Bare, q.Profile)
	top := int(cmp.Or(req.Top, defaultTop))
	x.feasible = bestOf[answers.Ranked]{most: top, sort: answers.SortRanked}
	x.closest = bestOf[refusalAt]{most: top, sort: sortClosest}
	for _, n := range q.Nominees {
		x.apart[n.Row] = true
	}
	if row, ok := r.RowOf(q.Nomination); ok {
		x.apart[row] = true
	}
	x.left = slices.AppendSeq(x.left, r.Rows())
	x.all.Reset(q.Class.ID(), 0)
	return x
}

// serves tells whether what was judged so far is of the same pod, class and rows, and whether the rows that pods
// are nominated to now are still to be judged, should they not have been all.
func (x *explainer) serves(q *Question) bool {
	if x.class.ID() != q.Class.ID() || x.q.Pod != q.Pod || x.rows != q.Rows || x.at != q.Node {
		return false
	}
	x.q = q
	if x.answer != nil {
		return true
	}
	own, nominated := x.RowOf(q.Nomination)
	return (!nominated || x.apart[own]) && !slices.ContainsFunc(q.Nominees, func(n *answers.Nominee) bool { return !x.apart[n.Row] })
}

// judge judges so many rows more; true: all are, those that wait for other pods both with these and without. Rows in
// groups are looked at twice: what becomes of them depends on the other rows.
func (x *explainer) judge(rows int) (all bool) {
	until := x.shortages.Steps + searchAtOnce
	n := 0
	for ; n < rows && len(x.left) > 0 && x.shortages.Steps < until; n++ {
		if row := x.left[0]; !x.apart[row] {
			x.judgeRow(row) // it may panic, and go on with this row
		}
		x.left = x.left[1:]
	}
	if len(x.left) > 0 {
		return false
	}
	if x.answer == nil {
		var aside scorer.Result
		aside.Reset(x.class.ID(), 0)
		for row := range x.apart {
			x.Count(row, x.class.Scorer, &aside) // it may panic: then nothing is counted yet
		}
		x.judgeApart()
	}
	k := 0
	for ; k < min(rows-n, len(x.grouped)) && x.shortages.Steps < until; k++ {
		x.judgeGrouped(x.grouped[k])
	}
	x.grouped = x.grouped[k:]
	return len(x.grouped) == 0
}

// judgeRow sorts a row into its group. What is refused at once is taken in.
func (x *explainer) judgeRow(row cache.Row) {
	g := x.Count(row, x.class.Scorer, &x.all)
	x.take(row)
	if g.Group >= 0 {
		x.grouped = append(x.grouped, g)
	} else {
		x.refuse(row, noGroup, x.Reasons(row, x.class.Scorer))
	}
}

// judgeApart judges the rows that pods are nominated to, with what is known of the others.
func (x *explainer) judgeApart() {
	awaiting := map[cache.Row]bool{}
	for _, n := range x.q.Nominees {
		awaiting[n.Row] = true
	}
	for row := range x.apart {
		if awaiting[row] {
			x.Count(row, x.class.Scorer, &x.all)
			x.take(row)
		} else {
			x.judgeRow(row)
		}
	}
	x.answer = x.Answer(x.class.Scorer, &x.all, x.q.Nominees)
	for _, n := range x.q.Nominees {
		x.judgeAwaiting(n.Row)
	}
	x.own, x.takes = x.OwnNode(x.answer, x.q.Nomination)
}

// judgeAwaiting judges a row that waits for other pods.
func (x *explainer) judgeAwaiting(row cache.Row) {
	if rows := x.answer.RowsAmong([]cache.Row{row}); len(rows) > 0 {
		x.accept(x.answer.Rank(rows[0]))
	} else {
		x.refuse(row, noGroup, x.answer.WhyRefused(row))
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
	x.refuse(rowOf(&g), g.Group, reasons)
}

// judgeOwn tells of the node that the pod is nominated to.
func (x *explainer) judgeOwn() {
	if x.takes && x.at == "" {
		Note(x.out, "nominated to node "+x.Name(x.own.Row)+", which takes it: no other is tried")
	}
}

// accept takes in a row that passes every filter.
func (x *explainer) accept(g answers.Ranked) {
	x.many++
	if x.onto != nil {
		x.onto.accept(x, &g)
		return
	}
	node := x.Name(rowOf(&g))
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
	x.feasible.add(g)
}

// refuse takes in why a row, of a group or of none, is refused.
func (x *explainer) refuse(row cache.Row, group int, reasons []scorer.Reason) {
	if x.onto != nil {
		x.onto.refuse(x, row, reasons)
		return
	}
	refused := &pb.RefusedNode{Node: x.Name(row)}
	for _, r := range reasons {
		x.reasons[answers.Reason{Plugin: r.Plugin, Text: r.Text, Unresolvable: r.Unresolvable}]++
		refused.Plugin = r.Plugin
		refused.Reasons = append(refused.Reasons, r.Text)
	}
	x.countCause(reasons)
	x.verdicts.refuse(refused)
	missing := 0.0
	for _, short := range x.Shortfalls(row, x.class.Scorer) {
		missing += short.Share
	}
	lacks, share := x.lackDevices(row, refused)
	missing += share
	named, asked := x.verdicts.asked(refused.Node)
	at := refusalAt{
		stage:   slices.IndexFunc(x.class.Query.Filters, func(f pb.Plugin) bool { return scorer.PluginName(f) == refused.Plugin }),
		stays:   slices.ContainsFunc(reasons, func(r scorer.Reason) bool { return r.Unresolvable }),
		missing: missing,
		node:    refused,
		row:     row,
		group:   group,
		devices: lacks,
	}
	if asked {
		x.word(&at, named)
	}
	if named && lacks != nil {
		x.spellOut(refused, lacks)
	}
	x.closest.add(at)
}

// spellOut writes why a node has no devices, and who has them.
func (x *explainer) spellOut(refused *pb.RefusedNode, d *scorer.DeviceShortage) {
	w := wording{DeviceShortage: d, claims: x.q.Claims, user: x.q.User}
	refused.Devices = w.message()
}

// sortClosest puts the refused nodes that came closest first: those refused by the latest filter, among them those that would take the
// pod if others left, and then those that lack the least.
func sortClosest(list []refusalAt) {
	slices.SortFunc(list, func(a, b refusalAt) int {
		return cmp.Or(cmp.Compare(b.stage, a.stage), compareBools(a.stays, b.stays), cmp.Compare(a.missing, b.missing),
			cmp.Compare(a.node.Node, b.node.Node))
	})
}

// bestOf keeps the best of many values, and a few besides until they are sorted.
type bestOf[T any] struct {
	list []T
	most int
	sort func([]T) // best first
}

func (b *bestOf[T]) add(x T) {
	if b.list = append(b.list, x); len(b.list) >= b.most+keptBeside {
		b.trim()
	}
}

// trim leaves the best, sorted.
func (b *bestOf[T]) trim() {
	b.sort(b.list)
	clear(b.list[min(len(b.list), b.most):])
	b.list = b.list[:min(len(b.list), b.most)]
}

func (x *explainer) report() {
	x.out.Feasible = x.many
	if err := x.class.ScoreError; err != nil && x.many > 1 {
		Note(x.out, err.Error())
	}
	listed := false
	for i := range x.feasible.list {
		g := &x.feasible.list[i]
		node := x.Name(rowOf(g))
		listed = listed || node == x.at
		x.out.Top = append(x.out.Top, x.scored(g, node))
	}
	if x.here != nil && !listed {
		x.out.Top = append(x.out.Top, x.scored(x.here, x.at))
	}
	keys := slices.SortedFunc(maps.Keys(x.reasons), func(a, b answers.Reason) int {
		return cmp.Or(cmp.Compare(x.reasons[b], x.reasons[a]), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Text, b.Text))
	})
	for _, r := range keys {
		x.out.Reasons = append(x.out.Reasons,
			&pb.ReasonCount{Plugin: r.Plugin, Reason: r.Text, Nodes: x.reasons[r], Unresolvable: r.Unresolvable})
	}
	x.tellSpread()
	for _, f := range x.class.Query.Filters {
		x.out.Filters = append(x.out.Filters, scorer.PluginName(f))
	}
	x.tellCauses()
	x.shortages.tell(x.out)
	for _, c := range x.closest.list {
		x.word(&c, true)
		if c.devices != nil {
			x.spellOut(c.node, c.devices)
		}
		x.out.Closest = append(x.out.Closest, c.node)
	}
}

// scored spells a node's score out, plugin by plugin.
func (x *explainer) scored(f *answers.Ranked, node string) *pb.ScoredNode {
	out := scored(x.Reader, x.class, x.answer.Result(), x.answer.Standing(), f)
	out.Chosen = node == x.at
	return out
}

// scored spells the score of a row of an answer's groups out, plugin by plugin.
func scored(r answers.Reader, class *compile.Class, result *scorer.Result, standing *scorer.Standing, f *answers.Ranked) *pb.ScoredNode {
	out := &pb.ScoredNode{Node: r.Name(rowOf(f)), Score: f.Score}
	own := map[pb.Plugin]*pb.PluginScore{}
	for _, p := range r.Scores(rowOf(f), class.Scorer) {
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

func rowOf(f *answers.Ranked) cache.Row { return cache.Row{Shard: f.Shard, Index: f.Row} }
