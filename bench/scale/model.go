package main

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Model is what is simulated: one coordinator and some workers, each of them one server that does one
// thing at a time, first come, first served.
type Model struct {
	Costs
	Latency Latency `json:"latency"`
	// Bandwidth is the coordinator's, each way, in bytes a µs; 0: no limit.
	Bandwidth float64 `json:"bytesPerMicro"`
	Workers   int     `json:"workers"`
	Nodes     int     `json:"nodes"`
	Shards    int     `json:"shards"`
	// Replicas is how many workers hold each shard.
	Replicas int `json:"replicas"`
	// Pods are those of a batch, each a class of its own.
	Pods int `json:"pods"`
	// StallEvery is the mean time between two stalls of a worker, of StallFor each; 0: none.
	StallEvery float64 `json:"stallEveryMicros"`
	StallFor   float64 `json:"stallForMicros"`
	Batches    int     `json:"batches"`
	Seed       uint64  `json:"seed"`
}

// Outcome is what a simulation comes to.
type Outcome struct {
	PodsPerSecond float64 `json:"podsPerSecond"`
	// P50Micros and P99Micros are of batches, from when they are begun to when they are decided.
	P50Micros float64 `json:"p50Micros"`
	P99Micros float64 `json:"p99Micros"`
	// Coordinator and Worker are the shares of the time in which the coordinator and the busiest worker work.
	Coordinator float64 `json:"coordinatorBusy"`
	Worker      float64 `json:"workerBusy"`
	Hedges      int     `json:"hedges"`
	// Rows are those of the worker that has the most.
	Rows float64 `json:"rowsOfLargest"`
}

// How the product hedges: see package fanout.
const (
	hedgeFactor = 1.5
	hedgeSpare  = 500.0   // µs
	hedgeLate   = 25000.0 // µs, and three times what is expected
)

// simulate runs the model.
func (m *Model) simulate() (Outcome, error) {
	switch {
	case m.Workers < 1 || m.Nodes < 1 || m.Shards < 1 || m.Pods < 1 || m.Batches < 1:
		return Outcome{}, fmt.Errorf("model of %d workers, %d nodes, %d shards, %d pods a batch, %d batches: expected one or more of each",
			m.Workers, m.Nodes, m.Shards, m.Pods, m.Batches)
	case m.Replicas < 1 || m.Replicas > m.Workers:
		return Outcome{}, fmt.Errorf("model of %d replicas: expected 1 to %d", m.Replicas, m.Workers)
	}
	s := newSimulation(m)
	s.begin()
	for s.batches < m.Batches {
		next := heap.Pop(&s.events).(event)
		s.now = next.at
		next.do()
	}
	o := Outcome{
		PodsPerSecond: 1e6 * float64(m.Batches*m.Pods) / s.now, Coordinator: s.coordinator.busy / s.now, Hedges: s.hedges,
	}
	for w := range s.workers {
		o.Worker = max(o.Worker, s.workers[w].busy/s.now)
		o.Rows = max(o.Rows, s.rows(s.firsts[w]))
	}
	slices.Sort(s.took)
	at := func(q float64) float64 { return s.took[int(q*float64(len(s.took)-1)+0.5)] }
	o.P50Micros, o.P99Micros = at(0.5), at(0.99)
	return o, nil
}

// event happens at a time; of those at the same time, in the order in which they were planned.
type event struct {
	at  float64
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// simulation is under way.
type simulation struct {
	*Model
	*rand.Rand
	now         float64
	events      events
	planned     int
	coordinator server
	out, in     server // what the coordinator sends and receives, byte by byte
	workers     []server
	// firsts are the shards that each worker is first for, seconds the other owner of each shard, and
	// sizes the shards' rows.
	firsts  [][]int
	seconds []int
	sizes   []float64

	round   *exchange
	batches int
	took    []float64
	hedges  int
}

// exchange is the question of one batch.
type exchange struct {
	begun   float64
	parts   []*part
	open    int
	hedging int // counts the hedges that were planned; all but the last are void
	hurried bool
}

// part is what one worker is first for.
type part struct {
	worker  int
	shards  []int
	primary *task
	backups []*task
	waiting int // backups that have not answered
	settled bool
	took    float64 // 0: the primary has not answered
}

// task is a request on its way through a worker.
type task struct {
	part   *part
	worker int
	backup bool
	shards int
	rows   float64
	void   bool // nobody waits for it any more
}

func newSimulation(m *Model) *simulation {
	s := &simulation{
		Model: m, Rand: rand.New(rand.NewPCG(m.Seed, uint64(m.Workers)<<32|uint64(m.Nodes))),
		workers: make([]server, m.Workers), firsts: make([][]int, m.Workers), seconds: make([]int, m.Shards), sizes: make([]float64, m.Shards),
	}
	// A node's shard is a hash of its name, and who is first for a shard is so by a hash as well, but for no
	// more than a share of them.
	left := float64(m.Nodes)
	for i := range s.sizes {
		p := 1 / float64(m.Shards-i)
		s.sizes[i] = min(max(math.Round(left*p+s.NormFloat64()*math.Sqrt(left*p*(1-p))), 0), left)
		left -= s.sizes[i]
	}
	order := s.Perm(m.Workers)
	for i, shard := range s.Perm(m.Shards) {
		first := order[i%m.Workers]
		s.firsts[first] = append(s.firsts[first], shard)
		if m.Replicas > 1 {
			s.seconds[shard] = (first + 1 + s.IntN(m.Workers-1)) % m.Workers
		}
	}
	if m.StallEvery > 0 {
		for w := range s.workers {
			s.stall(w)
		}
	}
	return s
}

// plan has something done after a while.
func (s *simulation) plan(after float64, do func()) {
	s.planned++
	heap.Push(&s.events, event{s.now + after, s.planned, do})
}

// trip is how long a message is on its way.
func (s *simulation) trip() float64 { return s.Latency.draw(s.Rand) + s.Trip/2 }

// wire is how long so many bytes take.
func (s *simulation) wire(bytes float64) float64 {
	if s.Bandwidth == 0 {
		return 0
	}
	return bytes / s.Bandwidth
}

// rows are those of some shards.
func (s *simulation) rows(shards []int) (sum float64) {
	for _, x := range shards {
		sum += s.sizes[x]
	}
	return sum
}

// begin begins a batch: every worker that has shards is asked.
func (s *simulation) begin() {
	x := &exchange{begun: s.now}
	s.round = x
	for w, shards := range s.firsts {
		if len(shards) == 0 {
			continue
		}
		p := &part{worker: w, shards: shards}
		p.primary = &task{part: p, worker: w, shards: len(shards), rows: s.rows(shards)}
		x.parts = append(x.parts, p)
		s.ask(p.primary)
	}
	x.open = len(x.parts)
	if s.Replicas > 1 {
		s.hedgeAfter(hedgeLate + 3*s.expected())
	}
}

// expected is how long the largest part should take.
func (s *simulation) expected() (most float64) {
	for _, p := range s.round.parts {
		if !p.settled {
			most = max(most, s.service(p.primary))
		}
	}
	return most
}

// candidates are as many as a class asks for.
func (s *simulation) candidates() float64 { return float64(s.Pods + 1) }

// service is how long a worker takes for a task.
func (s *simulation) service(t *task) float64 {
	pods := float64(s.Pods)
	return s.Serve + pods*(s.Shard*float64(t.shards)+s.Row*t.rows+s.Candidate*offered(s.candidates(), t.rows))
}

// ask sends a task to its worker, once the coordinator gets to it.
func (s *simulation) ask(t *task) {
	s.coordinator.take(s, s.Request/2, func() {
		s.out.take(s, s.wire(s.RequestBytes+float64(s.Pods)*s.ClassBytes), func() {
			s.plan(s.trip(), func() {
				s.workers[t.worker].takeUnless(s, s.service(t), &t.void, func() { s.answer(t) })
			})
		})
	})
}

// answer brings a worker's answer to the coordinator, which merges it.
func (s *simulation) answer(t *task) {
	pods := float64(s.Pods)
	bytes := s.AnswerBytes + pods*(s.ResultBytes+s.CandidateBytes*offered(s.candidates(), t.rows))
	s.plan(s.trip(), func() {
		s.in.take(s, s.wire(bytes), func() {
			if t.void {
				return
			}
			s.coordinator.takeUnless(s, s.Request/2+pods*s.Answer+bytes*s.Byte, &t.void, func() { s.answered(t) })
		})
	})
}

// cancel tells a worker that nobody waits for a task any more.
func (s *simulation) cancel(t *task) {
	t.void = true
	s.plan(s.trip(), func() { s.workers[t.worker].drop(s) })
}

// answered takes in a task that has come back.
func (s *simulation) answered(t *task) {
	p := t.part
	if t.void {
		return
	}
	if t.backup {
		p.waiting--
		if p.waiting > 0 {
			return
		}
		s.cancel(p.primary)
	} else {
		p.took = s.now - s.round.begun
		for _, b := range p.backups {
			s.cancel(b)
		}
	}
	p.settled = true
	if s.round.open--; s.round.open == 0 {
		s.coordinator.take(s, float64(s.Pods)*s.Pod, s.decided)
		return
	}
	s.hurry()
}

// decided ends a batch and begins the next one.
func (s *simulation) decided() {
	s.took = append(s.took, s.now-s.round.begun)
	if s.batches++; s.batches < s.Batches {
		s.begin()
	}
}

// hurry hedges soon where half of the workers have answered.
func (s *simulation) hurry() {
	x := s.round
	if s.Replicas == 1 || x.hurried {
		return
	}
	done, slowest := 0, 0.0
	for _, p := range x.parts {
		if p.took > 0 {
			done++
			slowest = max(slowest, p.took/s.service(p.primary))
		}
	}
	if 2*done < len(x.parts) {
		return
	}
	s.hedgeAfter(hedgeFactor*slowest*s.expected() + hedgeSpare)
}

// hedgeAfter has the other owners asked so long after the batch began, and no sooner.
func (s *simulation) hedgeAfter(d float64) {
	x := s.round
	x.hedging++
	mine := x.hedging
	s.plan(max(x.begun+d-s.now, 0), func() {
		if s.round != x || x.hedging != mine {
			return
		}
		x.hurried = true
		for _, p := range x.parts {
			if !p.settled && len(p.backups) == 0 {
				s.hedge(p)
			}
		}
	})
}

// hedge asks the other owners of a part's shards.
func (s *simulation) hedge(p *part) {
	s.hedges++
	to := map[int]*task{}
	for _, shard := range p.shards {
		w := s.seconds[shard]
		if to[w] == nil {
			to[w] = &task{part: p, worker: w, backup: true}
			p.backups = append(p.backups, to[w])
		}
		to[w].shards++
		to[w].rows += s.sizes[shard]
	}
	p.waiting = len(p.backups)
	for _, b := range p.backups {
		s.ask(b)
	}
}

// stall stops a worker after a while, and again.
func (s *simulation) stall(w int) {
	s.plan(s.ExpFloat64()*s.StallEvery, func() {
		s.workers[w].stop(s, s.StallFor)
		s.stall(w)
	})
}

// server does one thing after the other.
type server struct {
	queue []job
	busy  float64
	// current ends at ends, unless the server stops.
	current *job
	ends    float64
	stopped float64 // until when
}

type job struct {
	took float64
	void *bool // nobody wants it any more; nil: somebody does
	done func()
}

// take does a job after those before it.
func (v *server) take(s *simulation, took float64, done func()) { v.takeUnless(s, took, nil, done) }

// takeUnless does a job unless nobody wants it when its turn comes.
func (v *server) takeUnless(s *simulation, took float64, void *bool, done func()) {
	v.queue = append(v.queue, job{took, void, done})
	v.next(s)
}

// next begins the next job if the server is free.
func (v *server) next(s *simulation) {
	for v.current == nil && len(v.queue) > 0 {
		j := v.queue[0]
		v.queue = v.queue[1:]
		if j.void != nil && *j.void {
			continue
		}
		v.current, v.ends = &j, max(s.now, v.stopped)+j.took
		v.busy += j.took
		v.finish(s)
	}
}

// finish ends the current job when its time has come.
func (v *server) finish(s *simulation) {
	j, at := v.current, v.ends
	s.plan(at-s.now, func() {
		if v.current != j || v.ends != at {
			return // it was stopped meanwhile
		}
		v.current = nil
		j.done()
		v.next(s)
	})
}

// stop has the server do nothing for a while.
func (v *server) stop(s *simulation, lasts float64) {
	from := max(s.now, v.stopped)
	v.stopped = max(v.stopped, s.now+lasts)
	if v.current != nil {
		v.ends += v.stopped - from
		v.finish(s)
	}
}

// drop ends the current job, as soon as the server looks, if nobody wants it.
func (v *server) drop(s *simulation) {
	j := v.current
	if j == nil || j.void == nil || !*j.void {
		return
	}
	if s.now < v.stopped {
		s.plan(v.stopped-s.now, func() { v.drop(s) })
		return
	}
	v.busy -= v.ends - s.now
	v.current = nil
	v.next(s)
}
