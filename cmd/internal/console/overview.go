package console

import (
	"cmp"
	"fmt"

	"golang.org/x/sync/errgroup"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func overviewPage() page {
	return page{title: "Overview", live: true, scripts: []string{"uplot.js", "charts.js"}, styles: []string{"uplot.css"}, show: showOverview}
}

// overview is what the page shows.
type overview struct {
	Verdict     verdict
	Facts       []fact
	Charts      []chart
	Utilisation table
	Pending     table
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
		Verdict: v.judge(summary), Facts: v.overviewFacts(summary, leader),
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
	return []fact{
		{"Leader", lead},
		{"Nodes", words(count(s.GetNodes())).below(plural(s.GetShards(), "shard"))},
		{"Workers asked", words(fmt.Sprintf("%d of %d", live, len(s.GetWorkers()))).to(link("workers"))},
		{"Pods pending", words(count(s.GetPodsPending())).to(link("pending"))},
		{"Pods bound", words(count(s.GetPodsBound())).below(count(s.GetPodsPresent()) + " were there before")},
		{"Decided a second", words(rate(s.GetDecidedPerSecond())).below("while there was something to decide")},
		{"Bound a second", words(rate(s.GetBoundPerSecond())).below("while there was something to bind")},
		{"Arrival to bind", words("p50 " + took(s.GetSubmitToBound().GetP50())).below("p99 " + took(s.GetSubmitToBound().GetP99()))},
		{"Pods preempted", words(count(s.GetPodsPreempted())).to(link("preemptions"))},
	}
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
