package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func at(seconds int) *timestamppb.Timestamp {
	return timestamppb.New(noon.Add(time.Duration(seconds-100) * time.Second))
}

func hostilePending() *pb.ListPendingResponse {
	cause := []*pb.Cause{{Plugin: hostile, Cause: hostile, Detail: hostile, Help: hostile}}
	return &pb.ListPendingResponse{
		Pods: 7, Queues: &pb.QueueCounts{Gated: 7}, Ages: []uint64{7}, Gates: []*pb.GateCount{{Plugin: hostile, Gate: hostile, Pods: 7}},
		Groups: []*pb.PendingGroup{{
			Causes: cause, Kind: hostile, Namespace: hostile, Name: hostile, Pods: 7, Oldest: at(0), Example: hostile,
			OldestPods: []*pb.PendingPod{{Pod: hostile + "/" + hostile, Created: at(0), Queue: hostile, GatedBy: hostile}},
		}},
	}
}

func hostilePodGroup() *pb.PodGroupStatus {
	return &pb.PodGroupStatus{
		Namespace: hostile, Name: hostile, Policy: hostile, State: hostile, Verdict: hostile, Domain: hostile,
		Reasons: []*pb.ReasonCount{{Reason: hostile, Nodes: 1}},
	}
}

func hostileDecisions() *pb.ListDecisionsResponse {
	d := &pb.Decision{Pod: hostile, Message: hostile, Nominated: hostile, Victims: []string{hostile}, Profile: hostile}
	return &pb.ListDecisionsResponse{ContinueToken: hostile, Decisions: []*pb.PastDecision{
		{Decision: d, Time: at(0), Kind: hostile, Workload: hostile, TraceId: hostile, DecidedBy: hostile, Preemption: &pb.Preemption{
			Victims: []*pb.PreemptedPod{{Pod: hostile}}, Budgets: []*pb.BudgetUse{{Budget: hostile, Victims: 1}},
		}},
		{Decision: &pb.Decision{Pod: hostile, Message: hostile}, Time: at(1)},
	}}
}

func hostileExplanation() *pb.ExplainResponse {
	scored := &pb.ScoredNode{Node: "n1" + hostile, Score: 5, Plugins: []*pb.PluginScore{{Plugin: hostile, Normalised: 5, Weight: 1}}}
	refused := &pb.RefusedNode{Node: "n2" + hostile, Plugin: hostile, Reasons: []string{hostile}, Shortfalls: []string{hostile}}
	return &pb.ExplainResponse{
		Queue: hostile, Nodes: 2, Feasible: 1, Top: []*pb.ScoredNode{scored}, Closest: []*pb.RefusedNode{refused}, Note: hostile,
		Decision: hostileDecisions().Decisions[0].Decision, History: hostileDecisions().Decisions, NotAsked: []string{hostile},
		Waits:    &pb.Waits{Plugins: []*pb.PluginWaits{{Plugin: hostile, Events: []string{hostile}}}, BackoffUntil: at(9), TriedAnyway: at(10)},
		Verdicts: []*pb.NodeVerdict{{Node: "n1", Scored: scored}, {Node: "n2", Refused: refused}, {Node: "n" + hostile, Note: hostile}},
		Causes:   []*pb.Cause{{Plugin: hostile, Cause: hostile, Detail: hostile, Help: hostile, Preemption: hostile, Nodes: 1}},
		Workload: hostile, Pod: hostile, WorkloadPods: 2, WorkloadPending: 1, Filters: []string{hostile},
		WorkloadMembers: []*pb.WorkloadPod{{Name: hostile, Queue: hostile}, {Name: hostile, Node: hostile, Zone: hostile}},
		Budgets:         []*pb.DisruptionBudget{{Budget: hostile}}, PodGroup: hostilePodGroup(),
		Spread: []*pb.SpreadConstraint{{TopologyKey: hostile, MaxSkew: 1, WhenUnsatisfiable: hostile, DomainsTotal: 1, Domains: []*pb.SpreadDomain{
			{Name: hostile, Pods: 3, Nodes: 1, Domains: 1},
		}}},
	}
}

// text is what a page says, without its markup, spaces made one.
func text(t *testing.T, c *Console, path string) string {
	t.Helper()
	w := ask(c, "GET", Path+path)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: got %d: %s", path, w.Code, w.Body)
	}
	root, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// wantInOrder checks that a page has texts, one behind the other.
func wantInOrder(t *testing.T, page string, list ...string) {
	t.Helper()
	rest := page
	for _, want := range list {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("got\n%s\nwant %q, in the order of %q", page, want, list)
			return
		}
		rest = after
	}
}

// The first lines answer why pods wait, and what would help most of them.
func TestThePendingPageAnswersFirst(t *testing.T) {
	group := func(name string, pods uint64, causes ...*pb.Cause) *pb.PendingGroup {
		return &pb.PendingGroup{Kind: "Deployment", Namespace: "shop", Name: name, Pods: pods, Oldest: at(0), Example: "shop/" + name, Causes: causes}
	}
	full := &pb.Cause{Cause: "cpu: full", Help: "more such nodes"}
	disk := &pb.Cause{Cause: "no node has label disk=ssd", Help: "label a node"}
	turn := &pb.Cause{Cause: "not tried yet", Help: "nothing: its turn comes"}
	web := group("web", 250, full)
	web.OldestPods = []*pb.PendingPod{{Pod: "shop/web-1", Created: at(0), Queue: "backoff", BackoffUntil: at(110), Attempts: 3}}
	s := &scheduler{pending: &pb.ListPendingResponse{
		Pods: 400, Groups: []*pb.PendingGroup{web, group("api", 60, full, disk), group("db", 50, disk), group("new", 40, turn)},
		Queues:  &pb.QueueCounts{Unschedulable: 350, Backoff: 10, Active: 40},
		AgeBins: []*durationpb.Duration{durationpb.New(time.Minute)}, Ages: []uint64{40, 360},
		Gates: []*pb.GateCount{{Plugin: "SchedulingGates", Gate: "quota", Pods: 2, Oldest: at(40)}},
	}}
	page := text(t, newConsole(t, s), "pending?namespace=shop&selector=app%3Dweb")
	wantInOrder(t, page, "400 pods wait. 250 (62 %) for: cpu: full.", "What would help most", "310 pods: more such nodes", "110 pods: label a node",
		"Causes", "250 pods cpu: full", "would help: more such nodes", "250 pods Deployment shop/web", "shop/web-1", "backs off until 12:00:10",
		"249 younger pods not shown.", "60 pods cpu: full; no node has label disk=ssd", "Command line: shardsched pending -n shop -l app=web --address h:1",
		"unschedulable 350", "quota SchedulingGates 2 60s", "0s to 60s 40", "60s or more 360")
	if strings.Contains(page, "nothing: its turn comes pods") {
		t.Errorf("that nothing helps is told as what helps: %s", page)
	}
	wantInOrder(t, text(t, newConsole(t, &scheduler{}), "pending"), "No such pod is pending.")
}

// However many workloads wait, the page has so many of them.
func TestThePendingPageIsBounded(t *testing.T) {
	all := &pb.ListPendingResponse{}
	for i := range workloadsShown + 50 {
		all.Groups = append(all.Groups, &pb.PendingGroup{
			Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("p", i), Example: fmt.Sprint("shop/p", i), Pods: 1, Oldest: at(0),
			Causes: []*pb.Cause{{Cause: fmt.Sprint("cause ", i%2)}},
		})
		all.Pods++
	}
	page := text(t, newConsole(t, &scheduler{pending: all}), "pending")
	if got := strings.Count(page, "Pod shop/p"); got != workloadsShown {
		t.Errorf("got %d workloads, want %d", got, workloadsShown)
	}
	wantInOrder(t, page, "175 pods cause 0", "175 pods cause 1", "50 workloads more not shown")
}

func TestTheDecisionsPageAsksByItsFilters(t *testing.T) {
	s := &scheduler{decisions: &pb.ListDecisionsResponse{ContinueToken: "next", Decisions: []*pb.PastDecision{
		{
			Decision: &pb.Decision{Pod: "shop/web-1", Node: "n1", Score: 300, Feasible: 3, Nodes: 5}, Time: at(100), Attempt: 2,
			Took: durationpb.New(time.Millisecond), Kind: "Job", Workload: "j",
		},
		{Decision: &pb.Decision{Pod: "shop/web-2", Message: "0/5 nodes are available"}, Time: at(0)},
	}}}
	c := newConsole(t, s)
	page := text(t, c, "decisions?namespace=shop&name_prefix=web-&kind=Job&workload=j&node=n1&profile=p&outcome=placed&slow=5ms")
	wantInOrder(t, page, "12:00:00 shop/web-1 on n1 score 300 3 of 5 2 1.00 ms – Job j", "nowhere 0/5 nodes are available",
		"shardsched decisions web- -n shop --workload Job/j --node n1 --profile p --outcome placed --slow 5ms --address h:1", "Older decisions")
	want := &pb.ListDecisionsRequest{
		Namespace: "shop", NamePrefix: "web-", Kind: "Job", Workload: "j", Node: "n1", Profile: "p", Outcome: "placed",
		Slow: durationpb.New(5 * time.Millisecond), Limit: decisionsShown,
	}
	if d := cmp.Diff(want, s.decided, protocmp.Transform()); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
	if w := ask(c, "GET", Path+"decisions?slow=soon"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "want a duration such as 100ms") {
		t.Errorf("a duration that is none: got %d %s", w.Code, w.Body)
	}
}

func TestThePreemptionsPageTellsWhoPays(t *testing.T) {
	s := &scheduler{decisions: &pb.ListDecisionsResponse{Decisions: []*pb.PastDecision{{
		Decision: &pb.Decision{Pod: "shop/vip", Nominated: "n1", Victims: []string{"lab/a", "lab/b"}}, Time: at(100), Preemption: &pb.Preemption{
			Priority: 1000, Victims: []*pb.PreemptedPod{{Pod: "lab/a", Priority: 10}, {Pod: "lab/b"}},
			Budgets: []*pb.BudgetUse{{Budget: "lab/few", Allowed: 1, Victims: 2}, {Budget: "lab/many", Allowed: 5, Victims: 1}},
		},
	}}}}
	page := text(t, newConsole(t, s), "preemptions?node=n1&outcome=placed")
	wantInOrder(t, page, "1 preemption on this page: 2 pods pushed out, 1 budget violated.", "shop/vip priority 1000 n1 lab/a priority 10 lab/b priority 0",
		"lab/few: violated 2 of 1 allowed", "lab/many 1 of 5 allowed", "shardsched decisions --node n1 --preemptions --address h:1")
	if s.decided.GetOutcome() != pb.OutcomePreempting {
		t.Errorf("asked for the outcome %q", s.decided.GetOutcome())
	}
}

// podExplained has two feasible nodes, one refused, and a history of two attempts.
func podExplained() *pb.ExplainResponse {
	score := func(node string, total, fit, image int64) *pb.ScoredNode {
		return &pb.ScoredNode{Node: node, Score: total, Plugins: []*pb.PluginScore{
			{Plugin: "NodeResourcesFit", Normalised: fit, Weight: 1}, {Plugin: "ImageLocality", Normalised: image, Weight: 2},
		}}
	}
	refused := &pb.RefusedNode{Node: "n3", Plugin: "NodeResourcesFit", Reasons: []string{"Insufficient cpu"}, Shortfalls: []string{"cpu: short by 500m"}}
	return &pb.ExplainResponse{
		Queue: "unschedulable", Attempts: 2, Nodes: 3, Feasible: 2, Top: []*pb.ScoredNode{score("n1", 100, 80, 10), score("n2", 70, 30, 20)},
		Closest: []*pb.RefusedNode{refused}, Filters: []string{"NodeName", "NodeResourcesFit", "PodTopologySpread"},
		Verdicts: []*pb.NodeVerdict{{Node: "n1", Scored: score("n1", 100, 80, 10)}, {Node: "n2", Scored: score("n2", 70, 30, 20)}, {Node: "n3", Refused: refused}},
		Causes:   []*pb.Cause{{Cause: "cpu: full", Help: "more nodes", Nodes: 1, Plugin: "NodeResourcesFit"}},
		History: []*pb.PastDecision{
			{Decision: &pb.Decision{Seq: 9, Message: "0/3 nodes"}, Time: at(60), Attempt: 2, TraceId: "0af7", Top: []*pb.ScoredNode{score("n2", 70, 30, 20)}},
			{Decision: &pb.Decision{Seq: 3, Message: "0/2 nodes"}, Time: at(30), Attempt: 1, Waited: durationpb.New(10 * time.Second), DecidedBy: "before"},
		},
		Waits: &pb.Waits{Plugins: []*pb.PluginWaits{{Plugin: "NodeResourcesFit", Events: []string{"Node Add"}}}, BackoffUntil: at(110)},
		Spread: []*pb.SpreadConstraint{{
			TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: "DoNotSchedule", SelfMatch: true, DomainsTotal: 3, Least: 0,
			Domains: []*pb.SpreadDomain{{Name: "a", Nodes: 1, Domains: 1}, {Name: "b", Pods: 1, Nodes: 1, Domains: 1}, {Pods: 2, Nodes: 1, Domains: 1}},
		}},
		Budgets: []*pb.DisruptionBudget{{Budget: "shop/few", Allowed: 1, Expected: 3, Healthy: 2}},
	}
}

func TestThePodPageTellsAll(t *testing.T) {
	s := &scheduler{explanation: podExplained(), traces: &pb.ListTracesResponse{Traces: []*pb.Trace{{Id: "0af7", Spans: []*pb.Span{
		{Id: "1", Name: "schedule", Start: at(0), Took: durationpb.New(time.Second)}, {Id: "2", Parent: "1", Name: "fan-out", Start: at(0)},
	}}}}}
	page := text(t, newConsole(t, s), "pod?namespace=shop&name=web-1&a=n1&b=n2")
	wantInOrder(t, page, "Pod shop/web-1 waits: cpu: full. Would help: more nodes.", "explain pod shop/web-1 --top 20",
		"1 11:58:40.000 came", "2 11:58:50.000 attempt 1: nowhere 0/2 nodes; decided by before, which led before", "3 11:59:20.000 attempt 2: nowhere 0/3 nodes 0af7",
		"4 12:00:10.000 to come: its backoff ends", "NodeResourcesFit waits for one of: Node Add", "It is not tried before 12:00:10",
		"NodeResourcesFit × 1 ImageLocality × 2 n1 100 passes 80 10 n2 70 passes 30 20 n3 refused refuses cpu: short by 500m – –",
		"Best nodes when decision 9 was made", "n1 scores 100, n2 scores 70: +30. Of that, NodeResourcesFit +50, ImageLocality -20.",
		"zone, maxSkew 1, DoNotSchedule", "a 0 b 1 full 1 domain 2 full",
		"The fewest pods of a domain are 0, so no domain may have more than 1: 2 of 3 domains can not take one more.", "shop/few 1 3 2",
		"schedule 1.00 s", "fan-out", "shardsched trace shop/web-1 --address h:1")
	if got := s.explained.GetNodeNames(); len(got) != 2 || s.explained.GetTop() != nodesOfPod {
		t.Errorf("asked %v", s.explained)
	}
	page = text(t, newConsole(t, s), "pod?namespace=shop&name=web-1&a=n1&b=n3")
	wantInOrder(t, page, "n1 passes every filter, and scores 100. n3 is refused by NodeResourcesFit: cpu: short by 500m.")
	page = text(t, newConsole(t, s), "pod?namespace=shop&name=web-1&node=n3")
	wantInOrder(t, page, "Nodes now whose names contain n3", "n3 refused refuses")

	gone := &pb.ExplainResponse{Gone: at(90), Note: "preempted by pod shop/vip", History: podExplained().History}
	page = text(t, newConsole(t, &scheduler{explanation: gone}), "pod?namespace=shop&name=web-1")
	wantInOrder(t, page, "Pod shop/web-1 is gone.", "preempted by pod shop/vip", "attempt 2", "4 11:59:50.000 gone", "No trace of it is kept.")
	wantInOrder(t, text(t, newConsole(t, s), "pod"), "Which pod?")
	if w := ask(newConsole(t, &scheduler{err: status.Error(codes.NotFound, "pod a/b is not known")}), "GET", Path+"pod?name=b"); w.Code != http.StatusNotFound {
		t.Errorf("a pod that is not known: got %d", w.Code)
	}
}

func TestTheWorkloadPageTellsWhereItsPodsAre(t *testing.T) {
	e := podExplained()
	e.Workload, e.Pod, e.WorkloadPods, e.WorkloadPending = "Deployment shop/web", "shop/web-1", 4, 1
	e.WorkloadMembers = []*pb.WorkloadPod{
		{Name: "web-1", Queue: "unschedulable", Created: at(0)}, {Name: "web-2", Node: "n1", Zone: "a"}, {Name: "web-3", Node: "n2", Zone: "a"},
		{Name: "web-4", Node: "n9"},
	}
	s := &scheduler{explanation: e}
	page := text(t, newConsole(t, s), "workload?kind=Deployment&namespace=shop&name=web")
	wantInOrder(t, page, "Deployment shop/web: 1 of 4 pods pending, the worst off for: cpu: full. Would help: more nodes.", "Worst off is pod shop/web-1",
		"explain deployment shop/web", "a 2 67 % 2 (no zone) 1 33 % 1", "n1 a 1 n2 a 1 n9 – 1", "web-1 unschedulable 100s", "zone, maxSkew 1", "shop/few 1 3 2")
	if s.explained.GetKind() != "Deployment" {
		t.Errorf("asked %v", s.explained)
	}
}
