package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func workloadPage() page {
	return page{path: "workload", title: "Workload", hidden: true, active: "pending", show: showWorkload}
}

// nodesOfWorkload is how many nodes and how many pending pods the page of a workload lists.
const nodesOfWorkload = 200

// workloadPageShown is what the page of a workload shows.
type workloadPageShown struct {
	Verdict               verdict
	Filters               filters
	Worst                 cell
	Zones, Nodes, Pending table
	Causes, Budgets       table
	Spread                []spreadShown
	Source                table
}

func showWorkload(v *visit) (any, error) {
	kind, namespace, name := cmp.Or(v.get("kind"), "Deployment"), cmp.Or(v.get("namespace"), "default"), v.get("name")
	choose := filters{Label: "Choose a workload", Fields: []field{
		{Name: "kind", Label: "Kind", Value: kind}, {Name: "namespace", Label: "Namespace", Value: namespace},
		{Name: "name", Label: "Name", Value: name},
	}}
	if name == "" {
		return workloadPageShown{Verdict: verdict{State: "warn", Text: "Which workload?"}, Filters: choose}, nil
	}
	e, err := v.client.Explain(v, &pb.ExplainRequest{Kind: kind, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	title := cmp.Or(e.GetWorkload(), kind+" "+namespace+"/"+name)
	out := workloadPageShown{
		Verdict: workloadVerdict(title, e), Filters: choose, Worst: words(e.GetPod()).to(podLink(e.GetPod())),
		Causes: causeTable(e), Budgets: budgetTable(e.GetBudgets()), Spread: spreads(e.GetSpread()),
		Source: table{
			Command:  v.command("explain", strings.ToLower(kind), namespace+"/"+name),
			Download: download("Explain", "kind", kind, "namespace", namespace, "name", name),
		},
	}
	if n := e.GetWorkloadMembersLeftOut(); n > 0 {
		out.Source.LeftOut = "Zones and nodes are of all but " + plural(n, "pod") + ", which did not fit."
	}
	out.Zones, out.Nodes, out.Pending = v.members(namespace, e.GetWorkloadMembers())
	return out, nil
}

func workloadVerdict(title string, e *pb.ExplainResponse) verdict {
	text := fmt.Sprintf("%s: %s, all of them on nodes.", title, plural(e.GetWorkloadPods(), "pod"))
	if e.GetWorkloadPending() == 0 {
		return verdict{State: "good", Text: text}
	}
	text = fmt.Sprintf("%s: %d of %s pending", title, e.GetWorkloadPending(), plural(e.GetWorkloadPods(), "pod"))
	if c := e.GetCauses(); len(c) > 0 {
		text += ", the worst off for: " + c[0].GetCause()
		if c[0].GetHelp() != "" {
			text += ". Would help: " + c[0].GetHelp()
		}
	}
	return verdict{State: "warn", Text: text + "."}
}

// place is how many pods of a workload are somewhere, on how many nodes.
type place struct {
	name, zone string
	pods       int
	nodes      map[string]bool
}

// members are a workload's pods by zone and by node, and those that wait.
func (v *visit) members(namespace string, pods []*pb.WorkloadPod) (zones, nodes, pending table) {
	zones = table{Caption: "By zone", Empty: "No pod is on a node.",
		Columns: []column{{Name: "Zone"}, {Name: "Pods", Number: true}, {Name: "Share", Number: true}, {Name: "Nodes", Number: true}}}
	nodes = table{Caption: "By node, those of most pods first", Empty: "No pod is on a node.",
		Columns: []column{{Name: "Node"}, {Name: "Zone"}, {Name: "Pods", Number: true}}}
	pending = table{Caption: "Pending pods", Empty: "None.", Columns: []column{{Name: "Pod"}, {Name: "Queue"}, {Name: "Age", Number: true}}}
	byZone, byNode, placed, waiting := map[string]*place{}, map[string]*place{}, 0, 0
	count1 := func(m map[string]*place, key, zone, node string) {
		p := m[key]
		if p == nil {
			p = &place{name: key, zone: zone, nodes: map[string]bool{}}
			m[key] = p
		}
		p.pods++
		p.nodes[node] = true
	}
	for _, p := range pods {
		if p.GetNode() == "" {
			if waiting++; waiting <= nodesOfWorkload {
				pending.Rows = append(pending.Rows, []cell{head(p.GetName()).to(podLink(namespace + "/" + p.GetName())), words(p.GetQueue()),
					number(v.ageOf(p.GetCreated()))})
			}
			continue
		}
		placed++
		count1(byZone, cmp.Or(p.GetZone(), "(no zone)"), "", p.GetNode())
		count1(byNode, p.GetNode(), p.GetZone(), p.GetNode())
	}
	for _, p := range byPods(byZone) {
		zones.Rows = append(zones.Rows, []cell{head(p.name), number(count(p.pods)), number(percent(float64(p.pods), float64(placed))),
			number(count(len(p.nodes)))})
	}
	list := byPods(byNode)
	for _, p := range list[:min(len(list), nodesOfWorkload)] {
		nodes.Rows = append(nodes.Rows, []cell{head(p.name), words(cmp.Or(p.zone, "–")), number(count(p.pods))})
	}
	if more := len(list) - nodesOfWorkload; more > 0 {
		nodes.LeftOut = plural(more, "node") + " more not shown."
	}
	if more := waiting - nodesOfWorkload; more > 0 {
		pending.LeftOut = plural(more, "pod") + " more not shown."
	}
	return zones, nodes, pending
}

func byPods(m map[string]*place) []*place {
	var list []*place
	for _, p := range m {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *place) int { return cmp.Or(cmp.Compare(b.pods, a.pods), strings.Compare(a.name, b.name)) })
	return list
}
