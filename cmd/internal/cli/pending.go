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
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

type pendingOptions struct {
	connection
	scope
	listing
	by    string
	watch bool
	every time.Duration
	width int // of the terminal; 0: there is none
	now   func() time.Time
}

func newPendingCommand(s Streams) *cobra.Command {
	o := pendingOptions{every: watchEvery, now: time.Now}
	c := &cobra.Command{
		Use:     "pending",
		GroupID: groupClient,
		Short:   "Tell why pods wait: each cause with its pods, and what would help",
		Long: `Tell why pods wait: each cause in words, how many pods of how many workloads it
keeps, since when the oldest of them waits, and what would help. The causes are those
of each pod's last attempt, held against what all nodes have; explain tells about one
pod node by node. Above the table stands in which queues the pods are, how old they are,
and who gates them; -o wide tells the queues of each row. Any coordinator may be asked,
also where the API server keeps the pods.

What -o json, yaml, custom-columns and jsonpath print, and fields are selected and
sorted by, are groups: the pods of a workload that wait for the same (kind, namespace,
name, pods, oldest, example, causes). -o name prints the workloads for explain.`,
		Example: `  shardsched pending
  shardsched pending -n shop --by workload
  shardsched pending -l app=web --by pod
  shardsched pending -l app=web --sort-by .oldest
  shardsched pending -o name | xargs -n 1 shardsched explain
  shardsched pending --watch`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("pending tells of all pods that wait, or of those that -n and -l choose: \"explain %s\" tells of one",
					strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(c.Flags().Changed("by")); err != nil {
				return err
			}
			o.width, _ = terminalWidth(s.Out)
			return o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				return o.run(ctx, s, cl)
			})
		},
	}
	fs := c.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "", "pods of that namespace; empty: of all")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "pods of all namespaces, as without --namespace")
	fs.StringVar(&o.by, "by", "reason", "a row for each reason, workload, namespace or pod (the oldest of each workload)")
	o.listing.addFlags(fs)
	fs.Lookup("output").Usage = "form of the answer: name, json, yaml, jsonpath=TEMPLATE, custom-columns=HEADER:PATH,…; empty: a table"
	fs.Lookup("selector").Usage = "only pods with these labels, such as app=web,tier!=cache"
	fs.Lookup("field-selector").Usage = "only groups with these fields, such as kind=Deployment"
	fs.Lookup("sort-by").Usage = "sort by a field of groups, such as .oldest; without it by the number of pods, the most first"
	fs.BoolVarP(&o.watch, "watch", "w", false, "after the answer, go on with each that differs")
	o.connection.addFlags(fs)
	completeNamespaces(c, s, &o.connection)
	completeWords(c, "by", pendingRows()...)
	return c
}

// pendingRows are what a row of the table can be of.
func pendingRows() []string { return []string{"reason", "workload", "namespace", "pod"} }

// podsOfGroup is how many pods of a group --by pod asks for.
const podsOfGroup = 100

func (o *pendingOptions) validate(by bool) error {
	if err := o.listing.parse(); err != nil {
		return err
	}
	if err := oneOf("by", o.by, pendingRows()...); err != nil {
		return err
	}
	switch {
	case o.form == "wide" && o.by == "pod":
		return usagef("--output: \"wide\" shows nothing more of pods")
	case by && o.form != "" && o.form != "wide":
		return usagef("--by is about the rows of the table, and --output %s shows none", o.form)
	case o.all && o.namespace != "":
		return usagef("--namespace and --all-namespaces exclude each other")
	}
	return nil
}

func (o *pendingOptions) run(ctx context.Context, s Streams, cl *client.Client) error {
	var last *pb.ListPendingResponse
	req := &pb.ListPendingRequest{Namespace: o.namespace, LabelSelector: o.selector}
	if o.by == "pod" {
		req.PodsOfGroup = podsOfGroup
	}
	for {
		var answer *pb.ListPendingResponse
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
			answer, err = c.ListPending(ctx, req)
			return err
		})
		if err != nil {
			if o.watch && ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("list pending pods: %w", err)
		}
		if !proto.Equal(answer, last) { // that the oldest gets older is no news
			if last != nil {
				fmt.Fprintln(s.Out)
			}
			last = proto.CloneOf(answer)
			text, err := o.render(answer)
			if err != nil {
				return err
			}
			fmt.Fprint(s.Out, text)
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
	groups := o.listing
	groups.selector, groups.labels = "", labels.Everything() // it was about the pods
	var err error
	if answer.Groups, err = choose(&groups, answer.GetGroups(), nil); err != nil {
		return "", err
	}
	if o.fieldSelector != "" {
		answer.Pods = 0
		for _, g := range answer.GetGroups() {
			answer.Pods += g.GetPods()
		}
	}
	b := &strings.Builder{}
	if done, err := groups.whole(b, answer); done {
		return b.String(), err
	}
	switch {
	case o.form == "name":
		for _, name := range pendingNames(answer.GetGroups()) {
			fmt.Fprintln(b, name)
		}
	case o.form == "custom-columns":
		err = things(&groups, Streams{Out: b, Err: b}, answer, answer.GetGroups(), &view[*pb.PendingGroup]{empty: strings.TrimSpace(o.none())})
	case answer.GetPods() == 0:
		b.WriteString(o.none())
	default:
		if !o.noHeaders {
			b.WriteString(pendingHead(answer))
		}
		if o.by == "pod" {
			err = o.podTable(b, answer)
		} else {
			err = o.table(b, answer)
		}
	}
	return b.String(), err
}

// pendingHead tells of all pods where they are, how old, and who holds some back; empty: the coordinator does not tell.
func pendingHead(answer *pb.ListPendingResponse) string {
	if answer.GetQueues() == nil {
		return ""
	}
	text := queuesText(answer.GetQueues())
	var gates []string
	for _, g := range answer.GetGates()[:min(len(answer.GetGates()), shownCauses)] {
		gates = append(gates, fmt.Sprintf("%s (%d)", gateText(g), g.GetPods()))
	}
	if more := len(answer.GetGates()) - shownCauses; more > 0 {
		gates = append(gates, fmt.Sprintf("%d more", more))
	}
	if len(gates) > 0 {
		text += ", by " + strings.Join(gates, ", ")
	}
	var ages []string
	for i, n := range answer.GetAges() {
		switch bins := answer.GetAgeBins(); {
		case n == 0:
		case i < len(bins):
			ages = append(ages, fmt.Sprintf("%d below %s", n, duration.HumanDuration(bins[i].AsDuration())))
		case len(bins) > 0:
			ages = append(ages, fmt.Sprintf("%d older", n))
		}
	}
	return strings.Map(printable, text+". By age: "+strings.Join(ages, ", ")+".") + "\n\n"
}

// gateText names who holds pods back.
func gateText(g *pb.GateCount) string {
	if g.GetGate() == "" {
		return "plugin " + g.GetPlugin()
	}
	return "gate " + g.GetGate()
}

// queuesText is how many pods are where, but for where none is. Gated pods come last.
func queuesText(q *pb.QueueCounts) string {
	var parts []string
	for _, x := range []struct {
		pods  uint64
		queue string
	}{
		{q.GetUnschedulable(), "unschedulable"}, {q.GetBackoff(), "backoff"}, {q.GetActive(), "active"}, {q.GetInFlight(), "in flight"},
		{q.GetBinding(), "binding"}, {q.GetGated(), "gated"},
	} {
		if x.pods > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.pods, x.queue))
		}
	}
	return strings.Join(parts, ", ")
}

// podTable has a row for each pod that is named.
func (o *pendingOptions) podTable(w io.Writer, answer *pb.ListPendingResponse) error {
	headers := []string{"POD", "QUEUE", "AGE", "ATTEMPTS", "UNTIL", "CAUSE"}
	var rows [][]string
	left := answer.GetPods()
	for _, g := range answer.GetGroups() {
		for _, p := range g.GetOldestPods() {
			until := ""
			switch {
			case p.GetBackoffUntil() != nil:
				until = clockTime(p.GetBackoffUntil())
			case p.GetGatedBy() != "":
				until = p.GetGatedBy()
			}
			age := duration.HumanDuration(max(o.now().Sub(p.GetCreated().AsTime()), 0))
			rows = append(rows, []string{p.GetPod(), p.GetQueue(), age, fmt.Sprint(p.GetAttempts()), until, causesText(g.GetCauses())})
			left--
		}
	}
	if err := o.newTable(w, headers...).print(fold(o.width, headers, rows, 5)...); err != nil {
		return err
	}
	if left > 0 {
		_, err := fmt.Fprintf(w, "… and %d pods more: -n and -l choose some, --by workload counts all\n", left)
		return err
	}
	return nil
}

// none says that no pod waits, of those that are asked for.
func (o *pendingOptions) none() string {
	if o.namespace != "" || o.selects() {
		return "No such pod is pending.\n"
	}
	return "No pod is pending.\n"
}

// pendingNames are the workloads, each once, as explain takes them; of groups of several workloads the oldest pod.
func pendingNames(groups []*pb.PendingGroup) (names []string) {
	for _, g := range groups {
		name := strings.Join([]string{strings.ToLower(g.GetKind()), g.GetNamespace(), g.GetName()}, "/")
		if g.GetKind() == "" {
			name = "pod/" + g.GetExample()
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// pendingRow is the groups of one row: those of a cause, a workload or a namespace.
type pendingRow struct {
	key       string
	pods      uint64
	workloads []string
	oldest    time.Time
	queues    pb.QueueCounts
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
	if o.order == nil {
		slices.SortStableFunc(rows, func(a, b *pendingRow) int { return cmp.Compare(b.pods, a.pods) })
	}
	headers, long := []string{"CAUSE", "PODS", "WORKLOADS", "OLDEST", "WOULD HELP"}, []int{0, 4}
	switch o.by {
	case "workload":
		headers, long = []string{"WORKLOAD", "PODS", "OLDEST", "CAUSE", "WOULD HELP"}, []int{3, 4}
	case "namespace":
		headers, long = []string{"NAMESPACE", "PODS", "WORKLOADS", "OLDEST", "CAUSE"}, []int{4}
	}
	wide := o.form == "wide"
	if wide {
		headers = append(headers, "QUEUES")
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
		if wide {
			cells[len(cells)-1] = append(cells[len(cells)-1], queuesText(&r.queues))
		}
	}
	if err := o.newTable(w, headers...).print(fold(o.width, headers, cells, long...)...); err != nil {
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
	q := g.GetQueues()
	r.queues.Active += q.GetActive()
	r.queues.Backoff += q.GetBackoff()
	r.queues.Unschedulable += q.GetUnschedulable()
	r.queues.Gated += q.GetGated()
	r.queues.InFlight += q.GetInFlight()
	r.queues.Binding += q.GetBinding()
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

// helpText is what would help against one of the causes, of the first that something is known to help against.
func helpText(list []*pb.Cause) string {
	var words []string
	for _, c := range list {
		if help := c.GetHelp(); help != "" && len(words) < shownCauses && !slices.Contains(words, help) {
			words = append(words, help)
		}
	}
	return strings.Join(words, "; or ")
}
