package coordinator

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/rules"
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
type pluginReview struct {
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
func (s *Scheduler) reviewOf(a *attempt) *pluginReview {
	p := s.outOfTree.of(a.pod.Obj)
	if p == nil {
		return nil
	}
	return &pluginReview{profile: p, cycle: p.NewCycle(a.pod.Obj), asked: map[cache.Row]*fwk.Status{}}
}

// decideHosted is decide between the beginning and the end of what guests are shown.
func (s *Scheduler) decideHosted(ctx context.Context, a *attempt) bool {
	s.outOfTree.nominator.refresh()
	s.outOfTree.snapshot.Begin()
	defer s.outOfTree.snapshot.End()
	defer a.plugins.end()
	return s.decideOne(ctx, a)
}

// hostedEnd is how a hosted attempt ends short of a node.
type hostedEnd struct {
	message string
	by      []string
	failed  error
}

// decideLooked is the end of a decision for an attempt that guests, or those outside, have a say in;
// false where the loop has to end.
func (s *Scheduler) decideLooked(ctx context.Context, a *attempt, q *answers.Question, p *answers.Answer, d *pb.Decision) bool {
	c, end, parked, err := s.chooseHosted(ctx, q, p, a)
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
	d.Feasible = uint32(c.Feasible)
	return s.place(ctx, a, d, c)
}

// endHosted ends an attempt short of a node.
func (s *Scheduler) endHosted(ctx context.Context, a *attempt, p *answers.Answer, d *pb.Decision, end *hostedEnd) bool {
	a.failed, d.Message = end.failed, end.message
	if end.failed != nil {
		d.Message = end.failed.Error()
		return s.unplaced(ctx, a, nil, d, nil)
	}
	if p.Diagnosed() {
		return s.unplaced(ctx, a, p, d, end.by)
	}
	return s.unplaced(ctx, a, nil, d, end.by) // a PreFilter has turned it away
}

// chooseHosted is choose for an attempt that guests, or those outside, have a say in. A nil end
// comes with a choice, unless the attempt is parked.
func (s *Scheduler) chooseHosted(ctx context.Context, q *answers.Question, p *answers.Answer, a *attempt) (c answers.Choice, end *hostedEnd, parked bool, err error) {
	for {
		s.answers.Refresh(p, q)
		if c, ok := s.ownHosted(ctx, p, a); ok {
			return c, nil, false, nil
		}
		rows, failed := s.filterRows(ctx, a, s.rowsFor(p, a, q))
		if failed != nil {
			return c, &hostedEnd{failed: failed}, false, nil
		}
		if len(rows) > 0 || a.answer != nil && a.answer.Err != nil {
			rows, end, parked := s.askOutside(ctx, a, rows)
			if end != nil || parked {
				return c, end, parked, nil
			}
			if len(rows) > 0 {
				c, end := s.bestOf(ctx, p, a, rows)
				if end != nil {
					return c, end, false, nil
				}
				liar, why := p.Vouch(&c)
				if why == nil {
					return c, nil, false, nil
				}
				s.fanout.Blame(ctx, liar, why)
				p.JudgeAll(false)
				continue
			}
		}
		if p.Diagnosed() {
			end, err := s.hostedRefusal(p, a)
			return c, end, false, err
		}
		if need := s.answers.Diagnose(p, q); need != nil {
			if err := s.fetchOne(ctx, a, need); err != nil {
				return c, nil, false, err
			}
		}
	}
}

// preFilter runs the guests' PreFilter, after the built-in plugins, which have not rejected the pod.
func (s *Scheduler) preFilter(ctx context.Context, a *attempt) *hostedEnd {
	h := a.plugins
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
		return &hostedEnd{message: answers.FitError(s.cache.Nodes(), nil) + " " + status.Message() + ".", by: by}
	default:
		return &hostedEnd{failed: status.AsError()}
	}
	if result.AllNodes() {
		return nil
	}
	h.only, h.narrowedBy = result.NodeNames, plugins
	if own := a.class.Query.GetNarrowed(); own != nil {
		h.only = h.only.Intersection(sets.New(own.GetNames()...))
		h.narrowedBy = plugins.Clone().Insert(rules.NodeAffinity)
		if len(h.only) == 0 {
			h.absent = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, framework.NothingLeft(h.narrowedBy))
			return &hostedEnd{message: answers.FitError(s.cache.Nodes(), nil) + " " + h.absent.Message() + ".", by: sets.List(h.narrowedBy)}
		}
	}
	return nil
}

// looks tells whether anybody but tables has a say in the choice of a node. A pod for which all guests
// skip takes the ordinary way.
func (s *Scheduler) looks(a *attempt) bool {
	h := a.plugins
	if h == nil {
		return s.asksOutside(a)
	}
	if h.only != nil || h.profile.scores || s.asksOutside(a) {
		return true
	}
	skip := h.cycle.State().GetSkipFilterPlugins()
	return slices.ContainsFunc(h.profile.filterNames, func(name string) bool { return !skip.Has(name) })
}

// hostedRow is a feasible row with its node.
type hostedRow struct {
	answers.Row
	node fwk.NodeInfo // nil: not shown
}

// rowsFor are the rows that pass the built-in filters, of the nodes that are left.
func (s *Scheduler) rowsFor(p *answers.Answer, a *attempt, q *answers.Question) []hostedRow {
	if a.plugins != nil && a.plugins.only != nil {
		return s.rowsOf(p, sets.List(a.plugins.only)...)
	}
	return hostedRows(p.Rows(q.Nominees))
}

// rowsOf are those of the nodes that pass the built-in filters.
func (s *Scheduler) rowsOf(p *answers.Answer, names ...string) []hostedRow {
	var rows []cache.Row
	for _, name := range names {
		if row, ok := s.cache.RowOf(name); ok {
			rows = append(rows, row)
		}
	}
	return hostedRows(p.RowsAmong(rows))
}

func hostedRows(rows []answers.Row) []hostedRow {
	out := make([]hostedRow, len(rows))
	for i := range rows {
		out[i].Row = rows[i]
	}
	return out
}

// filterRows shows guests the nodes of rows, and returns those that they let pass. A row that they
// have seen in this attempt is not shown again.
func (s *Scheduler) filterRows(ctx context.Context, a *attempt, rows []hostedRow) ([]hostedRow, error) {
	h := a.plugins
	if h == nil || !h.profile.filters {
		return rows, nil
	}
	var unseen []int
	var nodes []fwk.NodeInfo
	for i := range rows {
		if _, seen := h.asked[rows[i].Row.Row]; seen {
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
			h.asked[rows[i].Row.Row] = statuses[k]
		}
	}
	left := rows[:0]
	for i := range rows {
		if h.asked[rows[i].Row.Row].IsSuccess() {
			left = append(left, rows[i])
		}
	}
	return left, nil
}

// show gives the view of a row's node.
func (s *Scheduler) show(r *hostedRow) (fwk.NodeInfo, error) {
	if r.node == nil {
		node, err := s.outOfTree.snapshot.Get(s.nameOf(r.Row.Row))
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
func (s *Scheduler) ownHosted(ctx context.Context, p *answers.Answer, a *attempt) (c answers.Choice, ok bool) {
	name := a.pod.Nomination()
	if name == "" {
		return c, false
	}
	rows, failed := s.filterRows(ctx, a, s.rowsOf(p, name))
	if failed != nil || len(rows) == 0 {
		return c, false // an error there is no reason not to try the others
	}
	if a.answer.whyRefused(name) != nil || a.answer == nil && s.asksOutside(a) {
		return c, false
	}
	return s.answers.OwnNode(p, name)
}

// bestOf takes the best of the rows that are left.
func (s *Scheduler) bestOf(ctx context.Context, p *answers.Answer, a *attempt, rows []hostedRow) (c answers.Choice, end *hostedEnd) {
	left := make([]answers.Row, len(rows))
	for i := range rows {
		left[i] = rows[i].Row
	}
	totals := p.ScoresAmong(left)
	if len(rows) > 1 {
		if a.class.ScoreError != nil {
			return c, &hostedEnd{failed: a.class.ScoreError}
		}
		if err := s.scoreRows(ctx, a, rows, totals); err != nil {
			return c, &hostedEnd{failed: err}
		}
	}
	return p.Choose(left, totals), nil
}

// scoreRows adds the guests' scores, and those of outsiders.
func (s *Scheduler) scoreRows(ctx context.Context, a *attempt, rows []hostedRow, totals []int64) error {
	if a.answer != nil {
		for i := range rows {
			totals[i] += a.answer.Scores[s.nameOf(rows[i].Row.Row)]
		}
	}
	h := a.plugins
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
func (s *Scheduler) hostedRefusal(p *answers.Answer, a *attempt) (*hostedEnd, error) {
	h := a.plugins
	more := answers.Reasons{}
	if h != nil {
		for _, status := range h.asked {
			addReasons(more, status, 1)
		}
	}
	var by []string
	if a.answer != nil {
		by = slices.Clone(a.answer.Plugins)
		for _, r := range a.answer.told {
			if r == unsaid {
				by = append(by, r.Plugin)
			} else {
				more.Add([]scorer.Reason{r}, 1)
			}
		}
	}
	var message string
	var plugins []string
	if h != nil && h.only != nil {
		message, plugins = s.narrowedRefusal(p, h, more)
	} else {
		var err error
		if message, plugins, err = s.refusal(p, a, more); err != nil {
			return nil, err
		}
	}
	by = append(by, plugins...)
	slices.Sort(by)
	return &hostedEnd{message: message, by: slices.Compact(by)}, nil
}

// addReasons counts the reasons of a status.
func addReasons(into answers.Reasons, status *fwk.Status, n int) {
	if status.IsSuccess() {
		return
	}
	unresolvable := status.Code() == fwk.UnschedulableAndUnresolvable
	for _, text := range status.Reasons() {
		into[answers.Reason{Plugin: status.Plugin(), Text: text, Unresolvable: unresolvable}] += n
	}
}

// narrowedRefusal is the message where PreFilter plugins have left some nodes only: all others are
// refused for that.
func (s *Scheduler) narrowedRefusal(p *answers.Answer, h *pluginReview, reasons answers.Reasons) (string, []string) {
	left := 0
	for _, name := range sets.List(h.only) {
		row, ok := s.cache.RowOf(name)
		if !ok {
			continue
		}
		left++
		reasons.Add(p.WhyRefused(row), 1)
	}
	narrowed := answers.Reason{Plugin: strings.Join(sets.List(h.narrowedBy), " "), Text: framework.LeftOut(h.narrowedBy).Message()}
	reasons[narrowed] += s.cache.Nodes() - left
	message, by := reasons.Message(s.cache.Nodes())
	return message, sets.List(sets.New(by...).Union(h.narrowedBy))
}

// shown measures what guests were shown.
func (m *meters) shown(profile, point string, rows int, took time.Duration) {
	m.set.Counter("shardsched_guest_nodes_total", profile, point).Add(float64(rows))
	m.set.Counter("shardsched_guest_seconds_total", profile, point).Add(took.Seconds())
}
