package console

import (
	"cmp"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/cmd/internal/nodefit"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func nodePage() page {
	return page{path: "node", title: "Node", hidden: true, active: "cluster", show: showNode}
}

// nodeShown is what the page shows.
type nodeShown struct {
	Filters filters
	// Name is the node's; empty: none is named yet.
	Name     string
	KeepsOff []string
	Stranded []string
	Facts    []fact
	Amounts  table
	Pods     table
	Devices  table
	Labels   []string
	Taints   []string
	// Hold is where pending pods are held against the node; empty: they are, in Pending.
	Hold    string
	Pending table
}

func showNode(v *visit) (any, error) {
	name := v.get("name")
	out := nodeShown{Name: name, Filters: filters{Label: "Which node", Fields: []field{{Name: "name", Label: "Node", Value: name}}}}
	if name == "" {
		return out, nil
	}
	var node *pb.ExplainNodeResponse
	var devices *pb.ListDevicesResponse
	var fits []nodefit.Fit
	var left int
	g, ctx := errgroup.WithContext(v)
	g.Go(func() (err error) {
		node, err = v.client.ExplainNode(ctx, &pb.ExplainNodeRequest{Name: name})
		return err
	})
	g.Go(func() (err error) {
		devices, err = v.client.ListDevices(ctx, &pb.ListDevicesRequest{NodeNames: []string{name}})
		return err
	})
	held := v.get("pending") == "1"
	if held {
		g.Go(func() error {
			pending, err := v.client.ListPending(ctx, &pb.ListPendingRequest{})
			if err != nil {
				return err
			}
			fits, left = nodefit.Candidates(pending)
			for i := range fits { // one after the other: each is a pass over all nodes
				e, err := v.client.Explain(ctx, fits[i].Request(name))
				if err != nil {
					return err
				}
				fits[i].Take(e)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out.KeepsOff, out.Stranded, out.Labels, out.Taints = node.GetKeepsOff(), node.GetStranded(), node.GetLabels(), node.GetTaints()
	out.Facts = nodeFacts(node)
	out.Amounts, out.Pods, out.Devices = v.nodeAmounts(node), v.podsOnNode(node), v.nodeDevices(devices)
	if held {
		out.Pending = v.heldAgainst(name, fits, left)
	} else {
		out.Hold = link("node", "name", name, "pending", "1")
	}
	return out, nil
}

func nodeFacts(n *pb.ExplainNodeResponse) []fact {
	zone := "none"
	for _, l := range n.GetLabels() {
		if value, is := strings.CutPrefix(l, v1.LabelTopologyZone+"="); is {
			zone = value
		}
	}
	state := words("takes pods").marked("good")
	if len(n.GetKeepsOff()) > 0 {
		state = words("keeps pods off").marked("warn")
	}
	return []fact{
		{"State", state}, {"Pods", words(count(n.GetPods()))}, {"Zone", words(zone)},
		{"Shard", words(fmt.Sprint(n.GetShard())).to(link("workers") + "#shards")},
	}
}

func (v *visit) nodeAmounts(n *pb.ExplainNodeResponse) table {
	t := table{
		Caption: "Resources", Empty: "The node has none.", Command: v.command("explain", "node", n.GetNode()),
		Download: download("ExplainNode", "name", n.GetNode()),
		Columns: []column{{Name: "Resource"}, {Name: "Allocatable", Number: true}, {Name: "Requested", Number: true},
			{Name: "Share", Number: true}, {Name: "Left", Number: true}},
	}
	for _, a := range n.GetAmounts() {
		amount := func(n int64) string { return quantity(a.GetResource(), n) }
		t.Rows = append(t.Rows, []cell{head(a.GetResource()), number(amount(a.GetAllocatable())), number(amount(a.GetRequested())),
			number(percent(float64(a.GetRequested()), float64(a.GetAllocatable()))), number(amount(a.GetAllocatable() - a.GetRequested()))})
	}
	return t
}

func (v *visit) podsOnNode(n *pb.ExplainNodeResponse) table {
	t := table{
		Caption: "Pods on it, by priority", Empty: "No pod is on the node.", Command: v.command("explain", "node", n.GetNode()),
		Download: download("ExplainNode", "name", n.GetNode()),
		Columns:  []column{{Name: "Pod"}, {Name: "Priority", Number: true}, {Name: "Requests"}, {Name: "Of"}, {Name: "State"}},
	}
	if n.GetPodsLeftOut() > 0 {
		t.LeftOut = plural(n.GetPodsLeftOut(), "more pod") + " not shown."
	}
	for _, p := range n.GetOnNode() {
		var requests []string
		for _, r := range p.GetRequests() {
			requests = append(requests, r.GetResource()+" "+quantity(r.GetResource(), r.GetQuantity()))
		}
		state := words("on the node")
		if p.GetAssumed() {
			state = words("being bound")
		}
		t.Rows = append(t.Rows, []cell{
			head(p.GetNamespace() + "/" + p.GetName()).to(podLink(p.GetNamespace() + "/" + p.GetName())), number(fmt.Sprint(p.GetPriority())),
			words(cmp.Or(strings.Join(requests, ", "), "nothing")), words(cmp.Or(p.GetController(), "–")), state,
		})
	}
	return t
}

func (v *visit) nodeDevices(d *pb.ListDevicesResponse) table {
	name := v.get("name")
	t := table{
		Caption: "Devices", Empty: "The node has none of its own.", Command: v.command("get", "devices", name),
		Download: download("ListDevices", "node_names", name),
		Columns:  []column{{Name: "Device"}, {Name: "Driver"}, {Name: "Pool"}, {Name: "In use by"}},
	}
	if d.GetContinueToken() != "" {
		t.LeftOut = "There are more devices than are shown."
	}
	for _, x := range d.GetDevices() {
		t.Rows = append(t.Rows, []cell{head(x.GetDevice()), words(x.GetDriver()), words(x.GetPool()),
			words(cmp.Or(strings.Join(x.GetInUseBy(), ", "), "free"))})
	}
	return t
}

// heldAgainst tells which pending pods the node would take.
func (v *visit) heldAgainst(node string, fits []nodefit.Fit, left int) table {
	t := table{
		Caption: "Pending pods, one of each workload held against the node", Empty: "No pod is pending.",
		Command: v.command("explain", "node", node), Download: download("ListPending"),
		Columns: []column{{Name: "Workload"}, {Name: "Pods", Number: true}, {Name: "Held against it"}, {Name: "Here"}},
	}
	if left > 0 {
		t.LeftOut = plural(left, "more workload") + " not held against it."
	}
	for i := range fits {
		x := &fits[i]
		here := words(x.Verdict()).marked("good")
		if !x.Fits() {
			here.State = "warn"
		}
		t.Rows = append(t.Rows, []cell{head(x.Workload), number(count(x.Pods)), words(x.Example).to(podLink(x.Example)), here})
	}
	return t
}
