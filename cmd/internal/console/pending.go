package console

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/util/duration"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// podsOfGroup is how many pods of each group the page of pending pods names, and workloadsShown how many workloads it has in all.
	podsOfGroup    = 10
	workloadsShown = 300
	// fixesShown is how many remedies it tells, and causesOfPod how many causes of one pod are told as one.
	fixesShown  = 3
	causesOfPod = 3
)

func pendingPage() page { return page{path: "pending", title: "Pending", show: showPending} }

// pendingShown is what the page of pending pods shows.
type pendingShown struct {
	Verdict verdict
	// Fixes are what would help most pods, the most first.
	Fixes   []fix
	Filters filters
	Causes  []causeShown
	Facts   []fact
	Ages    table
	Gates   table
	// Source has the command line and the download.
	Source table
}

// fix is what would help, and how many pods.
type fix struct {
	Help, Pods string
	pods       uint64
}

// causeShown is why pods wait, with their workloads.
type causeShown struct {
	ID, Cause, Help, Pods, Oldest string
	Open                          bool
	Workloads                     []workloadShown
	// LeftOut says which of them are not shown; empty: all are.
	LeftOut string
	pods    uint64
	oldest  time.Time
}

// workloadShown is the pods of a workload that wait for one cause.
type workloadShown struct {
	ID, Name, Link, Pods, Oldest, Queues, Detail string
	// Named are its oldest pods; without columns it is one pod, by itself.
	Named table
}

func showPending(v *visit) (any, error) {
	namespace, selector := v.get("namespace"), v.get("selector")
	r, err := v.client.ListPending(v, &pb.ListPendingRequest{Namespace: namespace, LabelSelector: selector, PodsOfGroup: podsOfGroup})
	if err != nil {
		return nil, err
	}
	out := pendingShown{
		Fixes: fixes(r.GetGroups()), Causes: v.causes(r), Ages: v.ages(r), Gates: v.gates(r),
		Filters: filters{Label: "Filter pending pods", Fields: []field{
			{Name: "namespace", Label: "Namespace", Value: namespace},
			{Name: "selector", Label: "Labels", Value: selector, Hint: "app=web,tier!=cache"},
		}},
		Source: table{Download: download("ListPending", "namespace", namespace, "label_selector", selector)},
	}
	if namespace != "" || selector != "" {
		out.Filters.Clear = link("pending")
	}
	words := []string{"pending"}
	if namespace != "" {
		words = append(words, "-n", namespace)
	}
	if selector != "" {
		words = append(words, "-l", selector)
	}
	out.Source.Command = v.command(words...)
	if n := r.GetPodsLeftOut(); n > 0 {
		out.Source.LeftOut = plural(n, "pod") + " more did not fit: choose a namespace or labels."
	}
	out.Verdict = pendingVerdict(r, out.Causes)
	out.Facts = queueFacts(r.GetQueues())
	return out, nil
}

// pendingVerdict says how many pods wait, and why most do.
func pendingVerdict(r *pb.ListPendingResponse, causes []causeShown) verdict {
	if r.GetPods() == 0 {
		return verdict{State: "good", Text: "No such pod is pending."}
	}
	wait := " wait."
	if r.GetPods() == 1 {
		wait = " waits."
	}
	text := plural(r.GetPods(), "pod") + wait
	if len(causes) > 0 {
		text += fmt.Sprintf(" %s (%s) for: %s.", count(causes[0].pods), percent(float64(causes[0].pods), float64(r.GetPods())), causes[0].Cause)
	}
	return verdict{State: "warn", Text: text}
}

// fixes are what would help, by how many pods each would help. To be rid of one of a pod's causes helps it, for each refuses other nodes.
func fixes(groups []*pb.PendingGroup) []fix {
	byHelp := map[string]uint64{}
	for _, g := range groups {
		var told []string
		for _, c := range g.GetCauses() {
			if h := c.GetHelp(); h != "" && !strings.HasPrefix(h, "nothing") && !slices.Contains(told, h) {
				told = append(told, h)
				byHelp[h] += g.GetPods()
			}
		}
	}
	var list []fix
	for help, pods := range byHelp {
		list = append(list, fix{Help: help, Pods: plural(pods, "pod"), pods: pods})
	}
	slices.SortFunc(list, func(a, b fix) int { return cmp.Or(cmp.Compare(b.pods, a.pods), strings.Compare(a.Help, b.Help)) })
	return list[:min(len(list), fixesShown)]
}

// causes are the causes of most pods first, each with its workloads.
func (v *visit) causes(r *pb.ListPendingResponse) []causeShown {
	var list []*causeShown
	known := map[string]*causeShown{}
	for _, g := range r.GetGroups() {
		cause, help, detail := causeTexts(g.GetCauses())
		c := known[cause]
		if c == nil {
			c = &causeShown{ID: "c" + idOf(cause), Cause: cause, Help: help, oldest: g.GetOldest().AsTime()}
			known[cause] = c
			list = append(list, c)
		}
		c.pods += g.GetPods()
		if t := g.GetOldest().AsTime(); t.Before(c.oldest) {
			c.oldest = t
		}
		c.Workloads = append(c.Workloads, v.pendingWorkload(g, c.ID, detail))
	}
	slices.SortStableFunc(list, func(a, b *causeShown) int { return cmp.Compare(b.pods, a.pods) })
	out, left := make([]causeShown, 0, len(list)), workloadsShown
	for i, c := range list {
		if len(c.Workloads) > left {
			c.LeftOut = plural(len(c.Workloads)-left, "workload") + " more not shown: choose a namespace or labels."
			c.Workloads = c.Workloads[:left]
		}
		left -= len(c.Workloads)
		c.Pods, c.Oldest, c.Open = plural(c.pods, "pod"), v.age(c.oldest), i == 0
		out = append(out, *c)
	}
	return out
}

// causeTexts are the causes of a pod without what differs between nodes, what would help, and these differences.
func causeTexts(list []*pb.Cause) (cause, help, detail string) {
	var causes, helps, details []string
	for _, c := range list {
		if len(causes) < causesOfPod {
			causes = append(causes, c.GetCause())
			if c.GetDetail() != "" {
				details = append(details, c.GetDetail())
			}
		}
		if h := c.GetHelp(); h != "" && len(helps) < causesOfPod && !slices.Contains(helps, h) {
			helps = append(helps, h)
		}
	}
	return strings.Join(causes, "; "), strings.Join(helps, "; or "), strings.Join(details, "; ")
}

func (v *visit) pendingWorkload(g *pb.PendingGroup, cause, detail string) workloadShown {
	w := workloadShown{
		Name: "several workloads", Pods: plural(g.GetPods(), "pod"), Oldest: v.age(g.GetOldest().AsTime()), Queues: queuesText(g.GetQueues()),
		Detail: detail,
	}
	switch g.GetKind() {
	case "":
		w.Named = v.namedPods(g)
	case "Pod":
		w.Name, w.Link = "Pod "+g.GetNamespace()+"/"+g.GetName(), link("pod", "namespace", g.GetNamespace(), "name", g.GetName())
	default:
		w.Name = fmt.Sprintf("%s %s/%s", g.GetKind(), g.GetNamespace(), g.GetName())
		w.Link = link("workload", "kind", g.GetKind(), "namespace", g.GetNamespace(), "name", g.GetName())
		w.Named = v.namedPods(g)
	}
	w.ID = cause + "w" + idOf(w.Name+g.GetExample())
	return w
}

// namedPods are the oldest pods of a group.
func (v *visit) namedPods(g *pb.PendingGroup) table {
	t := table{
		Caption: "Pods, the oldest first", Empty: "No pod is named.",
		Columns: []column{{Name: "Pod"}, {Name: "Age", Number: true}, {Name: "Queue"}, {Name: "Attempts", Number: true}},
	}
	if more := g.GetPods() - uint64(len(g.GetOldestPods())); more > 0 {
		t.LeftOut = plural(more, "younger pod") + " not shown."
	}
	for _, p := range g.GetOldestPods() {
		queue := words(p.GetQueue())
		switch {
		case p.GetBackoffUntil() != nil:
			queue = queue.below("backs off until " + v.clock(p.GetBackoffUntil().AsTime()))
		case p.GetGatedBy() != "":
			queue = queue.below("held back by " + p.GetGatedBy())
		case p.GetNominated() != "":
			queue = queue.below("nominated to " + p.GetNominated())
		}
		t.Rows = append(t.Rows, []cell{head(p.GetPod()).to(podLink(p.GetPod())), number(v.age(p.GetCreated().AsTime())), queue,
			number(count(p.GetAttempts()))})
	}
	return t
}

// podLink leads to the page of a pod, namespace/name.
func podLink(pod string) string {
	namespace, name, _ := strings.Cut(pod, "/")
	return link("pod", "namespace", namespace, "name", name)
}

// age is how long ago a moment is.
func (v *visit) age(t time.Time) string { return duration.HumanDuration(max(v.now.Sub(t), 0)) }

// ageOf is age of a moment that may be unknown.
func (v *visit) ageOf(t *timestamppb.Timestamp) string {
	if t == nil {
		return "–"
	}
	return v.age(t.AsTime())
}

// idOf makes an element's id of a text, so that what is open stays open.
func idOf(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%x", h.Sum64())
}

// queueOf is how many pods are in one queue, and what that means.
type queueOf struct {
	name, means string
	pods        uint64
}

func queuesOf(q *pb.QueueCounts) []queueOf {
	return []queueOf{
		{"unschedulable", "until a change of the cluster may help", q.GetUnschedulable()},
		{"backoff", "until their backoff is over", q.GetBackoff()},
		{"active", "it is their turn soon", q.GetActive()},
		{"gated", "a gate or a plugin holds them back", q.GetGated()},
		{"in flight", "being tried", q.GetInFlight()},
		{"binding", "they have a node", q.GetBinding()},
	}
}

func queueFacts(q *pb.QueueCounts) (out []fact) {
	for _, x := range queuesOf(q) {
		out = append(out, fact{Name: x.name, Cell: words(count(x.pods)).below(x.means)})
	}
	return out
}

func queuesText(q *pb.QueueCounts) string {
	var parts []string
	for _, x := range queuesOf(q) {
		if x.pods > 0 {
			parts = append(parts, count(x.pods)+" "+x.name)
		}
	}
	return strings.Join(parts, ", ")
}

func (v *visit) ages(r *pb.ListPendingResponse) table {
	t := table{Caption: "Pending pods by age", Empty: "No pod is pending.", Columns: []column{{Name: "Age"}, {Name: "Pods", Number: true}}}
	before := "0s"
	for i, n := range r.GetAges() {
		name := before + " or more"
		if i < len(r.GetAgeBins()) {
			next := duration.HumanDuration(r.GetAgeBins()[i].AsDuration())
			name, before = before+" to "+next, next
		}
		t.Rows = append(t.Rows, []cell{head(name), number(count(n))})
	}
	return t
}

func (v *visit) gates(r *pb.ListPendingResponse) table {
	t := table{
		Caption: "Who holds pods back", Empty: "No pod is held back.",
		Columns: []column{{Name: "Gate"}, {Name: "Plugin"}, {Name: "Pods", Number: true}, {Name: "Oldest", Number: true}},
	}
	for _, g := range r.GetGates() {
		t.Rows = append(t.Rows, []cell{head(cmp.Or(g.GetGate(), "(not named)")), words(g.GetPlugin()), number(count(g.GetPods())),
			number(v.ageOf(g.GetOldest()))})
	}
	return t
}
