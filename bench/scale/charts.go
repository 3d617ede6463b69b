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
	"gonum.org/v1/plot/vg/vgsvg"
)

// chart draws the model's curves over workers: pods a second, and p99 of a batch below it.
func (r *Report) chart(name string) error {
	rates, err := r.curves("pods decided a second", func(p Point) float64 { return p.PodsPerSecond })
	if err != nil {
		return err
	}
	tails, err := r.curves("p99 of a batch, ms", func(p Point) float64 { return p.P99Micros / 1e3 })
	if err != nil {
		return err
	}
	rates.Title.Text = fmt.Sprintf("model: distinct pods, latency %v, %v Gbit/s", r.Options.Latency, r.Options.BandwidthGbits)
	tails.X.Label.Text = "workers, of a core each"
	c := vgsvg.New(18*vg.Centimeter, 22*vg.Centimeter)
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Points(12), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(6)}
	plots := [][]*plot.Plot{{rates}, {tails}}
	for i, row := range plot.Align(plots, tiles, draw.New(c)) {
		plots[i][0].Draw(row[0])
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err := c.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// curves are a line for each number of nodes.
func (r *Report) curves(label string, figure func(Point) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Y.Label.Text = label
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powersOfTwo{}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Padding = vg.Points(2)
	p.Add(plotter.NewGrid())
	for i, nodes := range r.Options.ModelNodes {
		var points plotter.XYs
		for _, x := range r.Curves {
			if x.Nodes == nodes {
				points = append(points, plotter.XY{X: float64(x.Workers), Y: figure(x)})
			}
		}
		l, s, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("chart of %d nodes: %w", nodes, err)
		}
		l.Color = shade(i, len(r.Options.ModelNodes))
		s.Color, s.Shape = l.Color, draw.CircleGlyph{}
		p.Add(l, s)
		p.Legend.Add(fmt.Sprintf("%d nodes", nodes), l, s)
	}
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	if p.Y.Min == p.Y.Max {
		p.Y.Max = 10 * p.Y.Min
	}
	p.X.Max *= 4 // room for the legend
	p.Legend.Top = true
	return p, nil
}

// shade is the ith of n colours, from light to dark.
func shade(i, n int) color.Color {
	at := float64(i+1) / float64(n)
	mix := func(light, dark float64) uint8 { return uint8(light + at*(dark-light)) }
	return color.RGBA{R: mix(160, 0), G: mix(200, 60), B: mix(230, 120), A: 0xff}
}

// powersOfTwo are the ticks of workers.
type powersOfTwo struct{}

// Ticks is part of plot.Ticker.
func (powersOfTwo) Ticks(least, most float64) (out []plot.Tick) {
	for x := math.Exp2(math.Floor(math.Log2(least))); x <= most; x *= 2 {
		out = append(out, plot.Tick{Value: x, Label: fmt.Sprint(x)})
	}
	return slices.DeleteFunc(out, func(t plot.Tick) bool { return t.Value < least })
}
