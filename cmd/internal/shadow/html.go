package shadow

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardsched/shardsched/cmd/internal/summary"
)

//go:embed report.css
var reportStyle string

//go:embed report.html
var reportPage string

// policy lets the page have its one style, and nothing else: it has no script, and fetches nothing.
var policy = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(reportStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
})

var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Funcs(template.FuncMap{
		"number": number, "pods": pods, "percent": percent, "seconds": seconds, "meaning": meaning,
		"share": shareText,
		"time":  func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"list":  func(title string, counts []Count) any { return titled{title, counts} },
	}).Parse(reportPage))
})

type titled struct {
	Title  string
	Counts []Count
}

// pageData is what the page is made of.
type pageData struct {
	*Report
	Policy string
	Style  template.CSS
	Regret bars
	Charts []chart
	Last   []pair
}

// WriteHTML writes the report as one page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	d := pageData{Report: r, Policy: policy(), Style: template.CSS(reportStyle), Regret: regretBars(r.Agreement.Regret)}
	if n := len(r.Packing.Points); n > 0 {
		d.Charts, d.Last = charts(r.Packing.Points), lastOf(&r.Packing.Points[n-1])
	}
	return page().Execute(w, d)
}

// meaning says in words what a class is.
func meaning(c Class) string {
	switch c {
	case Same:
		return "both chose the same node"
	case Tie:
		return "their node has the highest score, as ours has"
	case Neither:
		return "neither has a node for it"
	case Lower:
		return "their node has a lower score than ours"
	case Refused:
		return "they chose a node that we would refuse, and we have another"
	case OnlyTheirs:
		return "they chose a node, and we would refuse all"
	case OnlyOurs:
		return "they found no node, and we have one"
	case Victims:
		return "both preempt, and others or elsewhere"
	}
	return ""
}

// Waiting is "10 to 99", or "10,000 and more".
func (q QueueLatency) Waiting() string {
	if q.To == 0 {
		return number(q.From) + " and more"
	}
	return number(q.From) + " to " + number(q.To)
}

func shareText(x float64) string {
	return strconv.FormatFloat(math.Round(1000*x)/10, 'f', -1, 64) + " %"
}

// bars is a histogram as it is drawn; sizes are in the units of its drawing.
type bars struct {
	Bars   []bar
	Height int
	Alt    string
}

type bar struct {
	Label, Count string
	Top, Text    int
	Width, End   int
}

const (
	barStep    = 20
	barLeft    = 110
	longestBar = 430
)

func regretBars(of []RegretBin) (out bars) {
	most, last := 0, 0
	for i, b := range of {
		if most = max(most, b.Pods); b.Pods > 0 {
			last = i
		}
	}
	if most == 0 {
		return out
	}
	of = of[:last+1] // what is higher has none
	var alt []string
	for i, b := range of {
		label := strconv.FormatInt(b.From, 10)
		if b.To != b.From {
			label += "-" + strconv.FormatInt(b.To, 10)
		}
		width := longestBar * b.Pods / most
		if b.Pods > 0 {
			width = max(width, 1)
			alt = append(alt, label+": "+pods(b.Pods))
		}
		out.Bars = append(out.Bars, bar{Label: label, Count: number(b.Pods), Top: i*barStep + 3, Text: i*barStep + 14, Width: width,
			End: barLeft + width + 6})
	}
	out.Height, out.Alt = len(of)*barStep, "Pods by regret. "+strings.Join(alt, ", ")
	return out
}

// chart is two lines over time as they are drawn.
type chart struct {
	Title, Alt   string
	Low, High    string
	From, To     string
	Theirs, Ours string // points of the lines
}

// pair is a figure of both worlds.
type pair struct{ What, Theirs, Ours string }

// line is what a chart draws of a world.
type line struct {
	title string
	value func(*World) float64
	text  func(float64) string
}

// lines are those that have anything to draw in these points.
func lines(last *Point) []line {
	whole := func(x float64) string { return number(int(x)) }
	out := []line{{"Nodes in use", func(w *World) float64 { return float64(w.NodesInUse) }, whole}}
	for _, r := range last.Theirs.Resources {
		of := func(w *World) ResourceShare {
			for _, x := range w.Resources {
				if x.Resource == r.Resource {
					return x
				}
			}
			return ResourceShare{}
		}
		out = append(out, line{"Requested: " + r.Resource, func(w *World) float64 { return of(w).Requested }, shareText},
			line{"Stranded: " + r.Resource, func(w *World) float64 { return of(w).Stranded }, shareText},
			line{"Largest free on a node: " + r.Resource, func(w *World) float64 { return float64(of(w).LargestFree) },
				func(x float64) string { return summary.Amount(r.Resource, int64(x)) }})
	}
	return append(out, line{"Skew of cpu between zones", func(w *World) float64 { return w.Skew }, shareText},
		line{"Pending pods", func(w *World) float64 { return float64(w.Pending) }, whole},
		line{"Minutes that pods were pending, in all", func(w *World) float64 { return w.PendingMinutes }, whole},
		line{"Preempted pods", func(w *World) float64 { return float64(w.Preempted) }, whole})
}

// The place of lines in their drawing.
const (
	lineLeft, lineRight = 60, 390
	lineTop, lineBottom = 10, 140
)

// charts draws all that is not 0 all the time.
func charts(points []Point) (out []chart) {
	from, to := points[0].At, points[len(points)-1].At
	for _, l := range lines(&points[len(points)-1]) {
		most := 0.0
		for i := range points {
			most = max(most, l.value(&points[i].Theirs), l.value(&points[i].Ours))
		}
		if most == 0 {
			continue
		}
		c := chart{Title: l.title, Low: l.text(0), High: l.text(most), From: stamp(from), To: stamp(to)}
		var theirs, ours strings.Builder
		for i := range points {
			x := lineLeft + (lineRight-lineLeft)*part(points[i].At.Sub(from), to.Sub(from))
			draw := func(b *strings.Builder, v float64) {
				fmt.Fprintf(b, "%.1f,%.1f ", x, lineBottom-(lineBottom-lineTop)*v/most)
			}
			draw(&theirs, l.value(&points[i].Theirs))
			draw(&ours, l.value(&points[i].Ours))
		}
		c.Theirs, c.Ours = strings.TrimSpace(theirs.String()), strings.TrimSpace(ours.String())
		first, last := &points[0], &points[len(points)-1]
		text := func(w *World) string { return l.text(l.value(w)) }
		c.Alt = fmt.Sprintf("%s. Theirs: from %s to %s. Ours: from %s to %s.", l.title,
			text(&first.Theirs), text(&last.Theirs), text(&first.Ours), text(&last.Ours))
		out = append(out, c)
	}
	return out
}

func part(x, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return float64(x) / float64(of)
}

func stamp(t time.Time) string { return t.UTC().Format("01-02 15:04:05") }

// lastOf tells of both worlds at one time.
func lastOf(p *Point) (out []pair) {
	for _, l := range lines(p) {
		out = append(out, pair{l.title, l.text(l.value(&p.Theirs)), l.text(l.value(&p.Ours))})
	}
	return out
}
