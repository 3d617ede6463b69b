package console

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// decisionsShown is how many decisions a page has.
const decisionsShown = 100

func decisionsPage() page {
	return page{path: "decisions", title: "Decisions", live: true, show: showDecisions}
}

func preemptionsPage() page {
	return page{path: "preemptions", title: "Preemptions", live: true, show: showPreemptions}
}

// decisionList is what the page of decisions shows.
type decisionList struct {
	Filters   filters
	Decisions table
	// Older leads to the page of what was decided before; empty: nothing more is remembered.
	Older string
}

// preemptionList is what the page of preemptions shows.
type preemptionList struct {
	Sentence    string
	Filters     filters
	Preemptions []preemptionShown
	Source      table
	Older       string
}

// preemptionShown is who pushed out whom.
type preemptionShown struct {
	Time    string
	Pod     cell
	Node    string
	Victims []cell
	Budgets []cell
}

// asked are the parameters of a page of decisions, by the request's names.
func asked() []string {
	return []string{"namespace", "name_prefix", "kind", "workload", "node", "profile", "outcome", "slow"}
}

// decisionsRequest is what the query of the page asks.
func (v *visit) decisionsRequest() (*pb.ListDecisionsRequest, error) {
	req := &pb.ListDecisionsRequest{
		Namespace: v.get("namespace"), NamePrefix: v.get("name_prefix"), Kind: v.get("kind"), Workload: v.get("workload"), Node: v.get("node"),
		Profile: v.get("profile"), Outcome: v.get("outcome"), ContinueToken: v.get("continue_token"), Limit: decisionsShown,
	}
	if text := v.get("slow"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "slow: want a duration such as 100ms, got %q", text)
		}
		req.Slow = durationpb.New(d)
	}
	return req, nil
}

// pairs are the parameters that are set, names and values in turn.
func (v *visit) pairs(names ...string) (out []string) {
	for _, name := range names {
		if value := v.get(name); value != "" {
			out = append(out, name, value)
		}
	}
	return out
}

func showDecisions(v *visit) (any, error) {
	req, err := v.decisionsRequest()
	if err != nil {
		return nil, err
	}
	r, err := v.client.ListDecisions(v, req)
	if err != nil {
		return nil, err
	}
	pairs := v.pairs(asked()...)
	out := decisionList{
		Filters: filters{Label: "Filter decisions", Fields: []field{
			{Name: "namespace", Label: "Namespace", Value: req.GetNamespace()},
			{Name: "name_prefix", Label: "Pods that begin with", Value: req.GetNamePrefix()},
			{Name: "kind", Label: "Kind of workload", Value: req.GetKind(), Hint: "Deployment"},
			{Name: "workload", Label: "Workload", Value: req.GetWorkload()},
			{Name: "node", Label: "Node", Value: req.GetNode()}, {Name: "profile", Label: "Profile", Value: req.GetProfile()},
			choice("outcome", "Outcome", req.GetOutcome(), "", "any", pb.OutcomePlaced, "placed", pb.OutcomeNowhere, "nowhere",
				pb.OutcomePreempting, "preempting"),
			{Name: "slow", Label: "Took at least", Value: v.get("slow"), Hint: "100ms"},
		}},
		Decisions: table{
			Caption: "Decisions, the newest first", Empty: "No such decision is remembered.",
			Columns: []column{
				{Name: "Time", Number: true}, {Name: "Pod"}, {Name: "Outcome"}, {Name: "Feasible", Number: true, Help: "nodes, of all"},
				{Name: "Attempt", Number: true}, {Name: "Took", Number: true, Help: "from when the attempt began"},
				{Name: "Waited", Number: true, Help: "from when the pod arrived, or its attempt before failed"}, {Name: "Workload"},
			},
			Command: v.decisionsCommand(req), Download: download("ListDecisions", pairs...),
		},
		Older: older("decisions", r.GetContinueToken(), pairs),
	}
	if len(pairs) > 0 || req.GetContinueToken() != "" {
		out.Filters.Clear = link("decisions")
	}
	for _, p := range r.GetDecisions() {
		d := p.GetDecision()
		out.Decisions.Rows = append(out.Decisions.Rows, []cell{
			number(v.clock(p.GetTime().AsTime())), head(d.GetPod()).to(podLink(d.GetPod())), outcome(p), number(feasible(d)),
			number(count(p.GetAttempt())), number(took(p.GetTook())), number(took(p.GetWaited())), workloadCell(p),
		})
	}
	return out, nil
}

// decisionsCommand is the command line of a request.
func (v *visit) decisionsCommand(req *pb.ListDecisionsRequest, more ...string) string {
	line := []string{"decisions"}
	if req.GetNamePrefix() != "" {
		line = append(line, req.GetNamePrefix())
	}
	workload := req.GetWorkload()
	if req.GetKind() != "" {
		workload = req.GetKind() + "/" + workload
	}
	for _, f := range [][2]string{
		{"-n", req.GetNamespace()}, {"--workload", workload}, {"--node", req.GetNode()}, {"--profile", req.GetProfile()},
		{"--outcome", req.GetOutcome()}, {"--slow", v.get("slow")},
	} {
		if f[1] != "" && (f[0] != "--outcome" || len(more) == 0) {
			line = append(line, f[0], f[1])
		}
	}
	return v.command(append(line, more...)...)
}

// older leads to the next page of a list.
func older(path, token string, pairs []string) string {
	if token == "" {
		return ""
	}
	return link(path, append(pairs, "continue_token", token)...)
}

func feasible(d *pb.Decision) string { return count(d.GetFeasible()) + " of " + count(d.GetNodes()) }

// outcome is what a decision came to.
func outcome(p *pb.PastDecision) cell {
	d := p.GetDecision()
	switch {
	case d.GetNode() != "":
		return words("on " + d.GetNode()).marked("good").below("score " + count(d.GetScore()))
	case len(d.GetVictims()) > 0:
		return words("pushes out " + plural(len(d.GetVictims()), "pod")).marked("warn").below("nominated to " + d.GetNominated())
	case d.GetNominated() != "":
		return words("nominated to " + d.GetNominated()).marked("warn")
	}
	return words("nowhere").marked("bad").below(d.GetMessage())
}

func workloadCell(p *pb.PastDecision) cell {
	if p.GetKind() == "" || p.GetKind() == "Pod" {
		return words("–")
	}
	namespace, _, _ := strings.Cut(p.GetDecision().GetPod(), "/")
	to := link("workload", "kind", p.GetKind(), "namespace", namespace, "name", p.GetWorkload())
	return words(p.GetKind() + " " + p.GetWorkload()).to(to)
}

func showPreemptions(v *visit) (any, error) {
	req, err := v.decisionsRequest()
	if err != nil {
		return nil, err
	}
	req.Outcome = pb.OutcomePreempting
	r, err := v.client.ListDecisions(v, req)
	if err != nil {
		return nil, err
	}
	pairs := v.pairs("namespace", "node")
	out := preemptionList{
		Filters: filters{Label: "Filter preemptions", Fields: []field{
			{Name: "namespace", Label: "Namespace of who pushes out", Value: req.GetNamespace()},
			{Name: "node", Label: "Node", Value: req.GetNode()},
		}},
		Source: table{
			Command:  v.decisionsCommand(req, "--preemptions"),
			Download: download("ListDecisions", append(pairs, "outcome", pb.OutcomePreempting)...),
		},
		Older: older("preemptions", r.GetContinueToken(), pairs),
	}
	if len(pairs) > 0 || req.GetContinueToken() != "" {
		out.Filters.Clear = link("preemptions")
	}
	victims, violations := 0, 0
	for _, p := range r.GetDecisions() {
		d, x := p.GetDecision(), p.GetPreemption()
		shown := preemptionShown{
			Time: v.clock(p.GetTime().AsTime()), Node: d.GetNominated(),
			Pod: head(d.GetPod()).to(podLink(d.GetPod())).below(fmt.Sprintf("priority %d", x.GetPriority())),
		}
		for _, victim := range x.GetVictims() {
			c := words(victim.GetPod()).to(podLink(victim.GetPod())).below(fmt.Sprintf("priority %d", victim.GetPriority()))
			shown.Victims = append(shown.Victims, c)
		}
		for _, b := range x.GetBudgets() {
			allowed := fmt.Sprintf("%d of %d allowed", b.GetVictims(), b.GetAllowed())
			c := words(cmp.Or(b.GetBudget(), "one of very many")).below(allowed).marked("good")
			if int64(b.GetVictims()) > int64(b.GetAllowed()) {
				c.Text += ": violated"
				c.State = "bad"
				violations++
			}
			shown.Budgets = append(shown.Budgets, c)
		}
		victims += len(x.GetVictims())
		out.Preemptions = append(out.Preemptions, shown)
	}
	out.Sentence = "Nobody was pushed out, as far as is remembered."
	if n := len(out.Preemptions); n > 0 {
		out.Sentence = fmt.Sprintf("%s on this page: %s pushed out, %s violated.", plural(n, "preemption"),
			plural(victims, "pod"), plural(violations, "budget"))
	}
	return out, nil
}
