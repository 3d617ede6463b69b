package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/cmd/internal/client"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

type explainOptions struct {
	connection
	namespace string
	output    string
	top       uint32
	allNodes  bool
	nodes     []string
}

func newExplainCommand(s Streams) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:     "explain pod NAMESPACE/NAME",
		GroupID: groupClient,
		Short:   "Tell why a pod is where it is, or why it is nowhere",
		Long: `Tell why a pod is where it is, or why it is nowhere: of a placed pod the score that
each plugin gives the best nodes, of a pending one what it wants and how many nodes
refuse it for that, which nodes come closest, and what it waits for. The pod is held against the
cluster as it is now, without the pod itself; what was decided before, and by which
scores, is told from the leader's memory. Any coordinator may be asked, also where
the API server keeps the pods: a standby sends the question on to the leader.`,
		Example: `  shardsched explain pod shop/web-1
  shardsched explain pod web-1 -n shop --top 10
  shardsched explain pod web-1 -n shop --node n17 --node n18`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			namespace, name, err := o.pod(args)
			if err != nil {
				return err
			}
			return o.connection.with(c.Context(), s, func(ctx context.Context, cl *client.Client) error {
				return o.run(ctx, s, cl, namespace, name)
			})
		},
	}
	fs := c.Flags()
	fs.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the pod, where its name has none")
	fs.StringVarP(&o.output, "output", "o", "", "form of the answer: json, yaml; empty: text")
	fs.Uint32Var(&o.top, "top", 5, "nodes to show")
	fs.StringArrayVar(&o.nodes, "node", nil, "tell what becomes of the pod on the node of that `NAME`; repeatable")
	fs.BoolVar(&o.allNodes, "nodes", false, "tell what becomes of the pod on every node")
	o.connection.addFlags(fs)
	return c
}

// pod reads "pod NS/NAME", "pod NAME", "pod/NAME" and "NS/NAME".
func (o *explainOptions) pod(args []string) (namespace, name string, err error) {
	if err := oneOf("output", o.output, "", "json", "yaml"); err != nil {
		return "", "", err
	}
	word := args[0]
	if len(args) == 2 {
		if kind, _ := kindOf(args[0]); kind != client.KindPod {
			return "", "", usagef("%q can't be explained: only pods are placed", args[0])
		}
		word = args[1]
	} else if rest, ok := strings.CutPrefix(word, "pod/"); ok {
		word = rest
	}
	namespace, name, found := strings.Cut(word, "/")
	if !found {
		namespace, name = o.namespace, word
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", usagef("%q is not NAMESPACE/NAME", word)
	}
	return namespace, name, nil
}

func (o *explainOptions) run(ctx context.Context, s Streams, cl *client.Client, namespace, name string) error {
	var answer *pb.ExplainResponse
	err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
		answer, err = c.Explain(ctx, &pb.ExplainRequest{Namespace: namespace, Name: name, Top: o.top, NodeNames: o.nodes,
			AllNodes: o.allNodes})
		return err
	})
	if err != nil {
		return fmt.Errorf("explain pod %s/%s: %w", namespace, name, err)
	}
	if o.output != "" {
		return printMessage(s.Out, o.output, answer)
	}
	return renderExplanation(s.Out, namespace+"/"+name, answer)
}

// renderExplanation writes the answer for people.
func renderExplanation(w io.Writer, pod string, e *pb.ExplainResponse) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "Pod %s %s\n", pod, standing(e))
	if d := e.GetDecision(); d.GetMessage() != "" && e.GetNode() == "" {
		fmt.Fprintf(b, "%s\n", d.GetMessage())
	}
	if e.GetNote() != "" {
		fmt.Fprintf(b, "Note: %s\n", e.GetNote())
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
	_, err := io.WriteString(w, b.String())
	return err
}

func standing(e *pb.ExplainResponse) string {
	d := e.GetDecision()
	switch {
	case e.GetNode() != "" && d.GetNode() == e.GetNode():
		return fmt.Sprintf("is on %s: decision %d gave it score %d, %d of %d nodes were feasible", e.GetNode(), d.GetSeq(), d.GetScore(),
			d.GetFeasible(), d.GetNodes())
	case e.GetNode() != "":
		return fmt.Sprintf("is on %s: not a decision of the present leader (an earlier one's, another scheduler's, or its kubelet's own)",
			e.GetNode())
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
		have := "has a say too and is not asked here; what it said is in the decisions"
		if len(others) > 1 {
			have = "have a say too and are not asked here; what they said is in the decisions"
		}
		fmt.Fprintf(b, "Now %d of %d nodes pass the built-in filters; %s %s.\n", e.GetFeasible(), e.GetNodes(),
			strings.Join(others, " and "), have)
	}
}

// explainCauses tells what the pod wants and does not get, and what would help.
func explainCauses(b *strings.Builder, e *pb.ExplainResponse) {
	if len(e.GetCauses()) == 0 {
		return
	}
	which := ""
	if e.GetFeasible() > 0 {
		which = "other "
	}
	fmt.Fprintf(b, "\nWhat refuses the %snodes:\n", which)
	var rows [][]string
	for _, c := range e.GetCauses() {
		nodes := ""
		if c.GetNodes() > 0 {
			nodes = fmt.Sprint(c.GetNodes())
		}
		rows = append(rows, []string{"  " + nodes, causeText(c), c.GetHelp(), c.GetPreemption(), c.GetPlugin()})
	}
	newTable(b, "  NODES", "CAUSE", "WOULD HELP", "PREEMPTION", "PLUGIN").print(rows...)
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
