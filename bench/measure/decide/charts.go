package main

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawn are the sides that charts show, with their colours.
func drawn() []struct {
	side, label string
	colour      color.Color
} {
	return []struct {
		side, label string
		colour      color.Color
	}{
		{Upstream, "upstream's plugins, all nodes", color.RGBA{R: 0xb0, G: 0xb0, B: 0xb0, A: 0xff}},
		{Sampled, "upstream's plugins, sampled", color.RGBA{R: 0x60, G: 0x60, B: 0x60, A: 0xff}},
		{Workers, "ours, workers over gRPC", color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}},
	}
}

// charts draws pods decided a second: the workloads of each cluster, and each workload over the clusters.
func (r *Report) charts(prefix string) error {
	for _, cluster := range r.clusters() {
		p, err := r.bars(cluster)
		if err != nil {
			return fmt.Errorf("chart of %s nodes: %w", cluster, err)
		}
		width := vg.Length(len(r.on(cluster)))*1.6*vg.Centimeter + 4*vg.Centimeter
		if err := save(p, width, fmt.Sprintf("%s-%s.svg", prefix, cluster)); err != nil {
			return err
		}
	}
	p, err := r.lines()
	if err != nil {
		return fmt.Errorf("chart of clusters: %w", err)
	}
	return save(p, 26*vg.Centimeter, prefix+"-nodes.svg")
}

// save writes a chart as SVG, whatever the name looks like.
func save(p *plot.Plot, width vg.Length, name string) error {
	svg, err := p.WriterTo(width, 14*vg.Centimeter, "svg")
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err := svg.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// spaced puts the legend into the upper right corner and room around what is written.
func spaced(p *plot.Plot) {
	p.Legend.Top, p.Legend.Padding = true, vg.Points(2)
	p.Title.Padding = vg.Points(8)
}

// decades makes an axis logarithmic, from a whole power of ten.
func decades(axis *plot.Axis, least float64) {
	axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	axis.Min = math.Pow(10, math.Floor(math.Log10(least)))
}

// bars are a cluster's workloads beside each other.
func (r *Report) bars(cluster string) (*plot.Plot, error) {
	p, on := plot.New(), r.on(cluster)
	p.Title.Text = fmt.Sprintf("%d nodes: pods decided a second", on[0].Size.Nodes)
	least := r.least(on)
	width := vg.Points(11)
	for i, d := range drawn() {
		values := make(plotter.Values, len(on))
		for j, o := range on {
			values[j] = max(median(o.Sides[d.side], perSecond), least)
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width, bars.Offset = d.colour, 0, width*vg.Length(i-1)
		p.Add(&fromFloor{bars, least})
		p.Legend.Add(d.label, bars)
	}
	names := make([]string, len(on))
	for i, o := range on {
		names[i] = o.Kind
	}
	p.NominalX(names...)
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/5, draw.XRight, draw.YCenter
	p.X.Min, p.X.Max = -0.7, float64(len(on))-0.3
	decades(&p.Y, least)
	p.Y.Max *= 5
	spaced(p)
	return p, nil
}

// least is a power of ten below all figures.
func (r *Report) least(on []*Outcome) float64 {
	least := math.Inf(1)
	for _, o := range on {
		for _, runs := range o.Sides {
			if x := median(runs, perSecond); x > 0 {
				least = min(least, x)
			}
		}
	}
	if math.IsInf(least, 1) {
		return 1
	}
	return math.Pow(10, math.Floor(math.Log10(least)))
}

// fromFloor are bars that begin at the axis' end: a logarithmic axis has no 0.
type fromFloor struct {
	*plotter.BarChart
	floor float64
}

// Plot draws the bars.
func (b *fromFloor) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, v := range b.Values {
		at := x(b.XMin+float64(i)) + b.Offset
		left, right, low, high := at-b.Width/2, at+b.Width/2, y(b.floor), y(v)
		c.FillPolygon(b.Color, c.ClipPolygonXY([]vg.Point{{X: left, Y: low}, {X: left, Y: high}, {X: right, Y: high}, {X: right, Y: low}}))
	}
}

// DataRange is what the bars need of the axes.
func (b *fromFloor) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax, _, ymax = b.BarChart.DataRange()
	return xmin, xmax, b.floor, ymax
}

// lines are the workloads over the clusters' nodes, ours, and upstream's of the first workload.
func (r *Report) lines() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "ours with workers: pods decided a second", "nodes", ""
	var kinds []string
	for _, o := range r.Workloads {
		if !slices.Contains(kinds, o.Kind) {
			kinds = append(kinds, o.Kind)
		}
	}
	least := r.least(r.Workloads)
	for i, kind := range kinds {
		if err := r.line(p, kind, Workers, kind, hue(i, len(kinds)), nil); err != nil {
			return nil, err
		}
	}
	if len(kinds) > 0 {
		dashes := []vg.Length{vg.Points(4), vg.Points(3)}
		for _, d := range drawn()[:2] {
			if err := r.line(p, kinds[0], d.side, d.label+": "+kinds[0], d.colour, dashes); err != nil {
				return nil, err
			}
		}
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	if math.IsInf(p.X.Min, 0) || p.X.Min <= 0 {
		p.X.Min, p.X.Max = 1, 10
	}
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	decades(&p.Y, least)
	if !(p.Y.Max > p.Y.Min) {
		p.Y.Max = p.Y.Min * 10
	}
	p.X.Max *= 12 // room for the legend
	spaced(p)
	return p, nil
}

// line adds one side of one workload, if it was measured.
func (r *Report) line(p *plot.Plot, kind, side, label string, colour color.Color, dashes []vg.Length) error {
	var points plotter.XYs
	for _, o := range r.Workloads {
		if y := median(o.Sides[side], perSecond); o.Kind == kind && y > 0 {
			points = append(points, plotter.XY{X: float64(o.Size.Nodes), Y: y})
		}
	}
	if len(points) == 0 {
		return nil
	}
	slices.SortFunc(points, func(a, b plotter.XY) int { return int(a.X - b.X) })
	l, s, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	l.Color, l.Dashes, s.Color, s.Shape = colour, dashes, colour, draw.CircleGlyph{}
	p.Add(l, s)
	p.Legend.Add(label, l, s)
	return nil
}

// hue is the ith of n colours that are as different as possible.
func hue(i, n int) color.Color {
	at := 6 * float64(i) / float64(n)
	wave := func(shift float64) uint8 {
		x := math.Mod(at+shift, 6)
		return uint8(200 * max(0, min(1, math.Abs(x-3)-1)))
	}
	return color.RGBA{R: wave(0), G: wave(4), B: wave(2), A: 0xff}
}
