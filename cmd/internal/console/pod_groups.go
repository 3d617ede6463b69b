package console

import (
	"cmp"
	"fmt"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// podGroupsShown and membersShown are how many pod groups, and members of one, a page has.
const (
	podGroupsShown = 200
	membersShown   = 200
)

func podGroupsPage() page {
	return page{path: "podgroups", title: "Pod groups", live: true, show: showPodGroups}
}

// podGroupsPageShown is what the page of the pod groups shows.
type podGroupsPageShown struct {
	Verdict verdict
	Filters filters
	Facts   []fact
	Groups  table
	// Next is the next page; empty: this is the last.
	Next string
}

// stateWords are the states of pod groups, in the order in which they are told.
func stateWords() []string {
	return []string{"unschedulable", "preempting", "failed", "given_up", "gated", "waiting", "scheduled"}
}

func showPodGroups(v *visit) (any, error) {
	namespace, selector, state := v.get("namespace"), v.get("selector"), v.get("state")
	r, err := v.client.ListPodGroups(v, &pb.ListPodGroupsRequest{
		Namespace: namespace, LabelSelector: selector, State: state, Limit: podGroupsShown, ContinueToken: v.get("from"),
	})
	if err != nil {
		return nil, err
	}
	states := []string{"", "any"}
	for _, s := range stateWords() {
		states = append(states, s, plainState(s))
	}
	out := podGroupsPageShown{
		Filters: filters{Label: "Filter pod groups", Fields: []field{
			{Name: "namespace", Label: "Namespace", Value: namespace},
			{Name: "selector", Label: "Labels", Value: selector, Hint: "team=vision"}, choice("state", "State", state, states...),
		}},
	}
	if namespace != "" || selector != "" || state != "" {
		out.Filters.Clear = link("podgroups")
	}
	counts := map[string]uint64{}
	for _, c := range r.GetStates() {
		counts[c.GetState()] = c.GetPodGroups()
	}
	for _, s := range stateWords() {
		to := link("podgroups", "namespace", namespace, "selector", selector, "state", s)
		out.Facts = append(out.Facts, fact{plainState(s), words(count(counts[s])).to(to)})
	}
	out.Verdict, out.Groups = podGroupsVerdict(r, counts), v.podGroupTable(r)
	if token := r.GetContinueToken(); token != "" {
		out.Next = link("podgroups", "namespace", namespace, "selector", selector, "state", state, "from", token)
	}
	return out, nil
}

// plainState is a state in words.
func plainState(s string) string { return strings.ReplaceAll(s, "_", " ") }

// podGroupsVerdict says how many pod groups do not run.
func podGroupsVerdict(r *pb.ListPodGroupsResponse, counts map[string]uint64) verdict {
	if r.GetNote() != "" {
		return verdict{State: "good", Text: r.GetNote() + "."}
	}
	var all uint64
	for _, n := range counts {
		all += n
	}
	wait := all - counts["scheduled"]
	if wait == 0 {
		return verdict{State: "good", Text: "No pod group waits: " + count(counts["scheduled"]) + " have their nodes."}
	}
	return verdict{State: "warn", Text: count(wait) + " of " + plural(all, "pod group") + " wait."}
}

func (v *visit) podGroupTable(r *pb.ListPodGroupsResponse) table {
	cmd := []string{"get", "podgroups"}
	if ns := v.get("namespace"); ns != "" {
		cmd = append(cmd, "-n", ns)
	} else {
		cmd = append(cmd, "-A")
	}
	if s := v.get("selector"); s != "" {
		cmd = append(cmd, "-l", s)
	}
	t := table{
		Caption: "Pod groups", Empty: "There is no such pod group.", Command: v.command(cmd...),
		Download: download("ListPodGroups", "namespace", v.get("namespace"), "label_selector", v.get("selector"), "state", v.get("state")),
		Columns: []column{{Name: "Pod group"}, {Name: "State"}, {Name: "Needed", Number: true}, {Name: "Exist", Number: true},
			{Name: "Fit", Number: true, Help: "in the last attempt, those with nodes included"}, {Name: "Have nodes", Number: true},
			{Name: "Since"}, {Name: "Verdict"}},
	}
	for _, g := range r.GetPodGroups() {
		name := g.GetNamespace() + "/" + g.GetName()
		t.Rows = append(t.Rows, []cell{
			head(name).to(podGroupLink(g)), podGroupState(g), number(count(int(max(g.GetMinCount(), 1)))), number(count(g.GetExist())),
			number(count(g.GetFit())), number(count(g.GetScheduled())), words(v.ageOf(g.GetSince())), words(g.GetVerdict()),
		})
	}
	return t
}

func podGroupState(g *pb.PodGroupStatus) cell {
	state := map[string]string{"scheduled": "good", "unschedulable": "warn", "failed": "bad", "given_up": "bad"}[g.GetState()]
	return words(plainState(g.GetState())).marked(state)
}

func podGroupLink(g *pb.PodGroupStatus) string {
	return link("podgroup", "namespace", g.GetNamespace(), "name", g.GetName())
}

func podGroupPage() page {
	return page{path: "podgroup", title: "Pod group", hidden: true, active: "podgroups", live: true, show: showPodGroup}
}

// podGroupShown is what the page of a pod group shows.
type podGroupShown struct {
	Name    string // empty: none is named yet
	Verdict verdict
	Filters filters
	Facts   []fact
	Notes   []string
	Reasons table
	Members table
	Next    string // the next page of members; empty: this is the last
}

func showPodGroup(v *visit) (any, error) {
	namespace, name := cmp.Or(v.get("namespace"), "default"), v.get("name")
	out := podGroupShown{Filters: filters{Label: "Choose a pod group", Fields: []field{
		{Name: "namespace", Label: "Namespace", Value: namespace}, {Name: "name", Label: "Pod group", Value: name},
	}}}
	if name == "" {
		out.Verdict = verdict{State: "warn", Text: "Which pod group?"}
		return out, nil
	}
	e, err := v.client.ExplainPodGroup(v, &pb.ExplainPodGroupRequest{Namespace: namespace, Name: name, Limit: membersShown,
		ContinueToken: v.get("from")})
	if err != nil {
		return nil, err
	}
	g := e.GetStatus()
	out.Name, out.Notes = namespace+"/"+name, e.GetNotes()
	out.Verdict = verdict{State: cmp.Or(podGroupState(g).State, "warn"), Text: g.GetVerdict()}
	out.Facts, out.Reasons, out.Members = podGroupFacts(e), podGroupReasons(g), v.podGroupMembers(e)
	if token := e.GetContinueToken(); token != "" {
		out.Next = link("podgroup", "namespace", namespace, "name", name, "from", token)
	}
	return out, nil
}

func podGroupFacts(e *pb.ExplainPodGroupResponse) []fact {
	g := e.GetStatus()
	facts := []fact{
		{"State", podGroupState(g)}, {"Policy", words(cmp.Or(g.GetPolicy(), "no PodGroup"))},
		{"Needed", words(count(int(max(g.GetMinCount(), 1))))},
		{"Exist", words(count(g.GetExist()))}, {"Have nodes", words(count(g.GetScheduled()))}, {"Do not fit", words(count(e.GetDoNotFit()))},
		{"Held back by mates", words(count(e.GetHeldBack()))}, {"Not tried", words(count(e.GetNotTried()))},
		{"Priority", words(fmt.Sprint(g.GetPriority()))},
	}
	if key := e.GetTopologyKey(); key != "" {
		facts = append(facts, fact{"In one domain of", words(key)})
	}
	if keys := e.GetPreferredTopology(); len(keys) > 0 {
		facts = append(facts, fact{"Wanted in one domain of", words(strings.Join(keys, ", or else "))})
	}
	if n := e.GetSliceSize(); n > 0 {
		facts = append(facts, fact{"Slices", words(fmt.Sprintf("%d in one domain of %s", n, e.GetSliceTopology()))})
	}
	if g.GetDomain() != "" {
		facts = append(facts, fact{"Best domain", words(fmt.Sprintf("%s fits %d", g.GetDomain(), g.GetDomainFits()))})
	}
	return facts
}

func podGroupReasons(g *pb.PodGroupStatus) table {
	t := table{
		Caption: "What excludes nodes", Empty: "Nothing is known to.", Columns: []column{{Name: "Reason"}, {Name: "Nodes", Number: true}},
	}
	for _, r := range g.GetReasons() {
		t.Rows = append(t.Rows, []cell{head(r.GetReason()), number(count(r.GetNodes()))})
	}
	return t
}

func (v *visit) podGroupMembers(e *pb.ExplainPodGroupResponse) table {
	g := e.GetStatus()
	name := g.GetNamespace() + "/" + g.GetName()
	t := table{
		Caption: "Members, those first that do not fit", Empty: "No pod names it.", Command: v.command("explain", "podgroup", name),
		Download: download("ExplainPodGroup", "namespace", g.GetNamespace(), "name", g.GetName()),
		Columns: []column{{Name: "Pod"}, {Name: "State"}, {Name: "Node"}, {Name: "Domain"}, {Name: "Queue"}, {Name: "Attempts", Number: true},
			{Name: "Last attempt"}},
	}
	for _, m := range e.GetMembers() {
		state := words(m.GetState())
		if m.GetState() == "does not fit" {
			state = state.marked("warn")
		}
		node := words("–")
		if m.GetNode() != "" {
			node = words(m.GetNode()).to(link("node", "name", m.GetNode()))
		}
		pod := g.GetNamespace() + "/" + m.GetName()
		t.Rows = append(t.Rows, []cell{
			head(pod).to(podLink(pod)), state, node, words(cmp.Or(m.GetDomain(), "–")), words(cmp.Or(m.GetQueue(), "–")),
			number(count(m.GetAttempts())), words(m.GetMessage()),
		})
	}
	return t
}
