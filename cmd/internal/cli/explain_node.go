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
	"github.com/shardsched/shardsched/cmd/internal/nodefit"
	"github.com/shardsched/shardsched/cmd/internal/plainjson"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

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
	fits, left := nodefit.Candidates(pending)
	for i := range fits {
		err := cl.Do(ctx, func(ctx context.Context, c pb.SchedulerServiceClient) error {
			e, err := c.Explain(ctx, fits[i].Request(name))
			if err == nil {
				fits[i].Take(e)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("explain pod %s on node %s: %w", fits[i].Example, name, err)
		}
	}
	if o.form != "" {
		return o.printNode(s.Out, node, fits)
	}
	return renderNode(s.Out, node, fits, left)
}

func (o *explainOptions) printNode(w io.Writer, node *pb.ExplainNodeResponse, fits []nodefit.Fit) error {
	raw, err := plainjson.Marshal(node)
	if err != nil {
		return err
	}
	_, err = o.whole(w, struct {
		Node json.RawMessage `json:"node"`
		Fits []nodefit.Fit   `json:"fits"`
	}{raw, append([]nodefit.Fit{}, fits...)})
	return err
}

func renderNode(w io.Writer, node *pb.ExplainNodeResponse, fits []nodefit.Fit, left int) error {
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
		rows = append(rows, []string{"  " + x.Workload, fmt.Sprint(x.Pods), x.Example, x.Verdict()})
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
