package shadow

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/shardsched/shardsched/cmd/internal/summary"
)

// told is how many lines of a list the text has; report.json and report.html have all.
const told = 10

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	r.cluster(&b)
	r.agreement(&b)
	r.latency(&b)
	r.packing(&b)
	r.verdict(&b)
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Report) cluster(b *bytes.Buffer) {
	fmt.Fprintf(b, "%s, %s nodes", wholeTime(r.When.Until.Sub(r.When.Begun)), number(r.Cluster.Nodes))
	for _, s := range r.Cluster.Schedulers {
		fmt.Fprintf(b, ", %s of %s", pods(s.Pods), plain(s.Name))
		if !s.Judged {
			b.WriteString(" (not judged)")
		}
	}
	b.WriteByte('\n')
}

func (r *Report) agreement(b *bytes.Buffer) {
	a := &r.Agreement
	agreed := a.Pods(Same) + a.Pods(Tie) + a.Pods(Neither)
	fmt.Fprintf(b, "agreement: %s same node, tie or none, of %s", percent(agreed, a.Judged), pods(a.Judged))
	if n := a.Pods(Lower); n > 0 {
		low, high := a.regrets()
		fmt.Fprintf(b, "; %s lower by %d-%d points", percent(n, a.Judged), low, high)
		if a.LookedAt > 0 && a.LookedAt < 1 {
			fmt.Fprintf(b, " (they looked at %.0f %% of the nodes)", 100*a.LookedAt)
		}
	}
	fmt.Fprintf(b, "\n  %s on a node that we would refuse, %s where we have no node and they do\n", pods(a.Pods(Refused)),
		pods(a.Pods(OnlyTheirs)))
	fmt.Fprintf(b, "  %s that they left pending and we would have placed, %s with other victims\n", pods(a.Pods(OnlyOurs)),
		pods(a.Pods(Victims)))
	counts(b, "agreed at another state", a.States)
	counts(b, "not judged", a.NotJudged)
	for i := range a.Disagreements[:min(told, len(a.Disagreements))] {
		d := &a.Disagreements[i]
		fmt.Fprintf(b, "  %s  %s/%s  theirs %s, ours %s: %s\n", d.Class, plain(d.Namespace), plain(d.Pod), plain(cmp.Or(d.Theirs, "none")),
			plain(cmp.Or(d.Ours, "none")), plain(d.Why))
	}
	if more := len(a.Disagreements) - told; more > 0 {
		fmt.Fprintf(b, "  and %s more, in --report\n", number(more))
	}
}

// Pods is how many decisions are of a class.
func (a *Agreement) Pods(c Class) int {
	for _, x := range a.Classes {
		if x.Class == c {
			return x.Pods
		}
	}
	return 0
}

// regrets are the lowest and the highest regret above 0, as exactly as the bins have it.
func (a *Agreement) regrets() (low, high int64) {
	for _, x := range a.Regret {
		if x.Pods == 0 || x.To == 0 {
			continue
		}
		if low == 0 {
			low = max(x.From, 1)
		}
		high = x.To
	}
	return low, high
}

func (r *Report) latency(b *bytes.Buffer) {
	l := &r.Latency
	fmt.Fprintf(b, "latency p50/p99: ours %s decided, theirs %s bound\n", l.Ours, l.Theirs)
	c := &r.Cost
	switch {
	case c.Theirs != nil && c.Ours != nil:
		fmt.Fprintf(b, "processor time of a pod: ours %s, theirs %s", seconds(c.Ours.PerPod), seconds(c.Theirs.PerPod))
		if c.Ratio > 0 {
			fmt.Fprintf(b, ", %.1f times ours", c.Ratio)
		}
		b.WriteByte('\n')
	case c.Ours != nil:
		fmt.Fprintf(b, "processor time of a pod: ours %s, theirs not known: %s\n", seconds(c.Ours.PerPod), plain(c.TheirsUnknown))
	}
}

// String is "2.00 ms / 19.0 ms", or a dash where there were no pods.
func (q Quantiles) String() string {
	if q.Pods == 0 {
		return "-"
	}
	return seconds(q.P50) + " / " + seconds(q.P99)
}

func (r *Report) packing(b *bytes.Buffer) {
	p := &r.Packing
	if len(p.Points) == 0 {
		return
	}
	last := &p.Points[len(p.Points)-1]
	theirs, ours := &last.Theirs, &last.Ours
	fmt.Fprintf(b, "packing, real -> own world: nodes in use %s -> %s, pending pods %s -> %s, pods preempted %s -> %s; drift %.1f %%\n",
		number(theirs.NodesInUse), number(ours.NodesInUse), number(theirs.Pending), number(ours.Pending), number(theirs.Preempted),
		number(ours.Preempted), 100*p.Drift)
	counts(b, "left out", p.Left)
	counts(b, "pinned", p.Pinned)
}

func (r *Report) verdict(b *bytes.Buffer) {
	v := &r.Verdict
	if v.Ready {
		b.WriteString("Ready to take over: yes\n")
	} else {
		b.WriteString("Ready to take over: no\n")
	}
	for _, x := range v.Hindrances {
		fmt.Fprintf(b, "  in the way: %s\n", x)
	}
	for _, x := range v.Reservations {
		fmt.Fprintf(b, "  to know: %s\n", x)
	}
	fmt.Fprintf(b, "Next: %s", v.Next)
	if v.Page != "" {
		fmt.Fprintf(b, " (%s)", v.Page)
	}
	b.WriteByte('\n')
}

// String is "crash loops (12 pods)".
func (c Count) String() string {
	if c.Pods == 0 {
		return plain(c.What)
	}
	return fmt.Sprintf("%s (%s)", plain(c.What), pods(c.Pods))
}

// counts writes a line of counts, none where there are none.
func counts(b *bytes.Buffer, what string, all []Count) {
	if len(all) == 0 {
		return
	}
	list := make([]string, len(all))
	for i, c := range all {
		list[i] = c.String()
	}
	fmt.Fprintf(b, "  %s: %s\n", what, strings.Join(list, ", "))
}

// plain is a text of others without what a terminal would obey.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

func number(n int) string { return summary.Count(uint64(max(n, 0))) }

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return number(n) + " pods"
}

// percent is a share that is 100 only where it is all, and 0 only where it is nothing.
func percent(part, whole int) string {
	if whole == 0 {
		return "0 %"
	}
	share := 1000 * part / whole // in thousandths, rounded down
	if share == 0 && part > 0 {
		return "below 0.1 %"
	}
	return strconv.FormatFloat(float64(share)/10, 'f', -1, 64) + " %"
}

func seconds(s float64) string { return summary.Duration(time.Duration(s * float64(time.Second))) }

// wholeTime is a duration without its fractions of a second.
func wholeTime(d time.Duration) string { return d.Round(time.Second).String() }
