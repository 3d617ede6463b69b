package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// explainWaits tells what brings a pending pod its next attempt.
func explainWaits(b *strings.Builder, w *pb.Waits) {
	if w == nil {
		return
	}
	fmt.Fprintf(b, "\nIt is tried again when\n")
	for _, p := range w.GetPlugins() {
		fmt.Fprintf(b, "  %s (for %s)\n", eventWords(p.GetEvents()), p.GetPlugin())
	}
	if t := w.GetTriedAnyway(); t != nil {
		fmt.Fprintf(b, "  it is %s, whatever happens until then\n", clockTime(t))
	}
	switch t := w.GetBackoffUntil(); {
	case t == nil:
	case len(w.GetPlugins()) > 0:
		fmt.Fprintf(b, "but not before %s, when its backoff ends\n", clockTime(t))
	default:
		fmt.Fprintf(b, "  its backoff ends, at %s\n", clockTime(t))
	}
	b.WriteString("\n")
}

// explainHistory tells the decisions that are remembered, and the scores of the last.
func explainHistory(b *strings.Builder, past []*pb.PastDecision) {
	if len(past) == 0 {
		return
	}
	fmt.Fprintf(b, "Decided, the last first:\n")
	headers := []string{"  DECISION", "TIME", "ATTEMPT", "OUTCOME", "FEASIBLE", "TRACE"}
	if slices.ContainsFunc(past, func(p *pb.PastDecision) bool { return p.GetDecidedBy() != "" }) {
		headers = append(headers, "BY EARLIER LEADER")
	}
	var rows [][]string
	for _, p := range past {
		d := p.GetDecision()
		row := []string{
			fmt.Sprintf("  %d", d.GetSeq()), clockTime(p.GetTime()), fmt.Sprint(p.GetAttempt()), outcomeOf(d),
			fmt.Sprintf("%d of %d", d.GetFeasible(), d.GetNodes()), p.GetTraceId(), p.GetDecidedBy(),
		}
		rows = append(rows, row[:len(headers)])
	}
	newTable(b, headers...).print(rows...)
	explainTop(b, fmt.Sprintf("Best nodes when decision %d was made", past[0].GetDecision().GetSeq()), past[0].GetTop())
	explainReviews(b, past[0])
	b.WriteString("\n")
}

// explainReviews tells what out-of-tree plugins and extenders made of the nodes in a decision.
func explainReviews(b *strings.Builder, past *pb.PastDecision) {
	if len(past.GetReviews()) == 0 {
		return
	}
	d := past.GetDecision()
	fmt.Fprintf(b, "\nOut-of-tree plugins and extenders when decision %d was made:\n", d.GetSeq())
	var rows [][]string
	builtIn, scored := d.GetScore(), false
	for _, r := range past.GetReviews() {
		row := []string{"  " + r.GetReviewer(), "", "", "", ""}
		if r.Score != nil {
			row[1] = fmt.Sprint(r.GetScore())
			builtIn, scored = builtIn-r.GetScore(), true
		}
		for _, why := range r.GetRefusals() {
			row[2], row[3], row[4] = fmt.Sprint(why.GetNodes()), cmp.Or(why.GetReason(), "(no reason given)"), suchAs(why)
			rows, row = append(rows, row), []string{"", "", "", "", ""}
		}
		if n := r.GetLeftOut(); n > 0 {
			row[2], row[3] = fmt.Sprint(n), "(further reasons)"
			rows = append(rows, row)
		} else if len(r.GetRefusals()) == 0 {
			rows = append(rows, row)
		}
	}
	if scored {
		rows = append([][]string{{"  the built-in plugins", fmt.Sprint(builtIn), "", "", ""}}, rows...)
	}
	newTable(b, "  WHO", "SCORE OF "+cmp.Or(d.GetNode(), "NO NODE"), "REFUSED NODES", "WHY", "WHICH").print(rows...)
}

// suchAs names nodes that were refused for a reason.
func suchAs(r *pb.Refusal) string {
	names := strings.Join(r.GetExamples(), ", ")
	if more := int(r.GetNodes()) - len(r.GetExamples()); more > 0 && names != "" {
		return fmt.Sprintf("%s and %d more", names, more)
	}
	return names
}

// outcomeOf tells what a decision came to, with its victims: three of them at the most.
func outcomeOf(d *pb.Decision) string {
	if d.GetNode() != "" {
		return fmt.Sprintf("on %s, score %d", d.GetNode(), d.GetScore())
	}
	if d.GetNominated() == "" {
		return "nowhere"
	}
	out := "nominated to " + d.GetNominated()
	victims := d.GetVictims()
	if len(victims) == 0 {
		return out
	}
	const most = 3
	more := ""
	if n := len(victims) - most; n > 0 {
		victims, more = victims[:most], fmt.Sprintf(" and %d more", n)
	}
	return out + ", preempts " + strings.Join(victims, ", ") + more
}

// explainVerdicts tells what becomes of the pod on the nodes that were asked for.
func explainVerdicts(b *strings.Builder, e *pb.ExplainResponse) {
	if len(e.GetVerdicts()) == 0 {
		return
	}
	fmt.Fprintf(b, "\nNode by node, now:\n")
	var rows [][]string
	for _, v := range e.GetVerdicts() {
		row := []string{"  " + v.GetNode(), "", "", ""}
		switch {
		case v.GetScored() != nil:
			row[1], row[3] = fmt.Sprint(v.GetScored().GetScore()), pluginScores(v.GetScored())
		case v.GetRefused() != nil:
			r := v.GetRefused()
			row[1], row[2] = "-", r.GetPlugin()
			row[3] = strings.Join(append(r.GetReasons(), r.GetShortfalls()...), ", ")
		default:
			row[1], row[3] = "-", v.GetNote()
		}
		rows = append(rows, row)
	}
	newTable(b, "  NODE", "SCORE", "REFUSED BY", "WHY").print(rows...)
	if n := e.GetVerdictsLeftOut(); n > 0 {
		fmt.Fprintf(b, "  … and %d more\n", n)
	}
}

// pluginScores sums a score up as its plugins' scores times their weights.
func pluginScores(n *pb.ScoredNode) string {
	parts := make([]string, 0, len(n.GetPlugins()))
	for _, p := range n.GetPlugins() {
		parts = append(parts, fmt.Sprintf("%s %dx%d", p.GetPlugin(), p.GetNormalised(), p.GetWeight()))
	}
	return strings.Join(parts, " + ")
}

func clockTime(t *timestamppb.Timestamp) string {
	return t.AsTime().UTC().Format(time.RFC3339)
}

// arrivalText tells how a pod came to its node for which the leader remembers no decision.
func arrivalText(a *pb.Arrival) string {
	since := ""
	if a.GetTime() != nil {
		since = " since " + clockTime(a.GetTime())
	}
	before := a.GetTime() != nil && a.GetLeadingSince() != nil && a.GetTime().AsTime().Before(a.GetLeadingSince().AsTime())
	switch {
	case a.GetDecidedBy() != "" && before:
		return fmt.Sprintf("%s: decided by %s, which led before (that leader's memory is gone; the score is not known)", since, a.GetDecidedBy())
	case a.GetDecidedBy() != "":
		return fmt.Sprintf("%s: decided by %s (which does not remember it any more; the score is not known)", since, a.GetDecidedBy())
	case before:
		who := "an earlier leader's"
		if a.GetLeaderBefore() != "" {
			who += " (the last was " + a.GetLeaderBefore() + ")"
		}
		return fmt.Sprintf("%s, before the present leader led (since %s): %s decision, another scheduler's, or its kubelet's own", since,
			clockTime(a.GetLeadingSince()), who)
	}
	return since + ": not a decision of the present leader (an earlier one's, another scheduler's, or its kubelet's own)"
}
