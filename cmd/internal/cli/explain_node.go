package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/plainjson"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxNodeFits is of how many workloads with pending pods one is held against a node: each is an explanation.
const maxNodeFits = 10

// nodeFit is what becomes of a workload's pending pods on a node.
type nodeFit struct {
	Workload string `json:"workload"`
	Pods     uint64 `json:"pods"`
	// Example is the pod that was held against the node.
	Example string `json:"example"`
	// RefusedBy is the plugin that refuses it there; empty: none does.
	RefusedBy string   `json:"refusedBy,omitempty"`
	Lacks     []string `json:"lacks,omitempty"`
	// Note tells that the pod could not be held against the node.
	Note string `json:"note,omitempty"`
}

// runNode explains a node: what it has left, and which pending pods it would take.
func (o *explainOptions) runNode(ctx context.Context, s Streams, cl *client.Client, name string) error {
	var node *pb.ExplainNodeResponse
	var pending *pb.ListPendingResponse
	err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
		if node, err = c.ExplainNode(ctx, &pb.ExplainNodeRequest{Name: name}); err == nil {
			pending, err = c.ListPending(ctx, &pb.ListPendingRequest{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("explain node %s: %w", name, err)
	}
	fits, left := nodeCandidates(pending)
	for i := range fits {
		if err := fits[i].try(ctx, cl, name); err != nil {
			return fmt.Errorf("explain pod %s on node %s: %w", fits[i].Example, name, err)
		}
	}
	if o.form != "" {
		return o.printNode(s.Out, node, fits)
	}
	return renderNode(s.Out, node, fits, left)
}

// nodeCandidates are the workloads of most pending pods, and how many others there are.
func nodeCandidates(pending *pb.ListPendingResponse) (fits []nodeFit, left int) {
	at := map[string]int{}
	for _, g := range pending.GetGroups() {
		name := workloadText(g)
		if i, known := at[name]; known {
			fits[i].Pods += g.GetPods()
			continue
		}
		at[name] = len(fits)
		fits = append(fits, nodeFit{Workload: name, Pods: g.GetPods(), Example: g.GetExample()})
	}
	left = max(len(fits)-maxNodeFits, 0)
	return fits[:len(fits)-left], left
}

func (x *nodeFit) verdict() string {
	switch {
	case x.RefusedBy != "":
		return x.RefusedBy + ": " + strings.Join(x.Lacks, ", ")
	case x.Note != "":
		return x.Note
	}
	return "fits"
}

// try holds the example against the node.
func (x *nodeFit) try(ctx context.Context, cl *client.Client, node string) error {
	namespace, name, _ := strings.Cut(x.Example, "/")
	var e *pb.ExplainResponse
	err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) (err error) {
		e, err = c.Explain(ctx, &pb.ExplainRequest{Namespace: namespace, Name: name, Top: 1, NodeNames: []string{node}})
		return err
	})
	if err != nil {
		return err
	}
	switch v := e.GetVerdicts(); {
	case len(v) == 0 && len(e.GetCauses()) > 0:
		x.RefusedBy, x.Lacks = e.GetCauses()[0].GetPlugin(), []string{causeText(e.GetCauses()[0])}
	case len(v) == 0:
		x.Note = "it was not judged: " + e.GetNote()
	case v[0].GetRefused() != nil:
		r := v[0].GetRefused()
		if x.RefusedBy, x.Lacks = r.GetPlugin(), r.GetShortfalls(); len(x.Lacks) == 0 {
			x.Lacks = r.GetReasons()
		}
	case v[0].GetScored() == nil:
		x.Note = v[0].GetNote()
	case len(e.GetNotAsked()) > 0:
		x.Note = "passes the built-in filters; not asked: " + strings.Join(e.GetNotAsked(), ", ")
	}
	return nil
}

func (o *explainOptions) printNode(w io.Writer, node *pb.ExplainNodeResponse, fits []nodeFit) error {
	raw, err := plainjson.Marshal(node)
	if err != nil {
		return err
	}
	_, err = o.whole(w, struct {
		Node json.RawMessage `json:"node"`
		Fits []nodeFit       `json:"fits"`
	}{raw, append([]nodeFit{}, fits...)})
	return err
}

func renderNode(w io.Writer, node *pb.ExplainNodeResponse, fits []nodeFit, left int) error {
	b := &strings.Builder{}
	pods := fmt.Sprintf("%d pods", node.GetPods())
	if node.GetPods() == 1 {
		pods = "1 pod"
	}
	fmt.Fprintf(b, "Node %s has %s\n", node.GetNode(), pods)
	for _, text := range node.GetKeepsOff() {
		fmt.Fprintf(b, "Keeps pods off: %s\n", text)
	}
	for _, text := range node.GetTaints() {
		if strings.HasSuffix(text, ":PreferNoSchedule") {
			fmt.Fprintf(b, "Less wanted: taint %s\n", text)
		}
	}
	if len(node.GetLabels()) > 0 {
		fmt.Fprintf(b, "Labels: %s\n", strings.Join(node.GetLabels(), ", "))
	}
	b.WriteByte('\n')
	var rows [][]string
	for _, a := range node.GetAmounts() {
		rows = append(rows, []string{"  " + a.GetResource(), amountText(a.GetResource(), a.GetAllocatable()),
			amountText(a.GetResource(), a.GetRequested()), amountText(a.GetResource(), a.GetAllocatable()-a.GetRequested())})
	}
	newTable(b, "  RESOURCE", "ALLOCATABLE", "REQUESTED", "LEFT").print(rows...)
	for _, text := range node.GetStranded() {
		fmt.Fprintf(b, "Stranded: %s\n", text)
	}
	renderOnNode(b, node)
	if len(fits) == 0 {
		b.WriteString("\nNo pod is pending.\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	b.WriteString("\nPending pods, one of each workload held against the node:\n")
	rows = nil
	for _, x := range fits {
		rows = append(rows, []string{"  " + x.Workload, fmt.Sprint(x.Pods), x.Example, x.verdict()})
	}
	newTable(b, "  WORKLOAD", "PODS", "POD", "HERE").print(rows...)
	if left > 0 {
		fmt.Fprintf(b, "  … and %d workloads more\n", left)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxShownPods is how many of a node's pods are shown.
const maxShownPods = 20

// renderOnNode shows the pods on the node that are the last to leave.
func renderOnNode(b *strings.Builder, node *pb.ExplainNodeResponse) {
	pods := node.GetOnNode()
	if len(pods) == 0 {
		return
	}
	b.WriteString("\nOn it, by priority:\n")
	var rows [][]string
	for _, p := range pods[:min(len(pods), maxShownPods)] {
		var requests []string
		for _, r := range p.GetRequests() {
			requests = append(requests, r.GetResource()+"="+amountText(r.GetResource(), r.GetQuantity()))
		}
		of := cmp.Or(p.GetController(), "-")
		if p.GetAssumed() {
			of += " (being bound)"
		}
		rows = append(rows, []string{"  " + p.GetNamespace() + "/" + p.GetName(), fmt.Sprint(p.GetPriority()),
			cmp.Or(strings.Join(requests, ","), "-"), of})
	}
	newTable(b, "  POD", "PRIORITY", "REQUESTS", "OF").print(rows...)
	if more := max(len(pods)-maxShownPods, 0) + int(node.GetPodsLeftOut()); more > 0 {
		fmt.Fprintf(b, "  … and %d pods more\n", more)
	}
}

// amountText writes an amount of a resource: cpu in cores, bytes by their size.
func amountText(name string, amount int64) string {
	switch {
	case name == "cpu":
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	case name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, "hugepages-"):
		return resource.NewQuantity(amount, resource.BinarySI).String()
	}
	return fmt.Sprint(amount)
}
