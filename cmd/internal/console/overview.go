package console

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func overviewPage() page {
	return page{title: "Overview", live: true, scripts: []string{"uplot.js", "charts.js"}, styles: []string{"uplot.css"}, show: showOverview}
}

// overview is what the page shows.
type overview struct {
	Verdict                      verdict
	Facts                        []fact
	Charts                       []chart
	Stages, Utilisation, Pending table
}

// verdict is how the scheduler is, in a sentence, and what is wrong, the worst first.
type verdict struct {
	State, Text string
	Wrong       []string
}

func showOverview(v *visit) (any, error) {
	var summary *pb.Summary
	var leader *pb.LeaderRecord
	g, ctx := errgroup.WithContext(v)
	g.Go(func() error {
		r, err := v.client.GetSummary(ctx, &pb.GetSummaryRequest{})
		summary = r.GetSummary()
		return err
	})
	g.Go(func() error {
		r, err := v.client.GetLeader(ctx, &pb.GetLeaderRequest{})
		leader = r.GetLeader()
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return overview{
		Verdict: v.judge(summary), Facts: v.overviewFacts(summary, leader), Charts: v.progress(summary), Stages: v.stages(summary),
		Utilisation: v.utilisation(summary), Pending: v.pendingReasons(summary),
	}, nil
}

// judge says how the scheduler is.
func (v *visit) judge(s *pb.Summary) verdict {
	var bad, warn []string
	if s.GetNodes() == 0 {
		bad = append(bad, "No node is known: nothing can be scheduled.")
	}
	quarantined := 0
	for _, w := range s.GetWorkers() {
		if w.GetQuarantine() != "" {
			quarantined++
		}
	}
	if quarantined > 0 {
		warn = append(warn, fmt.Sprintf("%d of %s not asked: the coordinator's own tables answer for them.", quarantined,
			plural(len(s.GetWorkers()), "worker")+map[bool]string{true: " is", false: " are"}[quarantined == 1]))
	}
	if n := s.GetPodsPending(); n > 0 {
		warn = append(warn, v.pendingSentence(s))
	}
	if n := s.GetBindFailures(); n > 0 {
		warn = append(warn, plural(n, "bind")+" failed since this leader began, and were taken back.")
	}
	switch {
	case len(bad) > 0:
		return verdict{State: "bad", Text: "The scheduler can not do its work.", Wrong: append(bad, warn...)}
	case quarantined > 0:
		return verdict{State: "warn", Text: "The scheduler works, but not with all its workers.", Wrong: warn}
	case s.GetPodsPending() > 0:
		return verdict{State: "warn", Text: "The scheduler is healthy; some pods are pending.", Wrong: warn}
	}
	return verdict{State: "good", Text: "The scheduler is healthy, and no pod is pending.", Wrong: warn}
}

// pendingSentence says how many pods wait, and for what most of them do.
func (v *visit) pendingSentence(s *pb.Summary) string {
	text := plural(s.GetPodsPending(), "pod") + map[bool]string{true: " is", false: " are"}[s.GetPodsPending() == 1] + " pending"
	if r := s.GetPendingReasons(); len(r) > 0 {
		text += ", " + count(r[0].GetPods()) + " of them for: " + r[0].GetReason()
	}
	return text + "."
}

func (v *visit) overviewFacts(s *pb.Summary, leader *pb.LeaderRecord) []fact {
	live := 0
	for _, w := range s.GetWorkers() {
		if w.GetQuarantine() == "" {
			live++
		}
	}
	lead := words(cmp.Or(leader.GetId(), "nobody")).below(leader.GetAddress())
	since := "–"
	if t := s.GetLeadingSince(); t != nil {
		since = v.age(t.AsTime())
	}
	leads := words(since).below("term " + strconv.FormatUint(s.GetTerm(), 10))
	queues := make([]string, 0, len(s.GetQueues()))
	for _, q := range s.GetQueues() {
		if q.GetPods() > 0 {
			queues = append(queues, count(q.GetPods())+" "+q.GetQueue())
		}
	}
	return []fact{
		{"Leader", lead},
		{"Leads for", leads},
		{"Nodes", words(count(s.GetNodes())).below(plural(s.GetShards(), "shard"))},
		{"Workers asked", words(fmt.Sprintf("%d of %d", live, len(s.GetWorkers()))).to(link("workers"))},
		{"Pods pending", words(count(s.GetPodsPending())).to(link("pending")).below(strings.Join(queues, ", "))},
		{"Pods bound", words(count(s.GetPodsBound())).below(count(s.GetPodsPresent()) + " were there before")},
		{"Decided a second", words(rate(s.GetDecidedPerSecond())).below("while there was something to decide")},
		{"Bound a second", words(rate(s.GetBoundPerSecond())).below("while there was something to bind")},
		{"Arrival to bind", words("p50 " + took(s.GetSubmitToBound().GetP50())).below("p99 " + took(s.GetSubmitToBound().GetP99()))},
		{"Pods preempted", words(count(s.GetPodsPreempted())).to(link("preemptions"))},
		{"Hedges", words(count(s.GetHedges())).below("of " + plural(s.GetRounds(), "round"))},
	}
}

// progress draws what was decided and bound in the last minutes, and how many pods waited.
func (v *visit) progress(s *pb.Summary) []chart {
	notes := s.GetProgress()
	if len(notes) < 2 {
		return nil
	}
	// How far it is now is not noted yet.
	notes = append(slices.Clone(notes), &pb.Progress{Time: timestamppb.New(v.now), Decisions: s.GetDecisions(), PodsBound: s.GetPodsBound(),
		PodsPending: s.GetPodsPending()})
	rates := chart{Title: "Decided and bound a second"}
	pods := chart{Title: "Pods pending"}
	decided, bound := series{Name: "decided", Unit: "/s"}, series{Name: "bound", Unit: "/s"}
	waiting := series{Name: "pending", Unit: "pods"}
	for i := 1; i < len(notes); i++ {
		before, now := notes[i-1], notes[i]
		seconds := now.GetTime().AsTime().Sub(before.GetTime().AsTime()).Seconds()
		if seconds < 0.5 {
			continue // too short for a rate
		}
		at := float64(now.GetTime().AsTime().UnixMilli()) / 1000
		rates.X, pods.X = append(rates.X, at), append(pods.X, at)
		decided.Values = append(decided.Values, float64(now.GetDecisions()-before.GetDecisions())/seconds)
		bound.Values = append(bound.Values, float64(now.GetPodsBound()-before.GetPodsBound())/seconds)
		waiting.Values = append(waiting.Values, float64(now.GetPodsPending()))
	}
	if len(rates.X) == 0 {
		return nil
	}
	last := len(rates.X) - 1
	rates.Series, pods.Series = []series{decided, bound}, []series{waiting}
	rates.Sentence = fmt.Sprintf("%s a second decided at the most, %s now; %s bound at the most, %s now.", rate(slices.Max(decided.Values)),
		rate(decided.Values[last]), rate(slices.Max(bound.Values)), rate(bound.Values[last]))
	pods.Sentence = fmt.Sprintf("%s pending at the most, %s now.", count(uint64(slices.Max(waiting.Values))),
		count(uint64(waiting.Values[last])))
	return []chart{rates, pods}
}

func (v *visit) stages(s *pb.Summary) table {
	t := table{
		Caption: "What the stages of an attempt take", Empty: "Nothing was decided yet.",
		Columns: []column{{Name: "Stage"}, {Name: "Times", Number: true}, {Name: "p50", Number: true, Help: "read from the metric's buckets"},
			{Name: "p99", Number: true, Help: "read from the metric's buckets"}, {Name: "Metric"}},
		Command: v.command("summary", "-o", "json"), Download: download("GetSummary"),
	}
	for _, x := range s.GetStages() {
		l := x.GetLatency()
		t.Rows = append(t.Rows, []cell{head(x.GetStage()), number(count(l.GetCount())), number(took(l.GetP50())), number(took(l.GetP99())),
			words(x.GetMetric())})
	}
	return t
}

func (v *visit) utilisation(s *pb.Summary) table {
	t := table{
		Caption: "What is requested of the nodes", Empty: "No node has any resource.",
		Columns: []column{{Name: "Resource"}, {Name: "Requested", Number: true}, {Name: "Allocatable", Number: true},
			{Name: "Share", Number: true}, {Name: "Nodes above 90 %", Number: true}, {Name: "Nodes below 10 %", Number: true}},
		Command: v.command("summary"), Download: download("GetSummary"),
	}
	for _, u := range s.GetUtilisation() {
		bins := u.GetNodesByDecile()
		full, empty := uint32(0), uint32(0)
		if len(bins) == 10 {
			full, empty = bins[9], bins[0]
		}
		t.Rows = append(t.Rows, []cell{head(u.GetResource()), number(quantity(u.GetResource(), u.GetRequested())),
			number(quantity(u.GetResource(), u.GetAllocatable())), number(percent(float64(u.GetRequested()), float64(u.GetAllocatable()))),
			number(count(full)), number(count(empty))})
	}
	return t
}

// reasonsShown is how many reasons the overview has.
const reasonsShown = 10

func (v *visit) pendingReasons(s *pb.Summary) table {
	t := table{
		Caption: "Why pods are pending", Empty: "No pod is pending.",
		Columns: []column{{Name: "Reason"}, {Name: "Pods", Number: true}, {Name: "Such as"}},
		Command: v.command("pending"), Download: download("ListPending"),
	}
	reasons := s.GetPendingReasons()
	if len(reasons) > reasonsShown {
		t.LeftOut = plural(len(reasons)-reasonsShown, "more reason") + " not shown."
		reasons = reasons[:reasonsShown]
	}
	for _, r := range reasons {
		t.Rows = append(t.Rows, []cell{head(r.GetReason()), number(count(r.GetPods())), words(r.GetExample())})
	}
	return t
}
