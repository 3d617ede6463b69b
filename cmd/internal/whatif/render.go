package whatif

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Rows are a table of the workloads of the change: what each is, what the change does to it, its pods before and after, how many are
// placed before and after, how many pend, and where they are.
func (r *Report) Rows() (rows [][]string) {
	for _, w := range r.Change {
		rows = append(rows, row(w))
	}
	return rows
}

// WriteTable writes the report for a terminal.
func (r *Report) WriteTable(out io.Writer) error {
	b := &strings.Builder{}
	if len(r.Change) > 0 {
		writeColumns(b, append([][]string{{"WORKLOAD", "CHANGE", "PODS", "PLACED", "PENDING", "WHERE"}}, r.Rows()...))
	} else {
		fmt.Fprintln(b, "The change names no workload, and takes no pod off its node.")
	}
	for _, line := range r.Lines() {
		fmt.Fprintln(b, line)
	}
	if d := r.Diff; d != nil && len(d.Workloads) == 0 {
		fmt.Fprintf(b, "\nThe same as with %s.\n", d.With)
	} else if d != nil {
		fmt.Fprintf(b, "\nCompared with %s:\n", d.With)
		writeColumns(b, d.rows())
		for _, line := range d.lines() {
			fmt.Fprintln(b, line)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// WriteMarkdown writes the report for a pull request.
func (r *Report) WriteMarkdown(out io.Writer) error {
	b := &strings.Builder{}
	verdict := "All of the change is placed."
	switch {
	case r.Placed:
	case slices.ContainsFunc(r.Others, func(w Workload) bool { return w.loses() }):
		verdict = "**Not all is placed: pods pend that did not before.**"
	default:
		verdict = "**Not all of the change is placed.**"
	}
	fmt.Fprintf(b, "%s\n\n", verdict)
	if len(r.Change) > 0 {
		writeMarkdownTable(b, append([][]string{{"workload", "change", "pods", "placed", "pending", "where"}}, r.Rows()...))
	}
	writeList(b, r.Lines())
	if d := r.Diff; d != nil && len(d.Workloads) == 0 {
		fmt.Fprintf(b, "\nThe same as with %s.\n", d.With)
	} else if d != nil {
		fmt.Fprintf(b, "\nCompared with %s:\n\n", d.With)
		writeMarkdownTable(b, d.rows())
		writeList(b, d.lines())
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func writeMarkdownTable(b *strings.Builder, rows [][]string) {
	for i, cells := range rows {
		for j := range cells {
			cells[j] = strings.ReplaceAll(cells[j], "|", "\\|")
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintf(b, "|%s\n", strings.Repeat(" --- |", len(cells)))
		}
	}
	fmt.Fprintln(b)
}

func writeList(b *strings.Builder, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(b, "- %s\n", line)
	}
}

func row(w Workload) []string {
	return []string{w.Key.String(), w.What, w.Wanted.String(), w.Placed.String(), fmt.Sprint(w.Pending.After), w.where()}
}

// String is "6", or "6 -> 10" where it changes.
func (p Pair) String() string {
	if p.Before == p.After {
		return fmt.Sprint(p.After)
	}
	return fmt.Sprintf("%d -> %d", p.Before, p.After)
}

// where is "4 nodes: zone-a 2, zone-b 2".
func (w *Workload) where() string {
	if w.OnNodes == 0 {
		return "-"
	}
	text := plural(w.OnNodes, "node")
	var zones []string
	for _, zone := range slices.Sorted(maps.Keys(w.Zones)) {
		name := zone
		if name == "" {
			name = "no zone"
		}
		zones = append(zones, fmt.Sprintf("%s %d", name, w.Zones[zone]))
	}
	if len(zones) > 0 {
		text += ": " + strings.Join(zones, ", ")
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// shownWorkloads is how many of the workloads that the change does not name a text tells of; the JSON has all of them.
const shownWorkloads = 10

// Lines are what there is to say beside the table, a sentence a line.
func (r *Report) Lines() (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, w := range r.Change {
		for _, reason := range w.Reasons {
			say("%s: %s", w.Key, reason)
		}
		if missing := w.Wanted.After - w.Placed.After - w.Pending.After; missing > 0 && w.What != isDeleted {
			say("%s: %s not made%s", w.Key, areNot(missing), because(w.Waits))
		}
		if x := w.Rollout; x != nil && (x.Steps > 0 || !x.Complete || x.Note != "") && w.What != isDeleted {
			say("%s: %s", w.Key, x)
		}
		if w.Kind == "Pod" && w.What == isEvicted && w.Wanted.After == 0 {
			say("%s: it has no workload, and nobody makes it again", w.Key)
		}
	}
	for _, d := range r.Drains {
		lines = append(lines, d.Lines()...)
	}
	pushed := map[Key]bool{}
	for _, p := range r.Preempted {
		pushed[p.Key] = true
		again := "nobody makes them again" + because(p.Why)
		if p.PlacedAgain+p.Pending > 0 {
			again = fmt.Sprintf("made again, %d placed and %d pending", p.PlacedAgain, p.Pending)
		}
		say("pushed out: %s of %s (priority %d), by %s: %s", plural(len(p.Pods), "pod"), p.Key, p.Priority, strings.Join(p.By, ", "), again)
	}
	for _, b := range r.Budgets {
		say("PodDisruptionBudget %s/%s is broken: %d of %d pods are healthy at the worst moment (%d before, %d in the end)",
			b.Namespace, b.Name, b.Lowest, b.Desired, b.Before, b.After)
	}
	for _, w := range r.Others[:min(len(r.Others), shownWorkloads)] {
		switch {
		case pushed[w.Key]:
		case w.Pending.After < w.Pending.Before:
			say("pending before: %s: %d of %d placed now, %s", w.Key, w.Pending.Before-w.Pending.After, w.Pending.Before, w.where())
		default:
			say("changed besides: %s: placed %s, pending %s", w.Key, w.Placed, w.Pending)
		}
	}
	if more := len(r.Others) - shownWorkloads; more > 0 {
		say("changed besides: %s more: -o json has them all", plural(more, "workload"))
	}
	for _, p := range r.StillPending[:min(len(r.StillPending), shownWorkloads)] {
		say("pending before and still: %s: %s", p.Key, whys(p.Reasons))
	}
	if more := r.StillPending[min(len(r.StillPending), shownWorkloads):]; len(more) > 0 {
		pods := 0
		for _, p := range more {
			pods += p.Pods
		}
		say("pending before and still: %s of %s more: -o json has them all", plural(pods, "pod"), plural(len(more), "workload"))
	}
	if r.Nodes.Before != r.Nodes.After {
		say("nodes: %s", r.Nodes)
	}
	for _, x := range r.Room {
		say("%s: %s -> %s requested; largest free slot %s -> %s", x.Resource, percent(x.ShareBefore), percent(x.ShareAfter),
			readable(x.Resource, x.LargestBefore), readable(x.Resource, x.LargestAfter))
	}
	for _, note := range r.Notes {
		say("note: %s", note)
	}
	return lines
}

func pend(n int) string {
	if n == 1 {
		return "1 pod pends"
	}
	return fmt.Sprintf("%d pods pend", n)
}

func areNot(n int) string {
	if n == 1 {
		return "1 pod is"
	}
	return fmt.Sprintf("%d pods are", n)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// String is a sentence.
func (x *Rollout) String() string {
	text := fmt.Sprintf("rollout is over after %s: %s of the new template", plural(x.Steps, "step"), plural(x.Updated, "pod"))
	if !x.Complete {
		text = fmt.Sprintf("rollout is stuck after %s, with %s placed and %s left: %s", plural(x.Steps, "step"),
			plural(x.Updated, "new pod"), plural(x.Old, "old one"), x.Stuck)
	}
	if x.Note != "" {
		text += "; " + x.Note
	}
	return text
}

// String is "2 pods pend: cpu is full everywhere; would help: 1 more node".
func (r Reason) String() string {
	text := fmt.Sprintf("%s: %s", pend(r.Pods), r.Why)
	if r.Help != "" {
		text += "; would help: " + r.Help
	}
	return text
}

func whys(reasons []Reason) string {
	var parts []string
	for _, r := range reasons {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, "; ")
}

// Lines are what there is to say of a drain.
func (d *Drain) Lines() (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if len(d.Left) == 0 {
		say("drain of %s: it is empty%s", d.Node, d.stay("but for"))
	} else {
		say("drain of %s: %s left%s", d.Node, areNot(len(d.Left)), d.stay("besides"))
	}
	for _, x := range d.Left {
		say("drain of %s: %s stays: %s", d.Node, x.Pod, x.Why)
	}
	if len(d.Forced) > 0 {
		say("drain of %s: kubectl asks for --force, for these have no workload: %s", d.Node, some(d.Forced))
	}
	if len(d.Emptied) > 0 {
		say("drain of %s: kubectl asks for --delete-emptydir-data, for what these have in emptyDir volumes is lost: %s", d.Node, some(d.Emptied))
	}
	return lines
}

// stay tells of the pods that a drain leaves.
func (d *Drain) stay(besides string) string {
	if d.Daemons == 0 {
		return ""
	}
	return fmt.Sprintf(", %s %s of DaemonSets or the kubelet's own", besides, plural(d.Daemons, "pod"))
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", math.Round(share*100)) }

// readable is a quantity as people read it: memory in Mi or Gi.
func readable(name, text string) string {
	q, err := resource.ParseQuantity(text)
	if err != nil || name != "memory" {
		return text
	}
	const gi, mi = 1 << 30, 1 << 20
	switch n := q.Value(); {
	case n >= 10*gi:
		return fmt.Sprintf("%dGi", n/gi)
	case n >= mi:
		return fmt.Sprintf("%dMi", n/mi)
	}
	return text
}

// writeColumns writes rows in columns as wide as their widest cells.
func writeColumns(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range rows {
		for i, cell := range r {
			b.WriteString(cell)
			if i < len(r)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+3))
			}
		}
		b.WriteByte('\n')
	}
}
