package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// pendingEvery is how often `pending --watch` asks.
const pendingEvery = 2 * time.Second

type pendingOptions struct {
	connection
	scope
	by     string
	output string
	watch  bool
	every  time.Duration
	now    func() time.Time
}

func newPendingCommand(s Streams) *cobra.Command {
	o := pendingOptions{every: pendingEvery, now: time.Now}
	c := &cobra.Command{
		Use:     "pending",
		GroupID: groupClient,
		Short:   "Tell why pods wait: each cause with its pods, and what would help",
		Long: `Tell why pods wait: each cause in words, how many pods of how many workloads it
keeps, since when the oldest of them waits, and what would help. The causes are those
of each pod's last attempt, held against what all nodes have; explain tells about one
pod node by node. Any coordinator may be asked, also where the API server keeps the pods.`,
		Example: `  shardsched pending
  shardsched pending -n shop --by workload
  shardsched pending --watch`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf("output", o.output, "", "json", "yaml"); err != nil {
				return err
			}
			if err := oneOf("by", o.by, "reason", "workload", "namespace"); err != nil {
				return err
			}
			if o.all && o.namespace != "" {
				return usagef("--namespace and --all-namespaces exclude each other")
			}
			return o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				return o.run(ctx, s, cl)
			})
		},
	}
	fs := c.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "", "pods of that namespace; empty: of all")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "pods of all namespaces, as without --namespace")
	fs.StringVar(&o.by, "by", "reason", "a row for each reason, workload or namespace")
	fs.StringVarP(&o.output, "output", "o", "", "form of the answer: json, yaml; empty: a table")
	fs.BoolVarP(&o.watch, "watch", "w", false, "after the answer, go on with each that differs")
	o.connection.addFlags(fs)
	return c
}

func (o *pendingOptions) run(ctx context.Context, s Streams, cl *client.Client) error {
	last := ""
	for {
		var answer *pb.ListPendingResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			answer, err = c.ListPending(ctx, &pb.ListPendingRequest{Namespace: o.namespace})
			return err
		})
		if err != nil {
			if o.watch && ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("list pending pods: %w", err)
		}
		text, err := o.render(answer)
		if err != nil {
			return err
		}
		if text != last {
			if last != "" {
				fmt.Fprintln(s.Out)
			}
			fmt.Fprint(s.Out, text)
			last = text
		}
		if !o.watch {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.every):
		}
	}
}

func (o *pendingOptions) render(answer *pb.ListPendingResponse) (string, error) {
	b := &strings.Builder{}
	if o.output != "" {
		err := printMessage(b, o.output, answer)
		return b.String(), err
	}
	if answer.GetPods() == 0 {
		return "No pod is pending.\n", nil
	}
	err := o.table(b, answer)
	return b.String(), err
}

// pendingRow is the groups of one row: those of a cause, a workload or a namespace.
type pendingRow struct {
	key       string
	pods      uint64
	workloads []string
	oldest    time.Time
	groups    []*pb.PendingGroup
}

func (o *pendingOptions) table(w io.Writer, answer *pb.ListPendingResponse) error {
	var rows []*pendingRow
	found := map[string]*pendingRow{}
	for _, g := range answer.GetGroups() {
		key := pendingCause(g.GetCauses())
		switch o.by {
		case "workload":
			key = workloadText(g)
		case "namespace":
			key = cmp.Or(g.GetNamespace(), "(several)")
		}
		r := found[key]
		if r == nil {
			r = &pendingRow{key: key}
			found[key] = r
			rows = append(rows, r)
		}
		r.add(g)
	}
	slices.SortStableFunc(rows, func(a, b *pendingRow) int { return cmp.Compare(b.pods, a.pods) })
	headers := []string{"CAUSE", "PODS", "WORKLOADS", "OLDEST", "WOULD HELP"}
	switch o.by {
	case "workload":
		headers = []string{"WORKLOAD", "PODS", "OLDEST", "CAUSE", "WOULD HELP"}
	case "namespace":
		headers = []string{"NAMESPACE", "PODS", "WORKLOADS", "OLDEST", "CAUSE"}
	}
	var cells [][]string
	for _, r := range rows {
		age := duration.HumanDuration(max(o.now().Sub(r.oldest), 0))
		pods, main := fmt.Sprint(r.pods), r.groups[0]
		switch o.by {
		case "workload":
			cells = append(cells, []string{r.key, pods, age, causesText(main.GetCauses()) + r.others(), helpText(main.GetCauses())})
		case "namespace":
			cells = append(cells, []string{r.key, pods, r.workloadsText(), age, causesText(main.GetCauses()) + r.others()})
		default:
			cells = append(cells, []string{r.causeText(), pods, r.workloadsText(), age, helpText(main.GetCauses())})
		}
	}
	if err := newTable(w, headers...).print(cells...); err != nil {
		return err
	}
	if n := answer.GetPodsLeftOut(); n > 0 {
		_, err := fmt.Fprintf(w, "… and %d pods more: ask for one namespace at a time\n", n)
		return err
	}
	return nil
}

func (r *pendingRow) add(g *pb.PendingGroup) {
	r.pods += g.GetPods()
	r.groups = append(r.groups, g)
	if name := workloadText(g); !slices.Contains(r.workloads, name) {
		r.workloads = append(r.workloads, name)
	}
	if t := g.GetOldest().AsTime(); r.oldest.IsZero() || t.Before(r.oldest) {
		r.oldest = t
	}
}

// causeText is the row's cause, with the detail where all groups have the same.
func (r *pendingRow) causeText() string {
	same := func(g *pb.PendingGroup) bool { return causesText(g.GetCauses()) != causesText(r.groups[0].GetCauses()) }
	if slices.ContainsFunc(r.groups, same) {
		return r.key
	}
	return causesText(r.groups[0].GetCauses())
}

// others tells that there are causes that the row does not name.
func (r *pendingRow) others() string {
	causes := map[string]bool{}
	for _, g := range r.groups {
		causes[pendingCause(g.GetCauses())] = true
	}
	if len(causes) == 1 {
		return ""
	}
	return fmt.Sprintf(" and %d more", len(causes)-1)
}

// workloadsText is how many workloads a row has; of one, its name.
func (r *pendingRow) workloadsText() string {
	if len(r.workloads) == 1 {
		return r.workloads[0]
	}
	return fmt.Sprint(len(r.workloads))
}

func workloadText(g *pb.PendingGroup) string {
	if g.GetKind() == "" {
		return "(several)"
	}
	return fmt.Sprintf("%s %s/%s", g.GetKind(), g.GetNamespace(), g.GetName())
}

// shownCauses is how many causes of a pod a row tells.
const shownCauses = 3

// pendingCause are the causes of a group without what differs between its nodes.
func pendingCause(list []*pb.Cause) string {
	words := make([]string, 0, len(list))
	for _, c := range list[:min(len(list), shownCauses)] {
		words = append(words, c.GetCause())
	}
	return strings.Join(words, "; ")
}

func causesText(list []*pb.Cause) string {
	words := make([]string, 0, len(list))
	for _, c := range list[:min(len(list), shownCauses)] {
		words = append(words, causeText(c))
	}
	return strings.Join(words, "; ")
}

// helpText is what would help against one of the causes.
func helpText(list []*pb.Cause) string {
	var words []string
	for _, c := range list[:min(len(list), shownCauses)] {
		if help := c.GetHelp(); help != "" && !slices.Contains(words, help) {
			words = append(words, help)
		}
	}
	return strings.Join(words, "; or ")
}
