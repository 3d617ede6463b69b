package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// decisionsOfPage is how many decisions one call asks for at the most.
const decisionsOfPage = 1000

type decisionsOptions struct {
	connection
	scope
	listing     // of which --output and --no-headers are flags
	workload    string
	slow        time.Duration
	preemptions bool
	watch       bool
	limit       uint32
	every       time.Duration
	req         pb.ListDecisionsRequest
}

func newDecisionsCommand(s Streams) *cobra.Command {
	o := &decisionsOptions{every: watchEvery}
	c := &cobra.Command{
		Use:     "decisions [POD-NAME-PREFIX]",
		GroupID: groupClient,
		Short:   "Show the decisions that the leader remembers: which pod went where, which nowhere, who pushed out whom",
		Long: `Show the decisions that the leader remembers, its own and those of the leaders before,
the newest first: of each attempt the pod, what it came to, how many nodes were feasible,
and how long it took. WAITED counts from when the pod arrived, or its attempt before
failed, TOOK from when the attempt began. A placement is a decision: the bind follows.

With --preemptions who pushed out whom, from which node, and which PodDisruptionBudgets
count the victims: one is violated where more of its pods leave than it allows.
With --watch, go on with each decision that is made, the oldest first.`,
		Example: `  shardsched decisions -n shop
  shardsched decisions web- -n shop --outcome nowhere
  shardsched decisions --workload Deployment/web --node n17 --limit 1000
  shardsched decisions --slow 100ms --watch
  shardsched decisions --preemptions`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			return o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				return o.run(ctx, s, cl)
			})
		},
	}
	fs := c.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "", "of pods of that namespace; empty: of all")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "of pods of all namespaces, as without --namespace")
	fs.StringVar(&o.workload, "workload", "", "of pods of that workload: `KIND/NAME`, or a name of whatever kind")
	fs.StringVar(&o.req.Node, "node", "", "for the node of that `NAME`: chosen, or nominated")
	fs.StringVar(&o.req.Profile, "profile", "", "of pods with that schedulerName")
	fs.StringVar(&o.req.Outcome, "outcome", "", "of that outcome: placed, nowhere, or preempting; empty: of any")
	fs.DurationVar(&o.slow, "slow", 0, "of attempts that took so long, or longer; 0: of all")
	fs.BoolVar(&o.preemptions, "preemptions", false, "those that push pods out, with whom, and whose budgets")
	fs.Uint32Var(&o.limit, "limit", 100, "decisions to show, before those that --watch waits for")
	fs.BoolVarP(&o.watch, "watch", "w", false, "go on with each decision that is made")
	fs.StringVarP(&o.output, "output", "o", "", "form of the answer: wide, name, json, yaml, jsonpath=TEMPLATE, "+
		"custom-columns=HEADER:PATH,…; empty: a table")
	fs.BoolVar(&o.noHeaders, "no-headers", false, "leave out the table's first line")
	o.connection.addFlags(fs)
	completeNamespaces(c, s, &o.connection)
	completeNodes(c, s, &o.connection)
	completeWords(c, "outcome", pb.OutcomePlaced, pb.OutcomeNowhere, pb.OutcomePreempting)
	return c
}

// complete makes the request of the flags.
func (o *decisionsOptions) complete(args []string) error {
	if err := o.listing.parse(); err != nil {
		return err
	}
	if err := oneOf("outcome", o.req.Outcome, "", pb.OutcomePlaced, pb.OutcomeNowhere, pb.OutcomePreempting); err != nil {
		return err
	}
	switch {
	case o.all && o.namespace != "":
		return usagef("--namespace and --all-namespaces exclude each other")
	case o.slow < 0:
		return usagef("--slow: %s is negative", o.slow)
	case o.limit == 0:
		return usagef("--limit: want 1 or more")
	case o.preemptions && o.req.Outcome != "" && o.req.Outcome != pb.OutcomePreempting:
		return usagef("--preemptions are of the outcome preempting, and --outcome asks for %s", o.req.Outcome)
	}
	if o.preemptions {
		o.req.Outcome = pb.OutcomePreempting
	}
	o.req.Namespace, o.req.Workload = o.namespace, o.workload
	if kind, name, found := strings.Cut(o.workload, "/"); found {
		if o.req.Kind, o.req.Workload = explained(kind), name; o.req.Kind == "" {
			o.req.Kind = kind // of a controller that explain knows nothing of
		}
	}
	if len(args) > 0 {
		o.req.NamePrefix = args[0]
		if namespace, prefix, found := strings.Cut(args[0], "/"); found {
			o.req.Namespace, o.req.NamePrefix = namespace, prefix
		}
	}
	if o.slow > 0 {
		o.req.Slow = durationpb.New(o.slow)
	}
	if err := o.req.Validate(); err != nil {
		return usageError{err}
	}
	return nil
}

func (o *decisionsOptions) run(ctx context.Context, s Streams, cl *client.Client) error {
	answer, err := o.ask(ctx, cl, proto.CloneOf(&o.req), int(o.limit))
	if err != nil {
		return err
	}
	if !o.watch {
		v := o.view()
		return things(&o.listing, s, answer, answer.GetDecisions(), v)
	}
	v := o.view()
	shown := newPrinted(&o.listing, v)
	for {
		list := answer.GetDecisions()
		slices.Reverse(list)
		rows := make([]cells, 0, len(list))
		for _, d := range list {
			row, err := shown.cells(d)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		if err := shown.print(s.Out, rows...); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.every):
		}
		req := proto.CloneOf(&o.req)
		req.After = answer.GetNewest()
		if answer, err = o.ask(ctx, cl, req, 0); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// ask reads pages until there are most decisions; 0: until there are no more. The answer is that of the first page, with all of them.
func (o *decisionsOptions) ask(ctx context.Context, cl *client.Client, req *pb.ListDecisionsRequest,
	most int) (*pb.ListDecisionsResponse, error) {
	var out *pb.ListDecisionsResponse
	for {
		req.Limit = decisionsOfPage
		if most > 0 {
			req.Limit = uint32(min(decisionsOfPage, most-len(out.GetDecisions())))
		}
		var page *pb.ListDecisionsResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			page, err = c.ListDecisions(ctx, req)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list decisions: %w", err)
		}
		if out == nil {
			out = page
		} else {
			out.Decisions = append(out.Decisions, page.GetDecisions()...)
		}
		req.ContinueToken = page.GetContinueToken()
		if out.ContinueToken = req.ContinueToken; req.ContinueToken == "" || most > 0 && len(out.Decisions) >= most {
			return out, nil
		}
	}
}

// view is how decisions are shown.
func (o *decisionsOptions) view() *view[*pb.PastDecision] {
	v := &view[*pb.PastDecision]{
		name:  func(d *pb.PastDecision) string { return "pod/" + d.GetDecision().GetPod() },
		empty: "No such decision is remembered.",
	}
	if o.preemptions {
		v.headers, v.row = []string{"TIME", "POD", "PRIORITY", "NODE", "PUSHES OUT (PRIORITY)", "BUDGETS"}, o.preemptionRow
		return v
	}
	v.headers, v.row = []string{"TIME", "POD", "OUTCOME", "FEASIBLE", "ATTEMPT", "TOOK", "WAITED"}, o.decisionRow
	if o.form == "wide" {
		v.headers = append(v.headers, "WORKLOAD", "PROFILE", "DECISION", "TRACE", "BY EARLIER LEADER")
	}
	return v
}

func (o *decisionsOptions) decisionRow(p *pb.PastDecision) []string {
	d := p.GetDecision()
	row := []string{
		clockTime(p.GetTime()), d.GetPod(), outcomeOf(d), fmt.Sprintf("%d of %d", d.GetFeasible(), d.GetNodes()), fmt.Sprint(p.GetAttempt()),
		shortTime(p.GetTook()), shortTime(p.GetWaited()),
	}
	if o.form == "wide" {
		row = append(row, p.GetKind()+"/"+p.GetWorkload(), d.GetProfile(), fmt.Sprint(d.GetSeq()), p.GetTraceId(), p.GetDecidedBy())
	}
	return row
}

func (o *decisionsOptions) preemptionRow(p *pb.PastDecision) []string {
	d, x := p.GetDecision(), p.GetPreemption()
	most := len(x.GetVictims())
	if o.form != "wide" {
		most = min(most, shownVictims)
	}
	var victims, budgets []string
	for _, v := range x.GetVictims()[:most] {
		victims = append(victims, fmt.Sprintf("%s (%d)", v.GetPod(), v.GetPriority()))
	}
	if more := len(x.GetVictims()) - most; more > 0 {
		victims = append(victims, fmt.Sprintf("and %d more", more))
	}
	for _, b := range x.GetBudgets() {
		budgets = append(budgets, budgetUse(b))
	}
	return []string{
		clockTime(p.GetTime()), d.GetPod(), fmt.Sprint(x.GetPriority()), d.GetNominated(),
		strings.Join(victims, ", "), strings.Join(budgets, "; "),
	}
}

// shownVictims is how many victims a row names that need not be wide.
const shownVictims = 5

// budgetUse words what a preemption takes of a budget.
func budgetUse(b *pb.BudgetUse) string {
	name := b.GetBudget()
	if name == "" {
		name = "one of very many"
	}
	text := fmt.Sprintf("%s: %d of %d allowed", name, b.GetVictims(), b.GetAllowed())
	if int64(b.GetVictims()) > int64(b.GetAllowed()) {
		text += ", violated"
	}
	return text
}

// shortTime is a time in as many digits as tell something.
func shortTime(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	t := d.AsDuration()
	switch {
	case t >= time.Minute:
		return t.Round(time.Second).String()
	case t >= time.Second:
		return t.Round(10 * time.Millisecond).String()
	case t >= time.Millisecond:
		return t.Round(10 * time.Microsecond).String()
	}
	return t.Round(100 * time.Nanosecond).String()
}
