package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// Check holds the model against what was measured.
type Check struct {
	What     string  `json:"what"`
	Unit     string  `json:"unit"`
	Workers  int     `json:"workers"`
	Measured float64 `json:"measured"`
	Model    float64 `json:"model"`
	// Error is of what was measured, in percent; below 0: the model has less.
	Error float64 `json:"errorPercent"`
}

// Point is what the model says of a number of nodes and workers.
type Point struct {
	Nodes   int `json:"nodes"`
	Workers int `json:"workers"`
	Shards  int `json:"shards"`
	Outcome
}

const (
	// curveBatches are simulated for a point, checkBatches for a check.
	curveBatches = 400
	checkBatches = 2000
)

// model feeds the model, holds it against what was measured, and draws its curves.
func (p *plan) model(report *Report, progress io.Writer) error {
	var err error
	if p.costs != "" {
		report.Costs, err = readCosts(p.costs)
	} else {
		report.Costs, err = p.learned(report)
	}
	if err != nil {
		return err
	}
	if err := p.check(report); err != nil {
		return err
	}
	for _, nodes := range p.ModelNodes {
		for _, workers := range p.ModelWorkers {
			m := &Model{
				Costs: *report.Costs, Latency: p.Latency, Bandwidth: p.BandwidthGbits * 125, Workers: workers, Nodes: nodes,
				Shards: max(p.Shards, workers*p.ModelShards), Replicas: min(p.ModelReplicas, workers), Pods: report.Costs.pods(), Batches: curveBatches, Seed: p.Seed,
			}
			o, err := m.simulate()
			if err != nil {
				return err
			}
			report.Curves = append(report.Curves, Point{nodes, workers, m.Shards, o})
		}
		fmt.Fprintf(progress, "model of %d nodes\n", nodes)
	}
	return nil
}

// pods is how many share a batch.
func (c *Costs) pods() int { return max(int(math.Round(c.PodsPerBatch)), 1) }

// learned are the costs of what was measured with one worker.
func (p *plan) learned(report *Report) (*Costs, error) {
	c, err := learn(report.Probes)
	if err != nil {
		return nil, err
	}
	one := report.decides(1)
	c.Pod = max(median(one, func(d Decide) float64 { return 1e6/d.PerSecond - d.FanMicros }), 0)
	c.PodsPerBatch = median(one, podsPerBatch)
	return &c, nil
}

// readCosts reads those of a report.
func readCosts(name string) (*Costs, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var r struct{ Costs *Costs }
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.Costs == nil {
		return nil, fmt.Errorf("%s: %w", name, errors.New("it has no costs"))
	}
	return r.Costs, nil
}

// here is a model of this machine: messages take what they take on loopback.
func (p *plan) here(c *Costs, workers, pods int) *Model {
	loopback, _ := newLatency("0s") // which can be read
	return &Model{
		Costs: *c, Latency: loopback, Workers: workers, Nodes: p.Nodes, Shards: p.Shards, Replicas: 1,
		Pods: pods, Batches: checkBatches, Seed: p.Seed,
	}
}

// check holds the model against deciding, the workers alone, and batches with and without stalls.
func (p *plan) check(report *Report) error {
	add := func(what, unit string, m *Model, measured float64, figure func(Outcome) float64) error {
		o, err := m.simulate()
		if err != nil {
			return err
		}
		x := Check{What: what, Unit: unit, Workers: m.Workers, Measured: measured, Model: figure(o)}
		x.Error = 100 * (ratio(x.Model, x.Measured) - 1)
		report.Checks = append(report.Checks, x)
		return nil
	}
	rate := func(o Outcome) float64 { return o.PodsPerSecond }
	for _, n := range p.Workers {
		if runs := report.decides(n); len(runs) > 0 {
			pods := max(int(math.Round(median(runs, podsPerBatch))), 1)
			if err := add("decided", "pods/s", p.here(report.Costs, n, pods), median(runs, decidedPerSecond), rate); err != nil {
				return err
			}
		}
	}
	alone := *report.Costs
	alone.Pod = 0
	for _, n := range p.Workers {
		if runs := report.fans(n); len(runs) > 0 {
			if err := add("workers alone", "classes/s", p.here(&alone, n, p.Batch), median(runs, classesPerSecond), rate); err != nil {
				return err
			}
		}
	}
	for _, runs := range report.hedges() {
		h := &runs[0]
		m := p.here(report.Costs, h.Workers, h.Pods)
		m.Replicas = h.Replicas
		if h.Stalled {
			m.StallEvery, m.StallFor = micros(p.StallEvery+p.Stall)*float64(h.Workers), micros(p.Stall)
		}
		if err := add("batch p99, "+h.name(), "µs", m, median(runs, batchP99), func(o Outcome) float64 { return o.P99Micros }); err != nil {
			return err
		}
	}
	return nil
}
