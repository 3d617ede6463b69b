package console

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// nodesOfPod is how many nodes the matrix of a pod has of each: feasible and refused.
const nodesOfPod = 20

func podPage() page {
	return page{path: "pod", title: "Pod", hidden: true, active: "pending", show: showPod}
}

// podShown is what the page of a pod shows.
type podShown struct {
	Name     string
	Verdict  verdict
	Facts    []fact
	Life     life
	Waits    []string
	Causes   table
	Filters  filters
	Matrix   table
	Past     table // at the last decision
	HasPast  bool
	Reviews  table
	Compared *compared
	Compare  filters
	Spread   []spreadShown
	Budgets  table
	Spans    []*spanShown
	TraceID  string
	NoTrace  string
	// Traces has the command line and the download of its traces.
	Traces table
	Source table
}

func showPod(v *visit) (any, error) {
	namespace, name := cmp.Or(v.get("namespace"), "default"), v.get("name")
	if name == "" {
		return podShown{Verdict: verdict{State: "warn", Text: "Which pod?"}, Filters: whichPod(v)}, nil
	}
	a, b, part := v.get("a"), v.get("b"), v.get("node")
	req := &pb.ExplainRequest{Namespace: namespace, Name: name, Top: nodesOfPod, NodeNameContains: part}
	for _, n := range []string{a, b} {
		if n != "" {
			req.NodeNames = append(req.NodeNames, n)
		}
	}
	var e *pb.ExplainResponse
	var traces *pb.ListTracesResponse
	g, ctx := errgroup.WithContext(v)
	g.Go(func() (err error) {
		e, err = v.client.Explain(ctx, req)
		return err
	})
	g.Go(func() (err error) {
		traces, err = v.client.ListTraces(ctx, &pb.ListTracesRequest{Namespace: namespace, Name: name, Limit: 1})
		if status.Code(err) == codes.Unimplemented {
			return nil
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	pod := namespace + "/" + name
	out := podShown{
		Name: pod, Verdict: podVerdict(pod, e), Facts: v.podFacts(e), Life: v.life(e), Waits: v.waits(e.GetWaits()), Causes: causeTable(e),
		Matrix: v.matrix(e, part, namespace, name), Compared: compare(e, a, b),
		Spread: spreads(e.GetSpread()), Budgets: budgetTable(e.GetBudgets()),
		Reviews: reviewTable(e.GetHistory()),
		Filters: filters{Label: "Filter nodes", Fields: []field{
			{Name: "namespace", Label: "Namespace", Value: namespace}, {Name: "name", Label: "Pod", Value: name},
			{Name: "node", Label: "Nodes whose names contain", Value: part},
		}},
		Compare: filters{Label: "Compare two nodes", Fields: []field{
			{Name: "namespace", Label: "Namespace", Value: namespace}, {Name: "name", Label: "Pod", Value: name},
			{Name: "a", Label: "Node", Value: a}, {Name: "b", Label: "with node", Value: b},
		}},
		Source: table{
			Command:  v.command("explain", "pod", pod, "--top", fmt.Sprint(nodesOfPod)),
			Download: download("Explain", "namespace", namespace, "name", name, "top", fmt.Sprint(nodesOfPod)),
		},
	}
	if past := e.GetHistory(); len(past) > 0 && len(past[0].GetTop()) > 0 {
		out.HasPast = true
		out.Past = scoreTable(fmt.Sprintf("Best nodes when decision %d was made, at %s", past[0].GetDecision().GetSeq(),
			v.clock(past[0].GetTime().AsTime())), past[0].GetTop())
	}
	out.Traces = table{Command: v.command("trace", pod), Download: download("ListTraces", "namespace", namespace, "name", name)}
	if list := traces.GetTraces(); len(list) > 0 {
		out.TraceID, out.Spans = list[0].GetId(), spanTree(list[0].GetSpans())
	} else {
		out.NoTrace = cmp.Or(traces.GetNote(), "No trace of it is kept.")
	}
	return out, nil
}

// whichPod asks for a pod.
func whichPod(v *visit) filters {
	return filters{Label: "Choose a pod", Fields: []field{
		{Name: "namespace", Label: "Namespace", Value: cmp.Or(v.get("namespace"), "default")}, {Name: "name", Label: "Pod"},
	}}
}

// podVerdict says where a pod is.
func podVerdict(pod string, e *pb.ExplainResponse) verdict {
	switch {
	case e.GetGone() != nil:
		return verdict{State: "warn", Text: "Pod " + pod + " is gone.", Wrong: notes(e)}
	case e.GetNode() != "":
		text := "Pod " + pod + " is on node " + e.GetNode()
		if d := e.GetDecision(); d.GetNode() == e.GetNode() {
			text += fmt.Sprintf(": it scored %s, and %s nodes were feasible", count(d.GetScore()), feasible(d))
		}
		return verdict{State: "good", Text: text + ".", Wrong: notes(e)}
	}
	text := "Pod " + pod + " waits"
	if c := e.GetCauses(); len(c) > 0 {
		text += ": " + c[0].GetCause()
		if h := c[0].GetHelp(); h != "" {
			text += ". Would help: " + h
		}
	}
	return verdict{State: "warn", Text: text + ".", Wrong: notes(e)}
}

func notes(e *pb.ExplainResponse) (out []string) {
	if e.GetNote() != "" {
		out = append(out, e.GetNote())
	}
	if e.GetNode() == "" && e.GetDecision().GetMessage() != "" {
		out = append(out, e.GetDecision().GetMessage())
	}
	if who := e.GetNotAsked(); len(who) > 0 {
		out = append(out, "Not asked for this page, for they may keep count of what they are asked: "+strings.Join(who, ", ")+".")
	}
	return out
}

func (v *visit) podFacts(e *pb.ExplainResponse) []fact {
	out := []fact{
		{"Node", words(cmp.Or(e.GetNode(), "none"))},
		{"Nodes that pass every filter now", words(count(e.GetFeasible())).below("of " + count(e.GetNodes()))},
	}
	if e.GetQueue() != "" {
		out = append(out, fact{"Queue", words(e.GetQueue())}, fact{"Attempts", words(count(e.GetAttempts()))})
	}
	if past := e.GetHistory(); len(past) > 0 && past[0].GetKind() != "" && past[0].GetKind() != "Pod" {
		out = append(out, fact{"Workload", workloadCell(past[0])})
	}
	if g := e.GetPodGroup(); g != nil {
		name := g.GetNamespace() + "/" + g.GetName()
		out = append(out, fact{"Pod group", words(name).to(podGroupLink(g)).below(g.GetVerdict())})
		if state := e.GetMemberState(); state != "" {
			out = append(out, fact{"In its pod group", words(state)})
		}
	}
	return out
}

// life is a pod's attempts on a line of lifeWidth, one step apart, with the time between two.
type life struct {
	Sentence string
	Events   []lifeEvent
	Table    table
}

// lifeEvent is a point of the line; X is where, and Since how long it is after the one before, with its middle at SinceX.
type lifeEvent struct {
	At     time.Time
	X      int
	Since  string
	SinceX int
	Number int
	State  string
	what   cell
	trace  string
}

const lifeWidth, lifeMargin = 1000, 20

func (v *visit) life(e *pb.ExplainResponse) life {
	var list []lifeEvent
	add := func(t *timestamppb.Timestamp, what cell, trace string) {
		if t != nil {
			list = append(list, lifeEvent{At: t.AsTime(), State: what.State, what: what, trace: trace})
		}
	}
	for _, p := range e.GetHistory() {
		add(p.GetTime(), attemptCell(p), p.GetTraceId())
		if p.GetAttempt() == 1 && p.GetWaited() != nil {
			add(timestamppb.New(p.GetTime().AsTime().Add(-p.GetWaited().AsDuration())), words("came"), "")
		}
	}
	add(e.GetArrival().GetTime(), words("put on node "+e.GetNode()).marked("good"), "")
	add(e.GetGone(), words("gone").marked("warn"), "")
	add(e.GetWaits().GetBackoffUntil(), words("to come: its backoff ends"), "")
	add(e.GetWaits().GetTriedAnyway(), words("to come: it is tried, whatever happens until then"), "")
	slices.SortStableFunc(list, func(a, b lifeEvent) int { return a.At.Compare(b.At) })
	out := life{Events: list, Table: table{
		Caption: "Attempts and what became of them", Empty: "Nothing is remembered of it.",
		Columns: []column{{Name: "No.", Number: true}, {Name: "Time", Number: true}, {Name: "What"}, {Name: "Trace"}},
	}}
	if len(list) == 0 {
		return out
	}
	step := (lifeWidth - 2*lifeMargin) / max(len(list)-1, 1)
	for i := range list {
		x := &list[i]
		x.Number, x.X = i+1, lifeMargin+i*step
		if i > 0 {
			x.Since, x.SinceX = took(durationpb.New(x.At.Sub(list[i-1].At))), x.X-step/2
		}
		moment := v.clock(x.At) + x.At.Format(".000")
		out.Table.Rows = append(out.Table.Rows, []cell{number(fmt.Sprint(x.Number)), number(moment), x.what, words(cmp.Or(x.trace, "–"))})
	}
	out.Sentence = fmt.Sprintf("%s between %s and %s, as listed below.", plural(len(list), "event"), v.clock(list[0].At),
		v.clock(list[len(list)-1].At))
	return out
}

// attemptCell is what an attempt came to.
func attemptCell(p *pb.PastDecision) cell {
	c := outcome(p)
	c.Text = fmt.Sprintf("attempt %d: %s", p.GetAttempt(), c.Text)
	if by := p.GetDecidedBy(); by != "" {
		c.Detail = strings.TrimPrefix(c.Detail+"; decided by "+by+", which led before", "; ")
	}
	return c
}

// waits are what brings a pod its next attempt, in words.
func (v *visit) waits(w *pb.Waits) (out []string) {
	for _, p := range w.GetPlugins() {
		out = append(out, fmt.Sprintf("%s waits for one of: %s", p.GetPlugin(), strings.Join(p.GetEvents(), ", ")))
	}
	if t := w.GetBackoffUntil(); t != nil {
		out = append(out, "It is not tried before "+v.clock(t.AsTime())+", when its backoff ends.")
	}
	if t := w.GetTriedAnyway(); t != nil {
		out = append(out, "It is tried at "+v.clock(t.AsTime())+", whatever happens until then.")
	}
	return out
}

func causeTable(e *pb.ExplainResponse) table {
	t := table{
		Caption: "What it wants and does not get", Empty: "Nothing refuses it.",
		Columns: []column{{Name: "Cause"}, {Name: "Nodes", Number: true}, {Name: "Would help"}, {Name: "Preemption"}, {Name: "Plugin"}},
	}
	for _, c := range e.GetCauses() {
		nodes := "–"
		if c.GetNodes() > 0 {
			nodes = count(c.GetNodes())
		}
		t.Rows = append(t.Rows, []cell{head(c.GetCause()).below(c.GetDetail()), number(nodes), words(c.GetHelp()), words(c.GetPreemption()),
			words(c.GetPlugin())})
	}
	return t
}

// matrix is what becomes of the pod on nodes: feasible ones with the score of each plugin, refused ones with the filter that refuses them.
func (v *visit) matrix(e *pb.ExplainResponse, part, namespace, name string) table {
	var scored []*pb.ScoredNode
	var refused []*pb.RefusedNode
	t := table{Caption: "Nodes now: the best, then those that come closest", Empty: "No node is judged."}
	if part == "" {
		scored, refused = e.GetTop(), e.GetClosest()
	} else {
		t.Caption = "Nodes now whose names contain " + part
		for _, x := range e.GetVerdicts() {
			switch {
			case !strings.Contains(x.GetNode(), part):
			case x.GetScored() != nil:
				scored = append(scored, x.GetScored())
			case x.GetRefused() != nil:
				refused = append(refused, x.GetRefused())
			}
		}
		slices.SortStableFunc(scored, func(a, b *pb.ScoredNode) int { return cmp.Compare(b.GetScore(), a.GetScore()) })
	}
	var filters []string // that refuse one of these nodes, in their order
	for _, r := range refused {
		if !slices.Contains(filters, r.GetPlugin()) {
			filters = append(filters, r.GetPlugin())
		}
	}
	at := func(plugin string) int { return slices.Index(e.GetFilters(), plugin) }
	slices.SortStableFunc(filters, func(a, b string) int { return cmp.Compare(at(a), at(b)) })
	plugins := scorePlugins(scored)
	t.Columns = append(t.Columns, column{Name: "Node"},
		column{Name: "Score", Number: true, Help: "the sum of each plugin's score times its weight"})
	for _, f := range filters {
		t.Columns = append(t.Columns, column{Name: f, Help: "filter"})
	}
	t.Columns = append(t.Columns, pluginColumns(plugins)...)
	best := ""
	for _, n := range scored {
		node := head(n.GetNode())
		if best == "" {
			best = n.GetNode()
		} else {
			node = node.to(link("pod", "namespace", namespace, "name", name, "a", best, "b", n.GetNode()) + "#compare")
		}
		row := []cell{chosen(node, n), number(count(n.GetScore()))}
		for range filters {
			row = append(row, words("passes").marked("good"))
		}
		t.Rows = append(t.Rows, append(row, scoreCells(n, plugins)...))
	}
	for _, n := range refused {
		row := []cell{head(n.GetNode()), number("refused")}
		for _, f := range filters {
			switch {
			case f == n.GetPlugin():
				row = append(row, words("refuses").marked("bad").below(refusalText(n)))
			case at(f) < at(n.GetPlugin()):
				row = append(row, words("passes").marked("good"))
			default:
				row = append(row, words("not asked"))
			}
		}
		for range plugins {
			row = append(row, number("–"))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func refusalText(n *pb.RefusedNode) string {
	if len(n.GetShortfalls()) > 0 {
		return strings.Join(n.GetShortfalls(), ", ")
	}
	return strings.Join(n.GetReasons(), ", ")
}

// chosen marks the node that the pod is on.
func chosen(c cell, n *pb.ScoredNode) cell {
	if n.GetChosen() {
		return c.below("the pod is here")
	}
	return c
}

// scorePlugins are the plugins that score any of the nodes, in their order, with their weights.
func scorePlugins(list []*pb.ScoredNode) (out []*pb.PluginScore) {
	for _, n := range list {
		for _, p := range n.GetPlugins() {
			if !slices.ContainsFunc(out, func(x *pb.PluginScore) bool { return x.GetPlugin() == p.GetPlugin() }) {
				out = append(out, p)
			}
		}
	}
	return out
}

func pluginColumns(plugins []*pb.PluginScore) (out []column) {
	for _, p := range plugins {
		name := fmt.Sprintf("%s × %d", p.GetPlugin(), p.GetWeight())
		out = append(out, column{Name: name, Number: true, Help: "score of 0 to 100, and its weight"})
	}
	return out
}

func scoreCells(n *pb.ScoredNode, plugins []*pb.PluginScore) (row []cell) {
	for _, p := range plugins {
		c := number("–")
		if own := scoreOf(n, p.GetPlugin()); own != nil {
			c = number(count(own.GetNormalised()))
		}
		row = append(row, c)
	}
	return row
}

func scoreOf(n *pb.ScoredNode, plugin string) *pb.PluginScore {
	for _, p := range n.GetPlugins() {
		if p.GetPlugin() == plugin {
			return p
		}
	}
	return nil
}

// scoreTable is nodes with the score of each plugin.
func scoreTable(caption string, list []*pb.ScoredNode) table {
	plugins := scorePlugins(list)
	t := table{Caption: caption, Columns: append([]column{{Name: "Node"}, {Name: "Score", Number: true}}, pluginColumns(plugins)...)}
	for _, n := range list {
		t.Rows = append(t.Rows, append([]cell{chosen(head(n.GetNode()), n), number(count(n.GetScore()))}, scoreCells(n, plugins)...))
	}
	return t
}

// compared is two nodes, plugin by plugin.
type compared struct {
	Sentence string
	Table    table
}

// compare explains the difference of two nodes; nil: two are not named.
func compare(e *pb.ExplainResponse, a, b string) *compared {
	if a == "" || b == "" {
		return nil
	}
	x, y := verdictOf(e, a), verdictOf(e, b)
	out := &compared{Table: table{
		Caption: "Score of each plugin, times its weight", Empty: "There is nothing to compare.",
		Columns: []column{{Name: "Plugin"}, {Name: a, Number: true}, {Name: b, Number: true}, {Name: "Difference", Number: true}},
	}}
	if x.GetScored() == nil || y.GetScored() == nil {
		out.Sentence = standingText(a, x) + " " + standingText(b, y)
		return out
	}
	type difference struct {
		plugin string
		a, b   int64
	}
	var list []difference
	points := func(p *pb.PluginScore) int64 { return p.GetNormalised() * p.GetWeight() }
	for _, p := range scorePlugins([]*pb.ScoredNode{x.GetScored(), y.GetScored()}) {
		name := p.GetPlugin()
		list = append(list, difference{name, points(scoreOf(x.GetScored(), name)), points(scoreOf(y.GetScored(), name))})
	}
	slices.SortStableFunc(list, func(p, q difference) int {
		return cmp.Compare(math.Abs(float64(q.a-q.b)), math.Abs(float64(p.a-p.b)))
	})
	var parts []string
	for _, d := range list {
		out.Table.Rows = append(out.Table.Rows, []cell{head(d.plugin), number(count(d.a)), number(count(d.b)), number(signed(d.a - d.b))})
		if d.a != d.b {
			parts = append(parts, d.plugin+" "+signed(d.a-d.b))
		}
	}
	switch ahead := x.GetScored().GetScore() - y.GetScored().GetScore(); {
	case ahead == 0 && len(parts) == 0:
		out.Sentence = "No plugin tells them apart."
	case ahead == 0:
		out.Sentence = fmt.Sprintf("Both score %s: %s.", count(x.GetScored().GetScore()), strings.Join(parts, ", "))
	default:
		out.Sentence = fmt.Sprintf("%s scores %s, %s scores %s: %s. %s", a, count(x.GetScored().GetScore()), b, count(y.GetScored().GetScore()),
			signed(ahead), "Of that, "+strings.Join(parts, ", ")+".")
	}
	return out
}

func verdictOf(e *pb.ExplainResponse, node string) *pb.NodeVerdict {
	for _, x := range e.GetVerdicts() {
		if x.GetNode() == node {
			return x
		}
	}
	return nil
}

// standingText says what becomes of the pod on a node.
func standingText(node string, x *pb.NodeVerdict) string {
	switch {
	case x.GetScored() != nil:
		return fmt.Sprintf("%s passes every filter, and scores %s.", node, count(x.GetScored().GetScore()))
	case x.GetRefused() != nil:
		return fmt.Sprintf("%s is refused by %s: %s.", node, x.GetRefused().GetPlugin(), refusalText(x.GetRefused()))
	}
	return node + ": " + cmp.Or(x.GetNote(), "it is not judged") + "."
}

func signed(n int64) string {
	if n > 0 {
		return "+" + count(n)
	}
	return count(n)
}

// reviewTable is what out-of-tree plugins and extenders made of the nodes in the last decision.
func reviewTable(past []*pb.PastDecision) table {
	t := table{Caption: "Out-of-tree plugins and extenders at the last decision",
		Columns: []column{{Name: "Who"}, {Name: "Score of the chosen node", Number: true}, {Name: "Refused"}}}
	if len(past) == 0 {
		return t
	}
	for _, r := range past[0].GetReviews() {
		score := "–"
		if r.Score != nil {
			score = count(r.GetScore())
		}
		var refused []string
		for _, why := range r.GetRefusals() {
			refused = append(refused, fmt.Sprintf("%s: %s", plural(why.GetNodes(), "node"), cmp.Or(why.GetReason(), "no reason given")))
		}
		t.Rows = append(t.Rows, []cell{head(r.GetReviewer()), number(score), words(strings.Join(refused, "; "))})
	}
	return t
}

func budgetTable(list []*pb.DisruptionBudget) table {
	t := table{
		Caption: "PodDisruptionBudgets that count it", Empty: "None.",
		Columns: []column{{Name: "Budget"}, {Name: "May leave now", Number: true}, {Name: "Counted", Number: true},
			{Name: "Healthy", Number: true}},
	}
	for _, b := range list {
		may := number(count(int64(b.GetAllowed()))).marked("good")
		if b.GetAllowed() <= 0 {
			may.State = "warn"
		}
		t.Rows = append(t.Rows, []cell{head(cmp.Or(b.GetBudget(), "one of very many")), may, number(count(b.GetExpected())),
			number(count(b.GetHealthy()))})
	}
	return t
}

// spanShown is a span with those below it.
type spanShown struct {
	Name, Took, Start, Service, Error string
	Attributes                        []string
	Below                             []*spanShown
}

// maxSpanDepth bounds how deep a trace is drawn.
const maxSpanDepth = 32

// spanTree is the spans of a trace: those whose parents are not there stand on top.
func spanTree(spans []*pb.Span) (top []*spanShown) {
	if len(spans) == 0 {
		return nil
	}
	shown, depth := map[string]*spanShown{}, map[string]int{}
	begin := spans[0].GetStart().AsTime()
	for _, s := range spans {
		shown[s.GetId()] = &spanShown{
			Name: s.GetName(), Took: took(s.GetTook()), Start: "+" + s.GetStart().AsTime().Sub(begin).Round(time.Microsecond).String(),
			Service: s.GetService(), Error: s.GetError(), Attributes: s.GetAttributes(),
		}
	}
	placed := map[string]bool{}
	var place func(s *pb.Span)
	place = func(s *pb.Span) {
		placed[s.GetId()] = true
		for _, child := range spans {
			if child.GetParent() == s.GetId() && !placed[child.GetId()] && depth[s.GetId()] < maxSpanDepth {
				depth[child.GetId()] = depth[s.GetId()] + 1
				shown[s.GetId()].Below = append(shown[s.GetId()].Below, shown[child.GetId()])
				place(child)
			}
		}
	}
	for _, s := range spans {
		if parent := s.GetParent(); !placed[s.GetId()] && (parent == "" || shown[parent] == nil || parent == s.GetId()) {
			top = append(top, shown[s.GetId()])
			place(s)
		}
	}
	return top
}
