package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

type explainOptions struct {
	connection
	listing   // of which --output is a flag
	namespace string
	top       uint32
	allNodes  bool
	nodes     []string
	traceURL  string
}

// traceID stands in --trace-url for a trace's id.
const traceID = "{id}"

func newExplainCommand(s Streams) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:        "explain (KIND NAME | KIND/NAME)",
		SuggestFor: []string{"describe", "why"},
		GroupID:    groupClient,
		Short:      "Tell why a pod is where it is or why it is nowhere, why a gang waits, and what a node has left",
		Long: `Tell why a pod is where it is, or why it is nowhere:

- of a placed pod, the score that each plugin gives the best nodes;
- of a pending pod, what refuses it and on how many nodes, what would help, which nodes
  come closest and what they lack, and when it is tried again.

The pod is held against the cluster as it is now, without the pod itself. What was
decided before, and by which scores, is told from the leaders' memory, which etcd keeps,
of a pod that is gone for ten minutes more.

Of a workload (a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or
ReplicationController) the pod is explained that is worst off. Of a node it tells what
is left, what of that can't be used, and which of the pending pods it would take.
Of a PodGroup it tells why the gang waits, and which of its members fit.

Any coordinator may be asked, also where the API server keeps the pods: a standby sends
the question on to the leader.`,
		Example: `  shardsched explain pod shop/web-1
  shardsched explain pod web-1 -n shop --top 10
  shardsched explain pod web-1 -n shop --node n17 --node n18
  shardsched explain deployment/web -n shop
  shardsched explain podgroup ml/train
  shardsched explain node n17`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeSubjects(s, &o.connection, &o.namespace),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.parse(); err != nil {
				return err
			}
			x, err := o.subject(args)
			if err != nil {
				return err
			}
			return o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				switch x.kind {
				case client.KindNode:
					return o.runNode(ctx, s, cl, x.name)
				case kindPodGroup:
					return o.runPodGroup(ctx, s, cl, x)
				}
				return o.run(ctx, s, cl, x)
			})
		},
	}
	fs := c.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the pod, where its name has none")
	fs.StringVarP(&o.output, "output", "o", "", "form of the answer: json, yaml, jsonpath=TEMPLATE; empty: text")
	fs.Uint32Var(&o.top, "top", 5, "nodes to show")
	fs.StringArrayVar(&o.nodes, "node", nil, "tell what becomes of the pod on the node of that `NAME`; repeatable")
	fs.BoolVar(&o.allNodes, "nodes", false, "tell what becomes of the pod on every node")
	fs.StringVar(&o.traceURL, "trace-url", "", "link traces: `URL` of a trace where a collector keeps them, with "+traceID+" for its id")
	o.connection.addFlags(fs)
	c.SetFlagErrorFunc(explainsOne)
	completeNamespaces(c, s, &o.connection)
	completeNodes(c, s, &o.connection)
	return c
}

// explainsOne refuses the flags of commands that list things.
func explainsOne(c *cobra.Command, err error) error {
	hint := ""
	for _, flag := range []string{"'l' in ", "'A' in ", "'w' in ", "--selector", "--field-selector", "--all-namespaces", "--watch",
		"--no-headers", "--sort-by"} {
		if strings.Contains(err.Error(), flag) {
			hint = ": explain is about what it names; get, top and pending list things"
		}
	}
	return seeHelp(c, fmt.Errorf("%w%s", err, hint))
}

func (o *explainOptions) parse() error {
	form, _, _ := strings.Cut(o.output, "=")
	if err := oneOf("output", form, "", "json", "yaml", "jsonpath"); err != nil {
		return err
	}
	if o.traceURL != "" && !strings.Contains(o.traceURL, traceID) {
		return usagef("--trace-url: %q has no %s, which stands for the trace's id", o.traceURL, traceID)
	}
	return o.listing.parse()
}

// subject is what is explained. kind is Pod, Node, PodGroup or that of a workload.
type subject struct{ kind, namespace, name string }

func (x subject) String() string {
	kind := strings.ToLower(x.kind)
	if x.kind == client.KindNode {
		return kind + " " + x.name
	}
	return kind + " " + x.namespace + "/" + x.name
}

// request asks about a pod, or a workload.
func (x subject) request(top uint32) *pb.ExplainRequest {
	req := &pb.ExplainRequest{Namespace: x.namespace, Name: x.name, Top: top}
	if x.kind != client.KindPod {
		req.Kind = x.kind
	}
	return req
}

// explained finds the kind that a word names, of those that can be explained; "": it names none.
func explained(word string) string {
	word = strings.ToLower(word)
	for kind, words := range map[string][]string{
		"Deployment": {"deployments", "deploy"}, "ReplicaSet": {"replicasets", "rs"}, "StatefulSet": {"statefulsets", "sts"},
		kindPodGroup: {"podgroups"}, "DaemonSet": {"daemonsets", "ds"}, "Job": {"jobs"},
		"ReplicationController": {"replicationcontrollers", "rc"},
	} {
		if word == strings.ToLower(kind) || slices.Contains(words, word) {
			return kind
		}
	}
	if kind, _ := kindOf(word); kind == client.KindPod || kind == client.KindNode {
		return kind
	}
	return ""
}

// subject reads "KIND NAME", "KIND/NAME", each with NAMESPACE/ before the name or without, "KIND KIND/NAME" and "NAMESPACE/NAME", which
// is a pod.
func (o *explainOptions) subject(args []string) (x subject, err error) {
	x.kind = client.KindPod
	word := args[len(args)-1]
	switch kind := explained(strings.TrimSuffix(word, "/")); {
	case len(args) == 1 && kind != "":
		return x, usagef("%s: which one? %s NAME", word, strings.ToLower(kind))
	case len(args) == 1 && isFile(word):
		return x, usagef("%q is a file, and no name: simulate -f %s --explain POD tells of a pod that is not there yet", word, word)
	}
	if len(args) == 2 {
		if x.kind = explained(args[0]); x.kind == "" {
			return x, usagef("%q can't be explained: pods are, nodes, PodGroups, and workloads that make pods", args[0])
		}
	}
	if first, rest, found := strings.Cut(word, "/"); found {
		if kind := explained(first); kind != "" && (len(args) == 1 || kind == x.kind) {
			x.kind, word = kind, rest
		}
	}
	var found bool
	if x.namespace, x.name, found = strings.Cut(word, "/"); !found {
		x.namespace, x.name = o.namespace, word
	}
	switch {
	case x.kind == client.KindNode && (found || x.name == ""):
		return x, usagef("%q is not the name of a node", word)
	case x.kind == client.KindNode:
		return x, nil
	case x.namespace == "" || x.name == "" || strings.Contains(x.name, "/"):
		return x, usagef("%q is not NAMESPACE/NAME", word)
	}
	return x, nil
}

func (o *explainOptions) run(ctx context.Context, s Streams, cl *client.Client, x subject) error {
	req := x.request(o.top)
	req.NodeNames, req.AllNodes = bareNodes(o.nodes), o.allNodes
	var answer *pb.ExplainResponse
	err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
		answer, err = c.Explain(ctx, req)
		return err
	})
	if err != nil {
		return fmt.Errorf("explain %s: %w", x, err)
	}
	if done, err := o.whole(s.Out, answer); done {
		return err
	}
	for _, p := range answer.GetHistory() {
		if o.traceURL != "" && p.GetTraceId() != "" {
			p.TraceId = strings.ReplaceAll(o.traceURL, traceID, p.GetTraceId())
		}
	}
	return renderExplanation(s.Out, cmp.Or(answer.GetPod(), x.namespace+"/"+x.name), answer)
}

// renderExplanation writes the answer for people.
func renderExplanation(w io.Writer, pod string, e *pb.ExplainResponse) error {
	b := &strings.Builder{}
	if e.GetWorkload() != "" {
		fmt.Fprintf(b, "%s: %d pods, %d of them pending; worst off is\n", e.GetWorkload(), e.GetWorkloadPods(), e.GetWorkloadPending())
	}
	fmt.Fprintf(b, "Pod %s %s\n", pod, standing(e))
	if d := e.GetDecision(); d.GetMessage() != "" && e.GetNode() == "" && e.GetGone() == nil {
		fmt.Fprintf(b, "%s\n", strings.Map(printable, d.GetMessage()))
	}
	if e.GetNote() != "" {
		fmt.Fprintf(b, "Note: %s\n", strings.Map(printable, e.GetNote()))
	}
	if g := e.GetPodGroup(); g != nil {
		explainMember(b, g, e.GetMemberState())
	}
	explainWaits(b, e.GetWaits())
	explainHistory(b, e.GetHistory())
	explainFeasible(b, e)
	explainTop(b, "Best nodes now", e.GetTop())
	explainCauses(b, e)
	explainShortages(b, e.GetShortages())
	explainClosest(b, e.GetClosest())
	explainDevices(b, e)
	explainVerdicts(b, e)
	_, err := io.WriteString(w, strings.Map(printableLines, b.String()))
	return err
}

// explainMember tells where a member of a pod group stands. A leader of an earlier release does not tell its state.
func explainMember(b *strings.Builder, g *pb.PodGroupStatus, state string) {
	name := g.GetNamespace() + "/" + g.GetName()
	fmt.Fprintf(b, "Member of PodGroup %s: %s\n", name, strings.Map(printable, cmp.Or(state, g.GetVerdict())))
	if state != "" {
		fmt.Fprintf(b, "The PodGroup: %s\n", strings.Map(printable, g.GetVerdict()))
	}
	fmt.Fprintf(b, "Its other members: shardsched explain podgroup %s\n", name)
}

func standing(e *pb.ExplainResponse) string {
	d := e.GetDecision()
	switch {
	case e.GetGone() != nil:
		return "is gone since " + clockTime(e.GetGone())
	case e.GetNode() != "" && d.GetNode() == e.GetNode():
		of := ""
		if past := e.GetHistory(); len(past) > 0 && past[0].GetDecidedBy() != "" {
			of = " of " + past[0].GetDecidedBy() + ", which led before,"
		}
		return fmt.Sprintf("is on %s: decision %d%s gave it score %d, %d of %d nodes were feasible", e.GetNode(), d.GetSeq(), of, d.GetScore(),
			d.GetFeasible(), d.GetNodes())
	case e.GetNode() != "":
		return fmt.Sprintf("is on %s%s", e.GetNode(), arrivalText(e.GetArrival()))
	case e.GetQueue() != "":
		attempts := fmt.Sprintf("%d attempts", e.GetAttempts())
		if e.GetAttempts() == 1 {
			attempts = "1 attempt"
		}
		return fmt.Sprintf("is pending: queue %s, %s", e.GetQueue(), attempts)
	}
	return "is pending"
}

func explainTop(b *strings.Builder, title string, top []*pb.ScoredNode) {
	if len(top) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s (a plugin's score is 0 to 100, times its weight):\n", title)
	headers := []string{"  NODE", "SCORE"}
	for _, p := range top[0].GetPlugins() {
		headers = append(headers, fmt.Sprintf("%s x%d", p.GetPlugin(), p.GetWeight()))
	}
	var rows [][]string
	for _, n := range top {
		mark := "  "
		if n.GetChosen() {
			mark = "* "
		}
		row := []string{mark + n.GetNode(), fmt.Sprint(n.GetScore())}
		for _, p := range n.GetPlugins() {
			row = append(row, fmt.Sprint(p.GetNormalised()))
		}
		for len(row) < len(headers) {
			row = append(row, "")
		}
		rows = append(rows, row[:len(headers)])
	}
	newTable(b, headers...).print(rows...)
}

// explainFeasible tells how many nodes would take the pod, and who was not asked.
func explainFeasible(b *strings.Builder, e *pb.ExplainResponse) {
	others := e.GetNotAsked()
	switch {
	case e.GetNodes() == 0:
	case len(others) == 0:
		fmt.Fprintf(b, "Now %d of %d nodes pass every filter.\n", e.GetFeasible(), e.GetNodes())
	default:
		have := "has a say too, and is asked only when the pod is decided"
		if len(others) > 1 {
			have = "have a say too, and are asked only when the pod is decided"
		}
		fmt.Fprintf(b, "Now %d of %d nodes pass the built-in filters; %s %s.\n", e.GetFeasible(), e.GetNodes(),
			strings.Map(printable, strings.Join(others, " and ")), have)
	}
}

// explainCauses tells what the pod wants and does not get, and what would help: first what holds it back from being tried at all.
func explainCauses(b *strings.Builder, e *pb.ExplainResponse) {
	var held, refusing [][]string
	for _, c := range e.GetCauses() {
		if c.GetNodes() == 0 {
			held = append(held, []string{"  " + causeText(c), c.GetHelp(), c.GetPlugin()})
			continue
		}
		refusing = append(refusing, []string{fmt.Sprintf("  %d", c.GetNodes()), causeText(c), c.GetHelp(), c.GetPreemption(), c.GetPlugin()})
	}
	if len(held) > 0 {
		fmt.Fprintf(b, "\nWhat holds it back:\n")
		newTable(b, "  CAUSE", "WOULD HELP", "PLUGIN").print(held...)
	}
	if len(refusing) == 0 {
		return
	}
	which := ""
	if e.GetFeasible() > 0 {
		which = "other "
	}
	fmt.Fprintf(b, "\nWhat refuses the %snodes:\n", which)
	newTable(b, "  NODES", "CAUSE", "WOULD HELP", "PREEMPTION", "PLUGIN").print(refusing...)
}

// causeText is a cause with its detail.
func causeText(c *pb.Cause) string {
	if c.GetDetail() == "" {
		return c.GetCause()
	}
	return c.GetCause() + " (" + c.GetDetail() + ")"
}

func explainClosest(b *strings.Builder, closest []*pb.RefusedNode) {
	if len(closest) == 0 {
		return
	}
	fmt.Fprintf(b, "\nNodes that come closest:\n")
	var rows [][]string
	for _, n := range closest {
		rows = append(rows, []string{"  " + n.GetNode(), n.GetPlugin(), strings.Join(n.GetReasons(), ", "),
			strings.Join(n.GetShortfalls(), ", ")})
	}
	newTable(b, "  NODE", "REFUSED BY", "REASONS", "WHAT IS MISSING").print(rows...)
}
