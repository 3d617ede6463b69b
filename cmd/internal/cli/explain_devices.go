package cli

import (
	"cmp"
	"fmt"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// explainShortages tells what keeps devices from the pod's claims.
func explainShortages(b *strings.Builder, list []*pb.ShortageCount) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\nWhat keeps devices from its claims:\n")
	var rows [][]string
	for _, c := range list {
		rows = append(rows, []string{fmt.Sprintf("  %d", c.GetNodes()), fmt.Sprint(c.GetDevices()), c.GetClaim(), c.GetRequest(), c.GetCause()})
	}
	newTable(b, "  NODES", "DEVICES", "CLAIM", "REQUEST", "CAUSE").print(rows...)
}

// explainDevices tells device by device what the nodes that come closest, and those that were asked for, have for the claims.
func explainDevices(b *strings.Builder, e *pb.ExplainResponse) {
	var nodes []*pb.RefusedNode
	seen := map[string]bool{}
	add := func(n *pb.RefusedNode) {
		if n.GetDevices() != nil && !seen[n.GetNode()] {
			seen[n.GetNode()] = true
			nodes = append(nodes, n)
		}
	}
	for _, n := range e.GetClosest() {
		add(n)
	}
	for _, v := range e.GetVerdicts() {
		add(v.GetRefused())
	}
	if len(nodes) == 0 {
		return
	}
	fmt.Fprintf(b, "\nDevices, node by node:\n")
	for _, n := range nodes {
		if note := n.GetDevices().GetNote(); note != "" {
			fmt.Fprintf(b, "  %s: %s\n", n.GetNode(), strings.Map(printable, note))
		}
		for _, r := range n.GetDevices().GetRequests() {
			fmt.Fprintf(b, "  %s: %d of %d for request %s of claim %s; class %s selects %d of the node's %d\n", n.GetNode(), r.GetFound(),
				r.GetWanted(), r.GetRequest(), n.GetDevices().GetClaim(), r.GetClass(), r.GetInClass(), r.GetDevices())
			for _, d := range r.GetNearest() {
				fmt.Fprintf(b, "    %s/%s/%s: %s\n", d.GetDriver(), d.GetPool(), cmp.Or(d.GetDevice(), "*"),
					strings.Map(printable, d.GetCause()))
			}
		}
	}
}
