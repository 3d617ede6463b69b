package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/expression"
)

func newCELCommand(s Streams) *cobra.Command {
	c := &cobra.Command{
		Use:     "cel",
		GroupID: groupOther,
		Short:   "Try an expression of CELFilter or CELScore",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return usagef("name what to do: %s eval", c.CommandPath()) },
	}
	c.AddCommand(newCELEvalCommand(s))
	return c
}

func newCELEvalCommand(s Streams) *cobra.Command {
	var files []string
	var skipInvalid bool
	c := &cobra.Command{
		Use:   "eval -f FILE EXPRESSION",
		Short: "Tell what an expression comes to on nodes of files",
		Long: `Tell what an expression of the Common Expression Language comes to, as CELFilter and
CELScore evaluate it: on each node of the files, for each of their pods that has no
node, with what it read of the node. Pods that have a node count on it. An expression
that reads nothing of a pod needs none. docs/cel.md has the variables and functions.`,
		Example: `  shardsched cel eval -f node.yaml -f pod.yaml "node.labels['disk'] == 'ssd'"
  kubectl get nodes -o json | shardsched cel eval -f - "node.free['cpu'] > quantity('4')"`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(files) == 0 {
				return usagef("--filename is required: a node, and a pod where the expression reads one")
			}
			return runCELEval(s, inputRequest{Paths: files, SkipInvalid: skipInvalid}, args[0])
		},
	}
	addFileFlags(c.Flags(), &files, &skipInvalid, "nodes and pods")
	return c
}

// celTemplate compiles an expression as a filter, or as a score where it is a number.
func celTemplate(text string) (*expression.Template, expression.Kind, error) {
	filter, err := expression.Compile(text, expression.Filter)
	if err == nil {
		return filter, expression.Filter, nil
	}
	if score, wrong := expression.Compile(text, expression.Score); wrong == nil {
		return score, expression.Score, nil
	}
	return nil, 0, usageError{fmt.Errorf("expression: %w", err)}
}

func runCELEval(s Streams, q inputRequest, text string) error {
	template, kind, err := celTemplate(text)
	if err != nil {
		return err
	}
	in, err := readInput(s, q)
	if err != nil {
		return err
	}
	if len(in.Nodes) == 0 {
		return usagef("%s: no node in the input, and expressions are about nodes", strings.Join(q.Paths, ", "))
	}
	on, pods := map[string][]*v1.Pod{}, []*v1.Pod(nil)
	for _, p := range in.Pods {
		if p.Spec.NodeName != "" {
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
		} else {
			pods = append(pods, p)
		}
	}
	if len(pods) == 0 {
		if reads := template.PodReads(); len(reads) > 0 {
			return usagef("the expression reads pod.%s, and there is no pod without a node in the input", reads[0].Field)
		}
		pods = []*v1.Pod{nil}
	}
	var rows [][]string
	for _, p := range pods {
		residual, name, err := celResidual(template, p)
		if err != nil {
			return err
		}
		for _, n := range in.Nodes {
			row, err := celRow(n, on[n.Name], template)
			if err != nil {
				return fmt.Errorf("node %s: %w", n.Name, err)
			}
			rows = append(rows, []string{n.Name, name, celOutcome(residual.Eval(row), kind), strings.Join(residual.Saw(row), ", ")})
		}
	}
	return newTable(s.Out, "NODE", "POD", "RESULT", "READ OF THE NODE").print(rows...)
}

// celResidual is what is left of an expression once a pod is known, nil: none, and the pod's name.
func celResidual(t *expression.Template, p *v1.Pod) (*expression.Residual, string, error) {
	of, name := &expression.Pod{}, "<none>"
	if p != nil {
		of, name = compile.ExpressionPod(p), p.Namespace+"/"+p.Name
	}
	residual, err := t.Residual(t.Ask(of))
	return residual, name, err
}

// celRow is a node with the pods on it, as expressions read it.
func celRow(n *v1.Node, pods []*v1.Pod, t *expression.Template) (expression.Node, error) {
	wire := compile.Node(n)
	var keys []string
	for _, r := range t.NodeReads() {
		if r.Field == "annotations" {
			keys = append(keys, r.Key)
		}
	}
	wire.Annotations = compile.Annotations(n, keys)
	table := scorer.NewTable(0)
	deltas := []*pb.Delta{{Change: &pb.Delta_SetNode{SetNode: wire}}}
	for _, p := range pods {
		deltas = append(deltas, &pb.Delta{Change: &pb.Delta_AddPod{AddPod: compile.Usage(p)}})
	}
	for _, d := range deltas {
		if err := table.Apply(d); err != nil {
			return nil, err
		}
	}
	return table.ExpressionNode(0), nil
}

func celOutcome(o expression.Outcome, kind expression.Kind) string {
	switch {
	case o.Failed != "":
		return "failed: " + o.Failed
	case kind == expression.Filter:
		return strconv.FormatBool(o.Pass)
	}
	return strconv.FormatFloat(o.Number, 'g', -1, 64)
}
