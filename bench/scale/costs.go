package main

import (
	"errors"
	"fmt"
	"math"
)

// Costs are what deciding takes, in µs of CPU and in bytes: all that the model knows of the product.
type Costs struct {
	// Of the coordinator: a pod, apart from asking about it; a request and its answer; a class in an
	// answer; a byte of an answer.
	Pod     float64 `json:"podMicros"`
	Request float64 `json:"requestMicros"`
	Answer  float64 `json:"answerMicros"`
	Byte    float64 `json:"byteMicros"`
	// Of a worker: a request; a class in a shard; a class in a row; a candidate that it names.
	Serve     float64 `json:"serveMicros"`
	Shard     float64 `json:"shardMicros"`
	Row       float64 `json:"rowMicros"`
	Candidate float64 `json:"candidateMicros"`
	// On the wire, to a worker and back: a request, and a class in it; an answer, a class and a
	// candidate in it.
	RequestBytes   float64 `json:"requestBytes"`
	ClassBytes     float64 `json:"classBytes"`
	AnswerBytes    float64 `json:"answerBytes"`
	ResultBytes    float64 `json:"resultBytes"`
	CandidateBytes float64 `json:"candidateBytes"`
	// Trip is what a round over loopback takes beyond all that, there and back.
	Trip float64 `json:"tripMicros"`
	// PodsPerBatch are as many as shared a batch where the costs were measured.
	PodsPerBatch float64 `json:"podsPerBatch"`
}

// probe is how a round is made whose cost is measured, of one worker.
type probe struct{ nodes, shards, classes, candidates int }

// probes differ in all that costs something.
func probes(o *Options) []probe {
	few := min(1000, o.Nodes)
	return []probe{
		{o.Nodes, o.Shards, o.Batch, o.Batch + 1},
		{o.Nodes, o.Shards, 1, 2},
		{max(o.Nodes/5, 1), o.Shards, o.Batch, o.Batch + 1},
		{max(o.Nodes/5, 1), o.Shards, o.Batch, 8 * (o.Batch + 1)},
		{few, o.Shards, o.Batch, o.Batch + 1},
		{few, 4 * o.Shards, o.Batch, o.Batch + 1},
		{few, o.Shards, o.Batch, 8 * (o.Batch + 1)},
		{few, o.Shards, 1, 2},
	}
}

// offered is how many candidates an answer names of a class whose rows are all alike.
func offered(candidates, rows float64) float64 { return min(candidates, rows) }

// learn finds the costs that explain rounds of one worker best.
func learn(fans []Fan) (c Costs, err error) {
	var worker, coordinator, to, from []equation
	for _, f := range fans {
		if f.Workers != 1 {
			return c, fmt.Errorf("costs are of rounds with one worker, not %d", f.Workers)
		}
		classes, rows := float64(f.Classes), float64(f.Rows)
		named := classes * offered(float64(f.Candidates), rows)
		worker = append(worker, equation{[]float64{1, classes * float64(f.Shards), classes * rows, named}, f.WorkerMicros[0]})
		coordinator = append(coordinator, equation{[]float64{1, classes, f.FromWorkers}, f.CoordinatorMicros})
		to = append(to, equation{[]float64{1, classes}, f.ToWorkers})
		from = append(from, equation{[]float64{1, classes, named}, f.FromWorkers})
	}
	for _, fit := range []struct {
		equations []equation
		into      []*float64
	}{
		{worker, []*float64{&c.Serve, &c.Shard, &c.Row, &c.Candidate}},
		{coordinator, []*float64{&c.Request, &c.Answer, &c.Byte}},
		{to, []*float64{&c.RequestBytes, &c.ClassBytes}},
		{from, []*float64{&c.AnswerBytes, &c.ResultBytes, &c.CandidateBytes}},
	} {
		found, err := solve(fit.equations)
		if err != nil {
			return c, err
		}
		for i, x := range found {
			*fit.into[i] = x
		}
	}
	for _, f := range fans {
		rest := f.P50Micros - f.WorkerMicros[0] - f.CoordinatorMicros
		if f.Classes == 1 && rest > 0 && (c.Trip == 0 || rest < c.Trip) {
			c.Trip = rest
		}
	}
	return c, nil
}

// equation says that the sum of the factors, each times its cost, is the value.
type equation struct {
	factors []float64
	value   float64
}

// solve finds the costs, none of them below 0, for which the squares of the relative errors add up to the
// least: costs that would be negative are left out, the most negative one first.
func solve(equations []equation) ([]float64, error) {
	n := len(equations[0].factors)
	in := make([]bool, n)
	for i := range in {
		in[i] = true
	}
	scaled, scale := evened(equations)
	for range n {
		x, err := leastSquares(scaled, in)
		if err != nil {
			return nil, err
		}
		worst := 0
		for i := range x {
			if x[i] < x[worst] {
				worst = i
			}
		}
		if x[worst] >= 0 {
			for i := range x {
				x[i] /= scale[i]
			}
			return x, nil
		}
		in[worst] = false
	}
	return nil, errors.New("no costs explain what was measured")
}

// evened divides each factor by the largest of its kind, so that how large they are makes no difference.
func evened(equations []equation) (out []equation, scale []float64) {
	scale = make([]float64, len(equations[0].factors))
	for _, e := range equations {
		for i, f := range e.factors {
			scale[i] = max(scale[i], f)
		}
	}
	for _, e := range equations {
		factors := make([]float64, len(e.factors))
		for i, f := range e.factors {
			factors[i] = f / scale[i]
		}
		out = append(out, equation{factors, e.value})
	}
	return out, scale
}

// leastSquares solves the normal equations of the factors that are in; the others' costs are 0.
func leastSquares(equations []equation, in []bool) ([]float64, error) {
	n := len(in)
	m := make([][]float64, n) // with the right side as its last column
	for i := range m {
		m[i] = make([]float64, n+1)
		if !in[i] {
			m[i][i] = 1
			continue
		}
		for _, e := range equations {
			if e.value <= 0 {
				return nil, fmt.Errorf("%v was measured where something is used up", e.value)
			}
			weight := e.factors[i] / (e.value * e.value)
			for j := range n {
				if in[j] {
					m[i][j] += weight * e.factors[j]
				}
			}
			m[i][n] += weight * e.value
		}
	}
	return eliminate(m)
}

// eliminate solves linear equations, a row each with its right side as the last column.
func eliminate(m [][]float64) ([]float64, error) {
	n := len(m)
	largest := 0.0
	for i := range n {
		largest = max(largest, math.Abs(m[i][i]))
	}
	for i := range n {
		best := i
		for k := i + 1; k < n; k++ {
			if math.Abs(m[k][i]) > math.Abs(m[best][i]) {
				best = k
			}
		}
		m[i], m[best] = m[best], m[i]
		if math.Abs(m[i][i]) <= 1e-12*largest {
			return nil, errors.New("what was measured does not tell the costs apart")
		}
		for k := range n {
			if k == i {
				continue
			}
			by := m[k][i] / m[i][i]
			for j := i; j <= n; j++ {
				m[k][j] -= by * m[i][j]
			}
		}
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = m[i][n] / m[i][i]
	}
	return x, nil
}
