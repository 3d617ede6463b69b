package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// A hosted attempt is one of a profile that has guests in the scheduling cycle. Tables judge all
// nodes as for any pod, and guests look at what is left of them:
//
//	PreFilter ──> rows that pass the built-in filters ──> Filter ──> rows left ──> PreScore, Score
//	  fewer nodes   (the workers name all of them)                     │
//	                                                                   v
//	          best of L(row) + G(key, over the rows left) + the guests' score, tie rule
//
// Where the guests look at no single node, for none is at Filter or Score or all skip, the pod
// takes the ordinary way.

// hosted is what an attempt has of guests.
type hosted struct {
	profile *guestProfile
	cycle   *framework.Cycle
	// only are the nodes that PreFilter plugins leave, by name, and narrowedBy these plugins; nil:
	// all of them.
	only       sets.Set[string]
	narrowedBy sets.Set[string]
	// asked are the rows whose nodes the guests were shown, with what Filter said; nil: it fits.
	asked map[cache.Row]*fwk.Status
	// absent is the status of all nodes where PreFilter has rejected the pod; nil: it has not.
	absent *fwk.Status
	// prepared is what the built-in plugins tell guests; nil: nothing yet.
	prepared *prepared
}

// host opens a hosted attempt; nil: the pod's profile has no guests.
func (s *Scheduler) host(a *attempt) *hosted {
	p := s.guests.of(a.pod.Obj)
	if p == nil {
		return nil
	}
	return &hosted{profile: p, cycle: p.NewCycle(a.pod.Obj), asked: map[cache.Row]*fwk.Status{}}
}

// decideHosted is decide between the beginning and the end of what guests are shown.
func (s *Scheduler) decideHosted(ctx context.Context, a *attempt) bool {
	s.guests.nominator.refresh()
	s.guests.snapshot.Begin()
	defer s.guests.snapshot.End()
	defer a.hosted.end()
	return s.decideOne(ctx, a)
}

// looksAtNodes tells whether guests of a pod's profile, or those outside, look at single nodes: the
// workers name all that are feasible then.
func (s *Scheduler) looksAtNodes(a *attempt) bool {
	p := s.guests.of(a.pod.Obj)
	return p != nil && (p.filters || p.scores) || s.asksOutside(a)
}

// candidatesFor is candidates for a class whose pods guests look at: every row.
func (s *Scheduler) candidatesFor(a *attempt, ordinary int) int {
	if !s.looksAtNodes(a) {
		return ordinary
	}
	return max(min(s.cache.Nodes(), pb.MaxCandidates), ordinary)
}

// hostedEnd is how a hosted attempt ends short of a node.
type hostedEnd struct {
	message string
	by      []string
	failed  error
}

// decideLooked is the end of a decision for an attempt that guests, or those outside, have a say in;
// false where the loop has to end.
func (s *Scheduler) decideLooked(ctx context.Context, a *attempt, p *pick, d *pb.Decision) bool {
	c, end, parked, err := s.chooseHosted(ctx, p, a)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			s.fail(err)
		}
		return false
	case parked:
		return true
	case end != nil:
		return s.endHosted(ctx, a, p, d, end)
	}
	d.Feasible = uint32(c.feasible)
	return s.place(ctx, a, d, c)
}

// endHosted ends an attempt short of a node.
func (s *Scheduler) endHosted(ctx context.Context, a *attempt, p *pick, d *pb.Decision, end *hostedEnd) bool {
	a.failed, d.Message = end.failed, end.message
	if end.failed != nil {
		d.Message = end.failed.Error()
		return s.unplaced(ctx, a, nil, d, nil)
	}
	if p.diagnosed {
		return s.unplaced(ctx, a, p, d, end.by)
	}
	return s.unplaced(ctx, a, nil, d, end.by) // a PreFilter has turned it away
}

// chooseHosted is choose for an attempt that guests, or those outside, have a say in. A nil end
// comes with a choice, unless the attempt is parked.
func (s *Scheduler) chooseHosted(ctx context.Context, p *pick, a *attempt) (c choice, end *hostedEnd, parked bool, err error) {
	h := a.hosted
	t := tables{s.cache.Cache}
	nominees := s.nominees(a.pod.Obj, a.class)
	for asks := 0; ; asks++ {
		s.refreshPick(p, nominees, t)
		if a.class.ScoreError != nil && p.told() {
			s.lookHere(p, nominees, t)
		}
		if c, ok := s.ownHosted(ctx, p, a, t); ok {
			return c, nil, false, nil
		}
		rows := s.rowsFor(p, h, nominees, t)
		rows, failed := s.filterRows(ctx, a, rows)
		if failed != nil {
			return choice{}, &hostedEnd{failed: failed}, false, nil
		}
		if len(rows) > 0 || a.answer != nil && a.answer.Err != nil {
			rows, end, parked := s.askOutside(ctx, a, rows)
			if end != nil || parked {
				return choice{}, end, parked, nil
			}
			if len(rows) > 0 {
				c, end := s.bestOf(ctx, p, a, rows, t)
				if end != nil {
					return c, end, false, nil
				}
				why := p.vouch(&c, t, s.eval)
				if why == nil {
					return c, nil, false, nil
				}
				s.fanout.Blame(ctx, p.result.Witnesses.Of(c.row.Shard), why)
				s.lookAtAll(p, false)
				continue
			}
		}
		if p.diagnosed {
			end, err := s.hostedRefusal(p, a, t)
			return choice{}, end, false, err
		}
		if err := s.diagnose(ctx, p, a, asks); err != nil {
			return choice{}, nil, false, err
		}
	}
}

// refreshPick brings a pick up to now.
func (s *Scheduler) refreshPick(p *pick, nominees []*nominee, t tables) {
	p.liftVetoes()
	judged := p.judged
	p.repair(&s.touches, t, s.eval)
	if p.judged != judged {
		s.metrics.repaired.Add(float64(p.judged - judged))
	}
	if p.stale || p.result.Normalised || !p.veto(nominees, t, s.eval) {
		s.lookHere(p, nominees, t)
	}
}

// lookHere judges every row here and now.
func (s *Scheduler) lookHere(p *pick, nominees []*nominee, t tables) {
	p.startHere(s.touches.end(), t, s.eval)
	p.veto(nominees, t, s.eval)
}

// diagnose asks the workers why rows are refused, too.
func (s *Scheduler) diagnose(ctx context.Context, p *pick, a *attempt, asks int) error {
	return s.askOnce(ctx, p, a, asks, fanout.Request{Class: p.class, Candidates: s.candidatesFor(a, spareCandidates), Diagnose: true})
}

// preFilter runs the guests' PreFilter, after the built-in plugins, which have not rejected the pod.
func (s *Scheduler) preFilter(ctx context.Context, a *attempt) *hostedEnd {
	h := a.hosted
	if h == nil {
		return nil
	}
	s.prepare(a)
	result, status, plugins := h.cycle.PreFilter(ctx)
	switch {
	case status.IsSuccess():
	case status.IsRejected():
		h.absent = status
		by := sets.List(plugins)
		if status.Plugin() != "" {
			by = []string{status.Plugin()}
		}
		return &hostedEnd{message: fitError(s.cache.Nodes(), nil) + " " + status.Message() + ".", by: by}
	default:
		return &hostedEnd{failed: status.AsError()}
	}
	if result.AllNodes() {
		return nil
	}
	h.only, h.narrowedBy = result.NodeNames, plugins
	if own := a.class.Query.GetNarrowed(); own != nil {
		h.only = h.only.Intersection(sets.New(own.GetNames()...))
		h.narrowedBy = plugins.Clone().Insert(nodeAffinity)
		if len(h.only) == 0 {
			h.absent = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, framework.NothingLeft(h.narrowedBy))
			return &hostedEnd{message: fitError(s.cache.Nodes(), nil) + " " + h.absent.Message() + ".", by: sets.List(h.narrowedBy)}
		}
	}
	return nil
}

// nodeAffinity is the built-in plugin that may leave fewer nodes before any is looked at.
const nodeAffinity = "NodeAffinity"

// looks tells whether anybody but tables has a say in the choice of a node. A pod for which all guests
// skip takes the ordinary way.
func (s *Scheduler) looks(a *attempt) bool {
	h := a.hosted
	if h == nil {
		return s.asksOutside(a)
	}
	if h.only != nil || h.profile.scores || s.asksOutside(a) {
		return true
	}
	skip := h.cycle.State().GetSkipFilterPlugins()
	return slices.ContainsFunc(h.profile.filterNames, func(name string) bool { return !skip.Has(name) })
}

// hostedRow is a feasible row with what it scores by itself.
type hostedRow struct {
	row   cache.Row
	group int
	local int64
	node  fwk.NodeInfo // nil: not shown
}

// rowsFor are the rows that pass the built-in filters, of the nodes that are left.
func (s *Scheduler) rowsFor(p *pick, h *hosted, nominees []*nominee, t tables) []hostedRow {
	p.settle()
	if h != nil && h.only != nil {
		return s.rowsOf(p, sets.List(h.only), t)
	}
	if slices.ContainsFunc(p.lists, func(l list) bool { return l.unnamed > 0 }) {
		s.lookHere(p, nominees, t)
		p.settle()
	}
	var rows []hostedRow
	for i := range p.standing.Groups {
		if !p.standing.Groups[i].Feasible {
			continue
		}
		for _, c := range p.result.Groups[i].Candidates {
			row := cache.Row{Shard: c.Shard, Index: c.Row}
			if _, known := p.index.find(row); !known {
				rows = append(rows, hostedRow{row: row, group: i, local: c.Score})
			}
		}
	}
	for i := range p.repaired {
		if r := &p.repaired[i]; p.passes(r) {
			rows = append(rows, hostedRow{row: r.row, group: r.group, local: r.local})
		}
	}
	return rows
}

// passes tells whether a row that was looked at is feasible.
func (p *pick) passes(r *repairedRow) bool {
	return !r.vetoed && r.group >= 0 && p.standing.Groups[r.group].Feasible
}

// rowsOf are those of the nodes that pass the built-in filters.
func (s *Scheduler) rowsOf(p *pick, names []string, t tables) []hostedRow {
	var rows []hostedRow
	for _, name := range names {
		row, ok := s.cache.RowOf(name)
		if !ok {
			continue
		}
		r := p.row(row, t, s.eval)
		p.settle()
		if p.passes(r) {
			rows = append(rows, hostedRow{row: row, group: r.group, local: r.local})
		}
	}
	return rows
}

// filterRows shows guests the nodes of rows, and returns those that they let pass. A row that they
// have seen in this attempt is not shown again.
func (s *Scheduler) filterRows(ctx context.Context, a *attempt, rows []hostedRow) ([]hostedRow, error) {
	h := a.hosted
	if h == nil || !h.profile.filters {
		return rows, nil
	}
	var unseen []int
	var nodes []fwk.NodeInfo
	for i := range rows {
		if _, seen := h.asked[rows[i].row]; seen {
			continue
		}
		node, err := s.show(&rows[i])
		if err != nil {
			return nil, err
		}
		unseen, nodes = append(unseen, i), append(nodes, node)
	}
	if len(nodes) > 0 {
		begin := s.cfg.Now()
		statuses, failed := h.cycle.FilterNodes(ctx, nodes)
		s.metrics.shown(a.pod.Obj.Spec.SchedulerName, framework.Filter.String(), len(nodes), s.cfg.Now().Sub(begin))
		if failed != nil {
			return nil, failed.AsError()
		}
		for k, i := range unseen {
			h.asked[rows[i].row] = statuses[k]
		}
	}
	left := rows[:0]
	for i := range rows {
		if h.asked[rows[i].row].IsSuccess() {
			left = append(left, rows[i])
		}
	}
	return left, nil
}

// show gives the view of a row's node.
func (s *Scheduler) show(r *hostedRow) (fwk.NodeInfo, error) {
	if r.node == nil {
		node, err := s.guests.snapshot.Get(s.nameOf(r.row))
		if err != nil {
			return nil, err
		}
		r.node = node
	}
	return r.node, nil
}

// nameOf is the name of a row's node.
func (s *Scheduler) nameOf(r cache.Row) string { return s.cache.Table(int(r.Shard)).Name(r.Index) }

// ownHosted tries the node that a pod is nominated to before all others, and then no other.
func (s *Scheduler) ownHosted(ctx context.Context, p *pick, a *attempt, t tables) (choice, bool) {
	name := a.pod.Nomination()
	if name == "" {
		return choice{}, false
	}
	rows, failed := s.filterRows(ctx, a, s.rowsOf(p, []string{name}, t))
	if failed != nil || len(rows) == 0 {
		return choice{}, false // an error there is no reason not to try the others
	}
	if _, out := a.answer.refuses(name); out || a.answer == nil && s.asksOutside(a) {
		return choice{}, false
	}
	at, _ := p.index.find(rows[0].row)
	score, ok := p.alone(at)
	return choice{row: rows[0].row, score: score, feasible: 1}, ok
}

// bestOf takes the best of the rows that are left.
func (s *Scheduler) bestOf(ctx context.Context, p *pick, a *attempt, rows []hostedRow, t tables) (choice, *hostedEnd) {
	totals := s.reduced(p, rows)
	if len(rows) > 1 {
		if a.class.ScoreError != nil {
			return choice{}, &hostedEnd{failed: a.class.ScoreError}
		}
		if err := s.scoreRows(ctx, a, rows, totals); err != nil {
			return choice{}, &hostedEnd{failed: err}
		}
	}
	var top scorer.Candidate
	best := 0
	for i := range rows {
		c := t.Candidate(rows[i].row, totals[i])
		if i == 0 || scorer.Before(c, top) {
			top, best = c, i
		}
	}
	r := &rows[best]
	_, judged := p.index.find(r.row)
	return choice{row: r.row, score: top.Score, feasible: len(rows), told: !judged, group: r.group, local: r.local}, nil
}

// reduced are the rows' scores by the built-in plugins where no other row is feasible.
func (s *Scheduler) reduced(p *pick, rows []hostedRow) []int64 {
	kept := make([]int, len(p.result.Groups))
	for i := range p.result.Groups {
		kept[i], p.result.Groups[i].Rows = p.result.Groups[i].Rows, 0
	}
	for i := range rows {
		p.result.Groups[rows[i].group].Rows++
	}
	p.class.Settle(p.result, &p.left)
	totals := make([]int64, len(rows))
	for i := range rows {
		totals[i] = rows[i].local + p.left.Groups[rows[i].group].Score
	}
	for i := range kept {
		p.result.Groups[i].Rows = kept[i]
	}
	return totals
}

// scoreRows adds the guests' scores, and those of outsiders.
func (s *Scheduler) scoreRows(ctx context.Context, a *attempt, rows []hostedRow, totals []int64) error {
	if a.answer != nil {
		for i := range rows {
			totals[i] += a.answer.Scores[s.nameOf(rows[i].row)]
		}
	}
	h := a.hosted
	if h == nil || !h.profile.scores {
		return nil
	}
	nodes := make([]fwk.NodeInfo, len(rows))
	for i := range rows {
		node, err := s.show(&rows[i])
		if err != nil {
			return err
		}
		nodes[i] = node
	}
	begin := s.cfg.Now()
	defer func() {
		s.metrics.shown(a.pod.Obj.Spec.SchedulerName, framework.Score.String(), len(nodes), s.cfg.Now().Sub(begin))
	}()
	if status := h.cycle.PreScore(ctx, nodes); !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := h.cycle.Score(ctx, nodes)
	if !status.IsSuccess() {
		return status.AsError()
	}
	for i := range scores {
		totals[i] += scores[i].TotalScore
	}
	return nil
}

// hostedRefusal words why no node takes the pod. Rows that guests have turned away have passed all
// else.
func (s *Scheduler) hostedRefusal(p *pick, a *attempt, t tables) (*hostedEnd, error) {
	h := a.hosted
	extra := map[reason]int{}
	if h != nil {
		for _, status := range h.asked {
			addReasons(extra, status, 1)
		}
	}
	if a.answer != nil {
		for _, r := range a.answer.told {
			extra[reason{r.Plugin, r.Text, r.Unresolvable}]++
		}
	}
	var message string
	var by []string
	if h != nil && h.only != nil {
		message, by = s.narrowedRefusal(p, h, extra, t)
	} else {
		of, instead, err := s.ownReasons(p, a)
		if err != nil {
			return nil, err
		}
		p.countReasons(of, -1)
		p.countReasons(instead, +1)
		for r, n := range extra {
			p.reasons[r] += n
		}
		message, by = p.message(s.cache.Nodes())
		for r, n := range extra {
			p.reasons[r] -= n
		}
		p.countReasons(instead, -1)
		p.countReasons(of, +1)
	}
	if a.answer != nil {
		by = append(by, a.answer.Plugins...)
	}
	slices.Sort(by)
	return &hostedEnd{message: message, by: slices.Compact(by)}, nil
}

// addReasons counts the reasons of a status.
func addReasons(into map[reason]int, status *fwk.Status, n int) {
	if status.IsSuccess() {
		return
	}
	unresolvable := status.Code() == fwk.UnschedulableAndUnresolvable
	for _, text := range status.Reasons() {
		into[reason{status.Plugin(), text, unresolvable}] += n
	}
}

// narrowedRefusal is the message where PreFilter plugins have left some nodes only: all others are
// refused for that.
func (s *Scheduler) narrowedRefusal(p *pick, h *hosted, extra map[reason]int, t tables) (string, []string) {
	counts := extra
	left := 0
	for _, name := range sets.List(h.only) {
		row, ok := s.cache.RowOf(name)
		if !ok {
			continue
		}
		left++
		for _, r := range p.whyRefused(row, t, s.eval) {
			counts[reason{r.Plugin, r.Text, r.Unresolvable}]++
		}
	}
	parts := []string{}
	by := h.narrowedBy.Clone()
	texts := map[string]int{}
	for r, n := range counts {
		texts[r.text] += n
		by.Insert(strings.Fields(r.plugin)...)
	}
	if others := s.cache.Nodes() - left; others > 0 {
		texts[framework.LeftOut(h.narrowedBy).Message()] += others
	}
	for text, n := range texts {
		parts = append(parts, fmt.Sprintf("%d %s", n, text))
	}
	return fitError(s.cache.Nodes(), parts), sets.List(by)
}

// whyRefused is why the built-in plugins refuse a row, in a diagnosis; nothing where they do not.
func (p *pick) whyRefused(row cache.Row, t tables, e *scorer.Evaluator) []scorer.Reason {
	r := p.row(row, t, e)
	switch {
	case r.vetoed:
		return r.vetoReasons
	case r.group < 0:
		return r.reasons
	}
	p.settle()
	if p.standing.Groups[r.group].Feasible {
		return nil
	}
	_, why := p.class.GroupReasons(p.result, &p.standing, r.group)
	return why
}

// shown measures what guests were shown.
func (m *meters) shown(profile, point string, rows int, took time.Duration) {
	m.set.Counter("shardsched_guest_nodes_total", profile, point).Add(float64(rows))
	m.set.Counter("shardsched_guest_seconds_total", profile, point).Add(took.Seconds())
}
